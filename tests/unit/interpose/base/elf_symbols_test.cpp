#include "interpose/base/elf_symbols.h"

#include <dlfcn.h>

#include <cstring>

#include "interpose/base/loader_modules.h"
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

TEST_CASE("relocations are those of the module's tables") {
  ElfModule libc;
  REQUIRE(dl_iterate_phdr(find_libc, &libc) == 1);
  const Relocations relocations = relocations_of(libc);
  REQUIRE(relocations.calls.begin() < relocations.calls.end());
  for (const ElfW(Rela) & relocation : relocations.calls) {
    const auto type = ELF64_R_TYPE(relocation.r_info);
    REQUIRE((type == R_X86_64_JUMP_SLOT || type == R_X86_64_IRELATIVE));
    REQUIRE(libc.contains(libc.load_bias + relocation.r_offset));
  }
  REQUIRE(relocations.data.begin() + relocations.relative <= relocations.data.end());
  for (std::uint64_t i = 0; i < relocations.relative; ++i)
    REQUIRE(ELF64_R_TYPE(relocations.data.begin()[i].r_info) == R_X86_64_RELATIVE);
}

TEST_CASE("the data ranges of a module have its variables, and not its constants") {
  static volatile int variable = 7;
  static const char* const constant = "a pointer that the loader relocates";
  const auto holds = [](const volatile void* wanted) {
    const auto address = reinterpret_cast<std::uint64_t>(wanted);
    bool found = false;
    any_loaded_module([&](const struct dl_phdr_info& module) {
      for_each_data_range(module, [&](std::uint64_t begin, std::uint64_t end) {
        CHECK(begin < end);
        CHECK((begin % 8 == 0 && end % 8 == 0));
        found = found || (address >= begin && address < end);
      });
      return false;
    });
    return found;
  };
  CHECK(holds(&variable));
  CHECK_FALSE(holds(&constant));
}
