// Question: "memory does not clear, so I free it twice to be sure. Does it help?"
//
// The second cudaFree fails, and its error code stays in the runtime until a later, unrelated call returns it. culprit
// shows the second free, the first free, and the allocation.
//
// True report: no leak, one error: a double free in close_session.
//
// run:
// expect: error double-free function=close_session
#include "examples/check.h"

EXAMPLE_NOINLINE void* open_session() {
  void* buffer = nullptr;
  check(cudaMalloc(&buffer, size_t{8} << 20), "open the session");
  return buffer;
}

EXAMPLE_NOINLINE void finish_work(void* buffer) { check(cudaFree(buffer), "finish"); }

EXAMPLE_NOINLINE void close_session(void* buffer) {
  cudaError_t status = cudaFree(buffer);
  std::printf("freed once more: %s\n", cudaGetErrorString(status));
}

int main() {
  void* buffer = open_session();
  finish_work(buffer);
  close_session(buffer);
  return 0;
}
