// Loads device code and allocates 11001 bytes, whose only pointer ends where the argument says:
//
//   lost               nowhere, after a kernel ran
//   variable           a __device__ variable; constant, managed, second: other variables of the same code
//   library, library-constant  a variable of a library (cuLibraryLoadData)
//   library-unused     nowhere; a library that nothing was asked of is loaded
//   image-gone         a variable of code whose image is freed; image-gone-lost: nowhere
//   many               a variable of the last of 40 modules; many-lost: nowhere
//   file FILE          a variable of code from that file, which the program writes and deletes
//   unloaded           a variable of code that is unloaded
//   heap               the same as lost, but the kernel can take memory from the heap of kernels
//   wait               as `variable`; prints "ready", and ends at the end of stdin; wait-lost: as `lost`
//   wait-for-other     in a variable; a kernel waits for one on another stream, which follows the end of stdin
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"

namespace {

// A kernel that stores its argument. The simulated driver takes any image, and runs none.
const char kImage[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    "// .global .align 8 .u64 in_a_comment;\n"
    ".visible .global .align 8 .u64 kept;\n"
    ".global .align 8 .b8 table[64];\n"
    ".visible .const .align 8 .u64 fixed;\n"
    ".visible .global .attribute(.managed) .align 8 .u64 shared_with_host;\n"
    ".visible .entry work(.param .u64 memory) {\n"
    "  .reg .b64 %rd<2>;\n  ld.param.u64 %rd0, [memory];\n  st.global.u64 [kept], %rd0;\n  ret;\n}\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry spin(.param .u64 flag) {\n"
    "  .reg .b64 %rd<2>;\n  .reg .b32 %r<2>;\n  .reg .pred %p<2>;\n  ld.param.u64 %rd0, [flag];\n"
    "again:\n  ld.volatile.global.u32 %r0, [%rd0];\n  setp.eq.u32 %p0, %r0, 0;\n  @%p0 bra again;\n  ret;\n}\n"
    ".visible .entry set(.param .u64 flag) {\n"
    "  .reg .b64 %rd<2>;\n  .reg .b32 %r<2>;\n  ld.param.u64 %rd0, [flag];\n  mov.u32 %r0, 1;\n"
    "  st.volatile.global.u32 [%rd0], %r0;\n  ret;\n}\n";

const char kHeapImage[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".extern .func (.param .b64 memory) malloc (.param .b64 bytes);\n"
    ".visible .entry nothing() {\n"
    "  .param .b64 bytes;\n  .param .b64 memory;\n  .reg .b64 %rd<2>;\n  mov.u64 %rd0, 64;\n"
    "  st.param.b64 [bytes], %rd0;\n  call.uni (memory), malloc, (bytes);\n  ret;\n}\n";

CUmodule g_module = nullptr;
CUlibrary g_library = nullptr;
CUmodule g_many[40];
CUstream g_streams[2];
void* g_flag = nullptr;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void load(const void* image) { CHECKED(cuModuleLoadData(&g_module, image)); }

SUBJECT_FUNCTION void launch(CUmodule module, const char* name, void* argument, CUstream stream) {
  CUfunction function = nullptr;
  CHECKED(cuModuleGetFunction(&function, module, name));
  void* arguments[] = {&argument};
  CHECKED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
}

SUBJECT_FUNCTION void run(CUmodule module, const char* name, void* argument) {
  launch(module, name, argument, nullptr);
  CHECKED(cudaDeviceSynchronize());
}

SUBJECT_FUNCTION void begin_to_wait() {
  load(kImage);
  for (CUstream& stream : g_streams) CHECKED(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  g_flag = allocate_here();
  CHECKED(cudaMemset(g_flag, 0, 4));
  run(g_module, "nothing", nullptr);
  launch(g_module, "set", static_cast<char*>(g_flag) + 1024, g_streams[1]);  // loads it
  launch(g_module, "spin", g_flag, g_streams[0]);
}

SUBJECT_FUNCTION void end_the_wait() {
  launch(g_module, "set", g_flag, g_streams[1]);
  CHECKED(cuStreamSynchronize(g_streams[0]));
}

SUBJECT_FUNCTION void store(CUdeviceptr variable, void* pointer) {
  CHECKED(cuMemcpyHtoD(variable, &pointer, sizeof(pointer)));
}

SUBJECT_FUNCTION void store(CUmodule module, const char* name, void* pointer) {
  CUdeviceptr variable = 0;
  size_t bytes = 0;
  CHECKED(cuModuleGetGlobal(&variable, &bytes, module, name));
  store(variable, pointer);
}

// By the kernel itself, where kernels run: then no function asks for the variable.
SUBJECT_FUNCTION void keep_by_kernel(CUmodule module) {
  void* pointer = allocate_here();
  run(module, "work", pointer);
  cudaDeviceProp properties = {};
  CHECKED(cudaGetDeviceProperties(&properties, 0));
  if (std::strstr(properties.name, "imulated") != nullptr) store(module, "kept", pointer);
}

SUBJECT_FUNCTION void keep_in_library(const char* name) {
  CHECKED(cuLibraryLoadData(&g_library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUdeviceptr variable = 0;
  size_t bytes = 0;
  CHECKED(cuLibraryGetGlobal(&variable, &bytes, g_library, name));
  store(variable, allocate_here());
}

SUBJECT_FUNCTION void load_and_free_image() {
  char* image = strdup(kImage);
  load(image);
  std::memset(image, 'x', sizeof(kImage) - 1);
  free(image);
}

SUBJECT_FUNCTION void load_file(const char* path) {
  FILE* file = std::fopen(path, "we");
  CHECKED(file == nullptr ? 1 : 0);
  CHECKED(std::fputs(kImage, file) < 0 ? 1 : 0);
  CHECKED(std::fclose(file));
  CHECKED(cuModuleLoad(&g_module, path));
  CHECKED(unlink(path));
}

SUBJECT_FUNCTION void lose() { store(g_module, "kept", nullptr), allocate_here(); }

SUBJECT_FUNCTION void go(const std::string& how, const char* path) {
  CHECKED(cudaFree(nullptr));
  if (how == "lost" || how == "wait-lost" || how == "library-unused") {
    load(kImage);
    if (how == "library-unused")
      CHECKED(cuLibraryLoadData(&g_library, kHeapImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
    run(g_module, "nothing", nullptr);
    allocate_here();
  }
  if (how == "variable" || how == "wait" || how == "unloaded") {
    load(kImage);
    keep_by_kernel(g_module);
    if (how == "unloaded") CHECKED(cuModuleUnload(g_module));
  }
  if (how == "constant" || how == "managed" || how == "second") {
    load(kImage);
    store(g_module, how == "constant" ? "fixed" : how == "managed" ? "shared_with_host" : "table", allocate_here());
  }
  if (how == "library") keep_in_library("kept");
  if (how == "library-constant") keep_in_library("fixed");
  if (how == "image-gone" || how == "image-gone-lost") {
    load_and_free_image();
    if (how == "image-gone") keep_by_kernel(g_module);
    if (how == "image-gone-lost") lose();
  }
  if (how == "many" || how == "many-lost") {
    for (CUmodule& module : g_many) CHECKED(cuModuleLoadData(&module, kImage));
    g_module = g_many[39];
    if (how == "many") keep_by_kernel(g_module);
    if (how == "many-lost") lose();
  }
  if (how == "file") {
    load_file(path);
    keep_by_kernel(g_module);
  }
  if (how == "wait-for-other") begin_to_wait();
  if (how == "heap") {
    load(kHeapImage);
    run(g_module, "nothing", nullptr);
    allocate_here();
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string how = words[1];
  go(how, count > 2 ? words[2] : nullptr);
  clear_stack();
  if (how.rfind("wait", 0) != 0) return 0;
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  if (how == "wait-for-other") end_the_wait();
  return 0;
}
