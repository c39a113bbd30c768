// Question: "nvidia-smi shows used GPU memory but no process: does a CUDA context that I created keep it?"
//
// The driver API, with the program's own contexts and the usual error handling: each step returns early when it fails.
// Here the second step requests more memory than any GPU has, and the early return leaks the table of the first
// step.
//
// True report: one leak of 16 MiB, allocated in make_table. The failed request allocated nothing.
//   without arguments  the table is left behind when the second step fails
//   --destroy          the context is destroyed too: the table is a leak all the same
//   --clean            the table is freed before the context is destroyed: nothing
//
// run:
// expect: leak bytes=16777216 count=1 function=make_table cause=error-return
// run: --destroy
// expect: leak bytes=16777216 count=1 function=make_table cause=error-return
// run: --clean
// expect: clean
#include <cuda.h>

#include <cstdio>
#include <cstring>

namespace {

CUcontext create_context(CUdevice device) {
  CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
  CUresult status = cuCtxCreate(&context, nullptr, 0, device);
#else
  CUresult status = cuCtxCreate(&context, 0, device);
#endif
  return status == CUDA_SUCCESS ? context : nullptr;
}

}  // namespace

__attribute__((noinline)) CUdeviceptr make_table(size_t bytes) {
  CUdeviceptr table = 0;
  CUresult status = cuMemAlloc(&table, bytes);  // leak-here
  return status == CUDA_SUCCESS ? table : 0;
}

// Returns false when the GPU cannot do the work. The caller must then free the table, which is easily
// forgotten.
__attribute__((noinline)) bool interpolate(CUdeviceptr table) {
  constexpr size_t kMoreThanAnyGpuHas = size_t{1} << 50;
  CUdeviceptr scratch = 0;
  if (cuMemAlloc(&scratch, kMoreThanAnyGpuHas) != CUDA_SUCCESS) return false;
  cuMemcpyDtoD(scratch, table, 4096);
  cuMemFree(scratch);
  return true;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  CUdevice device = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) {
    std::fputs("no CUDA device\n", stderr);
    return 1;
  }
  CUcontext context = create_context(device);
  if (context == nullptr) return 1;
  CUdeviceptr table = make_table(size_t{16} << 20);
  if (!interpolate(table)) std::puts("not enough GPU memory, giving up");
  if (std::strcmp(mode, "--clean") == 0) cuMemFree(table);
  if (*mode != '\0') cuCtxDestroy(context);
  return 0;
}
