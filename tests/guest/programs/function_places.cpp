// Asks dladdr() and dladdr1() where functions lie, as tools do that look for libcuda's folder. Prints files, names and
// whether the symbol begins at the address; then the same for addresses that are no functions of libcuda.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

const char* file_of(const char* path) {
  if (path == nullptr) return "(none)";
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

void show(const char* what, const void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0) {
    guest::say("%s: nothing", what);
    return;
  }
  guest::say("%s: %s %s %s", what, file_of(info.dli_fname), info.dli_sname == nullptr ? "(none)" : info.dli_sname,
             info.dli_saddr == address ? "begins there" : "begins elsewhere");
  Dl_info same = {};
  const ElfW(Sym)* symbol = nullptr;
  HOLDS(dladdr1(address, &same, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) != 0);
  HOLDS(same.dli_fbase == info.dli_fbase && same.dli_sname == info.dli_sname && same.dli_saddr == info.dli_saddr);
  struct link_map* map = nullptr;
  HOLDS(dladdr1(address, &same, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0);
  guest::say("  %s, symbol %s", file_of(map->l_name), symbol == nullptr ? "none" : "there");
}

// Before the library's constructor and main().
__attribute__((constructor)) void show_early() { show("constructor", reinterpret_cast<const void*>(&cuInit)); }

}  // namespace

int main() {
  show("linked", reinterpret_cast<const void*>(&cuMemAlloc));
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  HOLDS(driver != nullptr);
  show("dlsym", dlsym(driver, "cuMemFree_v2"));
  show("dlsym of all", dlsym(RTLD_DEFAULT, "cuCtxGetCurrent"));
  guest::start_cuda();
  void* found = nullptr;
  CUdriverProcAddressQueryResult result;
  CHECKED(cuGetProcAddress("cuMemAllocAsync", &found, 12000, 0, &result));
  show("cuGetProcAddress", found);
  show("dlsym itself", reinterpret_cast<const void*>(&dlsym));
  show("dlclose", reinterpret_cast<const void*>(&dlclose));
  show("_exit", reinterpret_cast<const void*>(&_exit));
  show("pthread_exit", reinterpret_cast<const void*>(&pthread_exit));
  show("malloc", reinterpret_cast<const void*>(&malloc));
  show("main's library", dlsym(RTLD_DEFAULT, "_Unwind_RaiseException"));
  int local = 0;
  show("stack", &local);
  show("null", nullptr);
  return 0;
}
