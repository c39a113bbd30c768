// Question: "out of memory with no process, and my own code frees everything. Can a library leak?"
//
// It can. third_normalize (out_of_memory_third_party.cpp) looks innocent; the library is built without debug
// information and stripped, as bought ones are. The report names the library, its exported function and the line of
// OUR code that called it.
//
// True report: one leak of 96 MiB in 3 allocations, in libthird.so, third_normalize, called from normalize_batch.
// Nothing from load_batch.
//
// run:
// expect: leak bytes=100663296 count=3 function=third_normalize module=libthird.so caller=normalize_batch
// api=cudaMalloc
#include "examples/check.h"

extern "C" int third_normalize(float* data, size_t count);

EXAMPLE_NOINLINE float* load_batch(size_t count) {
  float* batch = nullptr;
  check(cudaMalloc(&batch, count * sizeof(float)), "load a batch");
  return batch;
}

EXAMPLE_NOINLINE void normalize_batch(float* batch, size_t count) {
  int status = third_normalize(batch, count);  // leak-here
  if (status != 0) std::printf("third_normalize: error %d\n", status);
}

int main() {
  constexpr size_t kCount = size_t{8} << 20;
  for (int i = 0; i < 3; ++i) {
    float* batch = load_batch(kCount);
    normalize_batch(batch, kCount);
    check(cudaFree(batch), "free the batch");
  }
  std::puts("done");
  return 0;
}
