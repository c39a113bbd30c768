#include "interpose/loader/loader_count.h"

#include <pthread.h>

#include <atomic>
#include <cstring>

#include "interpose/loader/late_load.h"

namespace culprit {
namespace {

const std::uint64_t no_count = 0;
std::atomic<int> looked;
std::atomic<void*> mutex_of_loading;
std::atomic<const std::uint32_t*> modules_present;  // of the program's namespace

constexpr std::uint64_t kMostBytes = 8192;       // of _rtld_global: 4,336 in glibc 2.36
constexpr std::uint64_t kMostNamespaces = 16;    // DL_NNS
constexpr std::uint64_t kMostUnloads = 1 << 24;  // at the time of the look

// Whether a recursive mutex of the loader is there. Another thread may hold it.
bool is_recursive_mutex(std::uint64_t address) {
  pthread_mutex_t mutex;
  std::memcpy(&mutex, reinterpret_cast<const void*>(address), sizeof(mutex));
  return mutex.__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP && mutex.__data.__list.__prev == nullptr &&
         mutex.__data.__list.__next == nullptr;
}

std::uint64_t word_at(std::uint64_t address) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(address), __ATOMIC_RELAXED);
}

// glibc's struct rtld_global (sysdeps/generic/ldsodefs.h) begins with the namespaces: the first module of the
// program's, and how many it has now. It goes on, in every version, with the number of namespaces, two recursive
// mutexes (three from 2.34 on) and the count. The first mutex is the one of loading. `mutex` receives its address,
// `present` that of the number of modules.
const std::uint64_t* look(std::uint64_t* mutex, std::uint64_t* present) {
  const struct r_debug* lists = loader_lists();
  const std::uint64_t begin = lists == nullptr ? 0 : libc_function("_rtld_global");
  struct dl_phdr_info loader;
  std::uint64_t first = 0, end = 0;
  if (begin == 0 || !find_module(begin, &loader) || !module_extent(loader, &first, &end)) return nullptr;
  if (end > begin + kMostBytes) end = begin + kMostBytes;
  const std::uint64_t now = word_at(begin + 8) & 0xffffffff;
  if (begin + 16 > end || word_at(begin) != reinterpret_cast<std::uint64_t>(lists->r_map)) return nullptr;
  constexpr std::uint64_t kMutex = sizeof(pthread_mutex_t);
  for (std::uint64_t place = begin + 16 + 4 * kMutex; place + 8 <= end; place += 8) {
    const std::uint64_t added = word_at(place);
    if (added < now || added - now > kMostUnloads) continue;
    std::uint64_t before = place;
    int mutexes = 0;
    for (; mutexes < 3 && is_recursive_mutex(before - kMutex); ++mutexes) before -= kMutex;
    const std::uint64_t namespaces = word_at(before - 8);
    if (mutexes < 2 || namespaces < 1 || namespaces > kMostNamespaces) continue;
    *mutex = before;
    *present = begin + 8;
    return reinterpret_cast<const std::uint64_t*>(place);
  }
  return nullptr;
}

}  // namespace

const std::uint64_t* modules_added = &no_count;

void find_loader_count() {
  if (looked.load(std::memory_order_acquire) != 0) return;
  // Concurrent looks find the same.
  std::uint64_t mutex = 0, present = 0;
  if (const std::uint64_t* found = look(&mutex, &present)) {
    modules_present.store(reinterpret_cast<const std::uint32_t*>(present));
    mutex_of_loading.store(reinterpret_cast<void*>(mutex));
    __atomic_store_n(&modules_added, found, __ATOMIC_RELEASE);
  }
  looked.store(1, std::memory_order_release);
}

std::uint64_t modules_gone() {
  const std::uint32_t* present = modules_present.load(std::memory_order_relaxed);
  if (present == nullptr) return 0;
  return __atomic_load_n(modules_added, __ATOMIC_RELAXED) - __atomic_load_n(present, __ATOMIC_RELAXED);
}

void* loader_mutex() { return mutex_of_loading.load(std::memory_order_relaxed); }

bool more_modules_were_added(ModuleListEnd* end) {
  const std::uint64_t added = __atomic_load_n(modules_added, __ATOMIC_ACQUIRE);
  if (added == 0) return modules_were_added(end);
  const bool more = end->node != added;
  *end = {added, 0};
  return more;
}

}  // namespace culprit
