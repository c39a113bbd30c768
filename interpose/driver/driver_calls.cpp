#include "interpose/driver/driver_calls.h"

#include <cstring>
#include <initializer_list>

#include "interpose/base/elf_symbols.h"

namespace culprit {

// The name decides, of the file or the DT_SONAME: other vendors' drivers have only one of them.
bool is_libcuda(const ElfModule& module, const char* path) {
  const char* slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  for (const char* name : {module.soname, file}) {
    if (name != nullptr && (std::strncmp(name, "libcuda.so", 10) == 0)) return find_symbol(module, "cuInit") != 0;
  }
  return false;
}

}  // namespace culprit
