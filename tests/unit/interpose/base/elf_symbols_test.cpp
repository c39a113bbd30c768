#include "interpose/base/elf_symbols.h"

#include <dlfcn.h>

#include <cstring>

#include "tests/catch.h"

using namespace culprit;

namespace {

int find_libc(struct dl_phdr_info* info, std::size_t, void* result) {
  ElfModule module;
  if (!describe_module(*info, &module) || module.soname == nullptr || std::strcmp(module.soname, "libc.so.6") != 0)
    return 0;
  *static_cast<ElfModule*>(result) = module;
  return 1;
}

}  // namespace

TEST_CASE("symbols are found where dlsym finds them") {
  ElfModule libc;
  REQUIRE(dl_iterate_phdr(find_libc, &libc) == 1);
  for (const char* name : {"malloc", "_exit", "dlclose", "pthread_create", "getpid"}) {
    INFO(name);
    std::uint64_t address = find_symbol(libc, name);
    REQUIRE(address != 0);
    CHECK(libc.contains(address));
  }
  CHECK(find_symbol(libc, "getpid") ==
        reinterpret_cast<std::uint64_t>(dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "getpid")));
}

TEST_CASE("a symbol that a module does not define is not found in it") {
  ElfModule libc;
  REQUIRE(dl_iterate_phdr(find_libc, &libc) == 1);
  CHECK(find_symbol(libc, "cuInit") == 0);
  CHECK(find_symbol(libc, "") == 0);
  CHECK(find_symbol(libc, "a name that no library has") == 0);
}
