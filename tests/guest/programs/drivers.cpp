// Opens drivers, uses them through dlsym(), and closes them: drivers WHAT PATH...
//   lacks PATH           a driver that may lack functions: one allocation is left
//   reload PATH OTHER    a driver is closed and opened again: each life leaves one allocation, with the same handle
//   clean PATH OTHER     the same, and everything is freed
//   moved PATH OTHER     the same as reload, and the second life lies at other addresses
//   closed PATH          a driver is closed and never opened again; one allocation is left
//   unusable STUB PATH   the first driver cannot be used, so a second one is; one allocation is left
//   unusable_closed STUB PATH
//   both PATH OTHER      two drivers in turn, with equal handles; one allocation is left in each
//   plugin PLUGIN        a library that is linked to the driver is closed with libc's own dlclose(), and opened again
//   many PATH...         more drivers than the hooks can lead to; one allocation is left in each
//   storm PATH...        threads open, use and close all of them in any order
// Not linked to a driver.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>

#include "tests/guest/programs/guest.h"

namespace {

struct Driver {
  void* handle;
  decltype(&cuInit) init;
  decltype(&cuDevicePrimaryCtxRetain) retain;
  decltype(&cuCtxSetCurrent) set_current;
  CUresult (*make_context)(CUcontext*, unsigned, CUdevice);
  decltype(&cuMemAlloc_v2) allocate;
  decltype(&cuMemFree_v2) release;
  decltype(&cuEventCreate) make_event;
  decltype(&cuEventDestroy_v2) end_event;
  decltype(&cuMemAllocAsync) allocate_async;
  decltype(&cuMemFreeAsync) release_async;
  decltype(&cuLaunchKernel) launch;
  decltype(&cuIpcOpenEventHandle) open_event;
  decltype(&guestDriverLive) live;
};

template <typename Function>
void find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
}

GUEST_FUNCTION Driver open_driver(const char* path, int flags = RTLD_NOW | RTLD_LOCAL) {
  Driver driver = {};
  driver.handle = dlopen(path, flags);
  HOLDS(driver.handle != nullptr);
  find(driver.handle, "cuInit", &driver.init);
  find(driver.handle, "cuDevicePrimaryCtxRetain", &driver.retain);
  find(driver.handle, "cuCtxSetCurrent", &driver.set_current);
  find(driver.handle, "cuCtxCreate_v2", &driver.make_context);
  find(driver.handle, "cuMemAlloc_v2", &driver.allocate);
  find(driver.handle, "cuMemFree_v2", &driver.release);
  find(driver.handle, "cuEventCreate", &driver.make_event);
  find(driver.handle, "cuEventDestroy_v2", &driver.end_event);
  find(driver.handle, "cuMemAllocAsync", &driver.allocate_async);
  find(driver.handle, "cuMemFreeAsync", &driver.release_async);
  find(driver.handle, "cuLaunchKernel", &driver.launch);
  find(driver.handle, "cuIpcOpenEventHandle", &driver.open_event);
  find(driver.handle, "guestDriverLive", &driver.live);
  HOLDS(driver.init != nullptr && driver.allocate != nullptr && driver.release != nullptr);
  return driver;
}

void start(const Driver& driver) {
  CUcontext context = nullptr;
  CHECKED(driver.init(0));
  if (driver.retain != nullptr && driver.retain(&context, 0) == CUDA_SUCCESS && context != nullptr) {
    CHECKED(driver.set_current(context));
  } else {
    CHECKED(driver.make_context(&context, 0, 0));
  }
}

// The function's name is in the stacks of what is left.
GUEST_FUNCTION CUdeviceptr leave(const Driver& driver, size_t bytes) {
  CUdeviceptr memory = 0;
  CHECKED(driver.allocate(&memory, bytes));
  KEEP_FRAME();
  return memory;
}

GUEST_FUNCTION void use(const Driver& driver) {
  for (int i = 0; i < 20; ++i) {
    CUdeviceptr memory = 0;
    CHECKED(driver.allocate(&memory, 512));
    CHECKED(driver.release(memory));
    if (driver.allocate_async != nullptr && driver.release_async != nullptr) {
      CHECKED(driver.allocate_async(&memory, 1024, nullptr));
      CHECKED(driver.release_async(memory, nullptr));
    }
    CUevent event = nullptr;
    if (driver.make_event == nullptr || driver.end_event == nullptr) continue;
    // A driver of these tests may make no event, or end none.
    if (driver.make_event(&event, 0) == CUDA_SUCCESS && event != nullptr) driver.end_event(event);
  }
  KEEP_FRAME();
}

void close_driver(const Driver& driver) { HOLDS(dlclose(driver.handle) == 0); }

bool is_mapped(uint64_t address) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address & ~uint64_t{4095}), 4096, &resident) == 0;
}

uint64_t base_of(const Driver& driver) { return static_cast<const link_map*>(driver.handle)->l_addr; }

// The next library cannot have these addresses.
void occupy(uint64_t base) {
  HOLDS(!is_mapped(base));
  HOLDS(mmap(reinterpret_cast<void*>(base), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
             0) != MAP_FAILED);
}

void reload(const char* path, const char* other, bool clean, bool moved) {
  CUdeviceptr left = 0;
  for (int life = 0; life < 4; ++life) {
    const Driver driver = open_driver(life == 2 ? other : path);
    start(driver);
    const CUdeviceptr memory = leave(driver, 11001 + static_cast<size_t>(life));
    HOLDS(left == 0 || left == memory);  // the same handle in each life
    left = memory;
    use(driver);
    if (clean) CHECKED(driver.release(memory));
    if (life == 3) break;
    const uint64_t base = base_of(driver);
    close_driver(driver);
    HOLDS(!is_mapped(base));
    if (moved) occupy(base);
  }
}

template <typename T>
T handle_of(uint64_t value) {
  return reinterpret_cast<T>(value);
}

// Arguments on the stack reach the driver.
void pass_many(const Driver& driver) {
  CHECKED(driver.launch(handle_of<CUfunction>(10), 1, 2, 3, 4, 5, 6, 7, handle_of<CUstream>(11), handle_of<void**>(12),
                        handle_of<void**>(13)));
  CUipcEventHandle handle;
  for (unsigned at = 0; at < sizeof handle.reserved; ++at) handle.reserved[at] = static_cast<char>(at + 1);
  CUevent event = nullptr;
  CHECKED(driver.open_event(&event, handle));
  CHECKED(driver.end_event(event));
}

void both(const char* path, const char* other) {
  const Driver first = open_driver(path);
  const Driver second = open_driver(other);
  HOLDS(first.init != second.init && first.allocate != second.allocate);
  start(first);
  start(second);
  CUdeviceptr memory[2][8];
  for (int i = 0; i < 8; ++i) {
    memory[0][i] = leave(first, 1000 + static_cast<size_t>(i));
    memory[1][i] = leave(second, 2000 + static_cast<size_t>(i));
    HOLDS(memory[0][i] == memory[1][i]);
    HOLDS(first.live() == static_cast<uint64_t>(i + 1) && second.live() == static_cast<uint64_t>(i + 1));
  }
  use(first);
  use(second);
  pass_many(second);
  pass_many(first);
  for (int i = 1; i < 8; ++i) {
    CHECKED(second.release(memory[1][i]));
    HOLDS(first.live() == static_cast<uint64_t>(9 - i) && second.live() == static_cast<uint64_t>(8 - i));
    CHECKED(first.release(memory[0][i]));
  }
  HOLDS(first.live() == 1 && second.live() == 1);
  HOLDS(first.release(1234) != 0 && second.release(1234) != 0);
}

void unusable(const char* stub_path, const char* path, bool close_first) {
  const Driver stub = open_driver(stub_path);
  HOLDS(stub.init(0) == CUDA_ERROR_STUB_LIBRARY);
  if (close_first) close_driver(stub);
  const Driver driver = open_driver(path);
  start(driver);
  use(driver);
  leave(driver, 11001);
  if (!close_first) HOLDS(stub.init(0) == CUDA_ERROR_STUB_LIBRARY);
}

// libc's own, past any that is in front of it.
int (*libc_dlclose())(void*) {
  void* libc = dlopen("libc.so.6", RTLD_NOW);
  HOLDS(libc != nullptr);
  int (*function)(void*) = nullptr;
  find(libc, "dlclose", &function);
  return function;
}

void plugin(const char* path) {
  int (*const close_library)(void*) = libc_dlclose();
  for (int life = 0; life < 3; ++life) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    HOLDS(library != nullptr);
    int (*use_cuda)() = nullptr;
    find(library, "use_cuda_in_plugin", &use_cuda);
    HOLDS(use_cuda != nullptr && use_cuda() == 42);
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    HOLDS(driver != nullptr);
    const uint64_t base = static_cast<const link_map*>(driver)->l_addr;
    HOLDS(close_library(driver) == 0);
    HOLDS(close_library(library) == 0);
    HOLDS(!is_mapped(base));
    if (life == 0) occupy(base);
  }
}

const char* const* paths;
int path_count;
uint64_t left_by_storm;

void* open_use_close(void* number) {
  uint64_t seed = reinterpret_cast<uint64_t>(number) * 0x9e3779b97f4a7c15ULL + 1;
  const guest::Storm storm;
  while (storm.goes_on()) {
    const uint64_t random = guest::next_random(&seed);
    const Driver driver = open_driver(paths[random % static_cast<uint64_t>(path_count)]);
    start(driver);
    use(driver);
    if (random % 64 == 63 && __atomic_add_fetch(&left_by_storm, 1, __ATOMIC_RELAXED) <= 1000) leave(driver, 333);
    close_driver(driver);
  }
  return nullptr;
}

void storm() {
  pthread_t threads[4];
  for (uint64_t i = 0; i < 4; ++i)
    HOLDS(pthread_create(&threads[i], nullptr, open_use_close, reinterpret_cast<void*>(i)) == 0);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  const uint64_t left = __atomic_load_n(&left_by_storm, __ATOMIC_RELAXED);
  guest::figure("live", static_cast<long long>(left < 1000 ? left : 1000));
}

}  // namespace

int main(int argc, char** argv) {
  HOLDS(argc >= 3);
  const char* what = argv[1];
  const auto is = [&](const char* name) { return strcmp(what, name) == 0; };
  paths = argv + 2;
  path_count = argc - 2;
  const char* other = path_count > 1 ? paths[1] : paths[0];
  if (is("lacks") || is("closed")) {
    const Driver driver = open_driver(paths[0]);
    start(driver);
    leave(driver, 11001);
    use(driver);
    if (is("closed")) close_driver(driver);
  }
  if (is("reload") || is("clean") || is("moved")) reload(paths[0], other, is("clean"), is("moved"));
  if (is("both")) both(paths[0], other);
  if (is("unusable") || is("unusable_closed")) unusable(paths[0], other, is("unusable_closed"));
  if (is("plugin")) plugin(paths[0]);
  if (is("many")) {
    for (int i = 0; i < path_count; ++i) {
      const Driver driver = open_driver(paths[i]);
      start(driver);
      leave(driver, 11001);
    }
  }
  if (is("storm")) storm();
  guest::say("%s: done", what);
  return 0;
}
