// The loader's list of this program itself, read as that of a program whose threads load and unload libraries.
#include "report/attach/loaded_list.h"

#include <dlfcn.h>
#include <unistd.h>

#include "tests/catch.h"

using culprit::report::LoadedList;
using culprit::report::TracedProcess;

namespace {

// Small libraries of glibc's, which no program of ours links.
constexpr char kFirst[] = "libBrokenLocale.so.1";
constexpr char kSecond[] = "libanl.so.1";

link_map* load(const char* name) {
  void* library = dlopen(name, RTLD_NOW);
  link_map* entry = nullptr;
  if (library != nullptr) dlinfo(library, RTLD_DI_LINKMAP, &entry);
  return entry;
}

}  // namespace

TEST_CASE("a library is found behind one that another thread unloads meanwhile", "[report][attach]") {
  const TracedProcess self(getpid());
  const LoadedList before(self, self.mappings());
  REQUIRE(!before.sections().empty());
  CHECK(before.has_added(kSecond) == false);
  link_map* first = load(kFirst);
  const LoadedList with_first(self, self.mappings());
  link_map* second = load(kSecond);
  if (first == nullptr || second == nullptr) {
    WARN("not run: glibc has no " << kFirst << " or no " << kSecond);
    return;
  }
  CHECK(before.has_added(kSecond) == true);
  CHECK(before.has_added("libculprit.so") == false);
  const LoadedList after(self, self.mappings());
  CHECK(after.sections().size() >= before.sections().size() + 2);

  // The entry's memory as calloc() gives it to the next library.
  const link_map unloaded = *first;
  *first = {};
  const std::optional<bool> found = before.has_added(kSecond);
  const LoadedList meanwhile(self, self.mappings());
  *first = unloaded;
  CHECK(found == std::nullopt);
  CHECK(meanwhile.sections().empty());
  CHECK(before.has_added(kSecond) == true);

  // It was the last one at the first look and was unloaded before the other one came: it leads nowhere now.
  link_map* previous = first->l_prev;
  link_map* next = first->l_next;
  previous->l_next = next;
  next->l_prev = previous;
  first->l_next = nullptr;
  const std::optional<bool> behind = with_first.has_added(kSecond);
  first->l_next = next;
  next->l_prev = first;
  previous->l_next = first;
  CHECK(behind == true);
}
