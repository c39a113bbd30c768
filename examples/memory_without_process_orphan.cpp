// Question: "nvidia-smi shows 10 GiB used by a process that does not exist any more ([Not Found]). Whose is it?"
//
// Memory without a process exists: a forked child keeps the inherited /dev/nvidia* descriptors open, and with them
// the memory of its killed parent. The memory is freed when the child ends. (`sudo fuser -v /dev/nvidia*` names the
// child.)
//
//   memory_without_process_orphan [seconds]      life of the child after its parent's end, by default 1 second
//
// True report: the process ended without its exit handlers (`culprit run` says: killed by SIGKILL), and 256 MiB from
// load_weights were live. There is no report of the child,
// because it never called CUDA.
//
// run:
// expect: leak bytes=268435456 count=1 function=load_weights
// expect: ended unknown
// exit: SIGKILL
#include <signal.h>
#include <unistd.h>

#include "examples/check.h"

EXAMPLE_NOINLINE char* load_weights(size_t bytes) {
  char* weights = nullptr;
  check(cudaMalloc(&weights, bytes), "allocate the weights");  // leak-here
  check(cudaMemset(weights, 1, bytes), "load the weights");
  return weights;
}

int main(int argc, char** argv) {
  int seconds = argc > 1 ? std::atoi(argv[1]) : 1;
  char* weights = load_weights(size_t{256} << 20);
  check(cudaDeviceSynchronize(), "wait for the GPU");
  std::printf("weights at %p; the process %d is killed, a child stays for %d s\n", static_cast<void*>(weights),
              static_cast<int>(getpid()), seconds);
  std::fflush(stdout);
  if (fork() == 0) {
    // _exit: the child must not run the exit handlers of a CUDA program that it never was.
    sleep(static_cast<unsigned>(seconds));
    _exit(0);
  }
  raise(SIGKILL);
  return 0;
}
