// Question: "out of memory with no process, and my own code frees everything. Can a library leak?"
//
// It can. third_normalize (out_of_memory_third_party.cpp) keeps a buffer. The library has no debug information and is
// stripped, as commercial ones are. The report names the library, its exported function, and the line of the
// program's code that called it.
//
// True report: one leak of 96 MiB in 3 allocations, in third_normalize of libthird.so, called from normalize_batch.
// There is no leak of load_batch.
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
