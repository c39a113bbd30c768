// Makes two Views and frees one of them, as Kokkos does (seen in that of Trilinos 13.2): opens the tool library that
// KOKKOS_TOOLS_LIBS names, allocates with a header of its own in front of the data, and tells the tool the address of
// the header, and the size of the data.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"

namespace {

struct SpaceHandle {
  char name[64];
};
using Tell = void (*)(SpaceHandle space, const char* label, const void* address, std::uint64_t bytes);
Tell tell_allocated, tell_freed;

constexpr std::size_t kHeader = 128;

}  // namespace

SUBJECT_FUNCTION void allocate_data(const char* space, const char* label, const void* address, std::size_t bytes) {
  SpaceHandle handle = {};
  std::strncpy(handle.name, space, sizeof(handle.name) - 1);
  tell_allocated(handle, label, address, bytes);
}

SUBJECT_FUNCTION char* make_view(const char* label, std::size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, kHeader + bytes));
  allocate_data("Cuda", label, pointer, bytes);
  return static_cast<char*>(pointer) + kHeader;
}

static void end_view(const char* label, char* view, std::size_t bytes) {
  SpaceHandle handle = {"Cuda"};
  tell_freed(handle, label, view - kHeader, bytes);
  CHECKED(cudaFree(view - kHeader));
}

int main() {
  const char* path = getenv("KOKKOS_TOOLS_LIBS");
  void* tool = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  CHECKED(tool == nullptr);
  tell_allocated = reinterpret_cast<Tell>(dlsym(tool, "kokkosp_allocate_data"));
  tell_freed = reinterpret_cast<Tell>(dlsym(tool, "kokkosp_deallocate_data"));
  CHECKED(tell_allocated == nullptr || tell_freed == nullptr);
  make_view("View a", 1000);
  end_view("View b", make_view("View b", 2000), 2000);
  static char on_host[256];
  allocate_data("Host", "View on the host", on_host, sizeof(on_host));
  return 0;
}
