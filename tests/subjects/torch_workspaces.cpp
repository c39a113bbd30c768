// The map with cuBLAS's workspaces of PyTorch's libtorch_cuda.so, and the function that returns it, as GCC translates
// it there: interpose/python_package/culprit/_torch_workspaces.py reads its instructions.
#include <cstdint>
#include <map>
#include <tuple>

namespace {

struct DataPtr {  // c10/core/Allocator.h
  void* data = nullptr;
  void* context = nullptr;
  void (*deleter)(void*) = nullptr;
  std::int64_t device = 0;
};

using Workspaces = std::map<std::tuple<void*, void*>, DataPtr>;

}  // namespace

extern "C" {
__attribute__((visibility("hidden"))) unsigned char workspaces_made;
__attribute__((visibility("hidden"))) Workspaces* workspaces;

// Used by the stand-in for PyTorch (python_fakes/torch).
__attribute__((visibility("default"))) void add_workspace(void* handle, void* memory) {
  if (workspaces == nullptr) workspaces = new Workspaces;
  workspaces_made = 1;
  (*workspaces)[{handle, nullptr}].data = memory;
}
}

#ifdef __x86_64__
asm(R"(
    .text
    .globl _ZN2at4cuda33cublas_handle_stream_to_workspaceEv
    .type _ZN2at4cuda33cublas_handle_stream_to_workspaceEv, @function
_ZN2at4cuda33cublas_handle_stream_to_workspaceEv:
    movzbl workspaces_made(%rip), %eax
    test %al, %al
    je 1f
    mov workspaces(%rip), %rax
    ret
1:  xor %eax, %eax
    ret
    .size _ZN2at4cuda33cublas_handle_stream_to_workspaceEv, . - _ZN2at4cuda33cublas_handle_stream_to_workspaceEv
)");
#endif
