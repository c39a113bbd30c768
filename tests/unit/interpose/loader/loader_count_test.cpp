#include "interpose/loader/loader_count.h"

#include <dlfcn.h>
#include <link.h>

#include "tests/catch.h"

using namespace culprit;

namespace {

std::uint64_t count_of_loader() {
  std::uint64_t count = 0;
  dl_iterate_phdr(
      [](struct dl_phdr_info* info, std::size_t, void* data) {
        *static_cast<std::uint64_t*>(data) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

}  // namespace

TEST_CASE("the loader's count is the one that dl_iterate_phdr reports") {
  find_loader_count();
  REQUIRE(loader_count_is_known());
  CHECK(*modules_added == count_of_loader());
  const std::uint64_t before = *modules_added;
  void* library = dlopen("libBrokenLocale.so.1", RTLD_NOW);  // a part of glibc that no program links
  REQUIRE(library != nullptr);
  CHECK(*modules_added == before + 1);
  CHECK(*modules_added == count_of_loader());
  dlclose(library);
  CHECK(*modules_added == before + 1);
  CHECK(*modules_added == count_of_loader());
}
