// Question: "nvidia-smi shows used GPU memory but no process: is managed memory the reason?"
//
// Managed memory belongs to the process like other memory. Its pages move between host and GPU, so that nvidia-smi's
// figure differs from the sizes that were requested. culprit counts the requested sizes that were not freed.
//
// True report: one leak of 192 MiB in 3 allocations of managed memory (cudaMallocManaged), all from load_field. With
// --clean: nothing.
//
// run:
// expect: leak bytes=201326592 count=3 function=load_field api=cudaMallocManaged kind=managed
// run: --clean
// expect: clean
#include "examples/check.h"

EXAMPLE_NOINLINE float* load_field(size_t bytes, float value) {
  float* field = nullptr;
  check(cudaMallocManaged(&field, bytes), "allocate a field");  // leak-here
  for (size_t i = 0; i < bytes / sizeof(float); i += 1024) field[i] = value;
  return field;
}

int main(int argc, char** argv) {
  constexpr int kFields = 3;
  constexpr size_t kFieldBytes = size_t{64} << 20;
  float* fields[kFields];
  for (int i = 0; i < kFields; ++i) fields[i] = load_field(kFieldBytes, static_cast<float>(i));
  check(cudaDeviceSynchronize(), "wait for the GPU");
  std::printf("first values: %g %g %g\n", fields[0][0], fields[1][0], fields[2][0]);
  if (has_argument(argc, argv, "--clean")) {
    for (float* field : fields) check(cudaFree(field), "free a field");
  }
  return 0;
}
