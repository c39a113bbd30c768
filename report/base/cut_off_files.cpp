#include "report/base/cut_off_files.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace culprit::report {
namespace {

constexpr std::size_t kMostPages = 4096;
std::atomic<std::uintptr_t> pages[kMostPages];  // that hold zeros; 0: none
std::atomic<bool> more_pages{false};
std::uintptr_t page_bytes = 4096;

// Async-signal-safe.
bool put_zeros(std::uintptr_t page) {
  void* const made =
      ::mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (made == MAP_FAILED) return false;
  for (std::atomic<std::uintptr_t>& one : pages) {
    std::uintptr_t none = 0;
    if (one.compare_exchange_strong(none, page)) return true;
  }
  more_pages = true;
  return true;
}

void on_bus_error(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const bool of_file = info->si_code == BUS_ADRERR && info->si_addr != nullptr;
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(info->si_addr) / page_bytes * page_bytes;
  if (!of_file || !put_zeros(page)) ::signal(number, SIG_DFL);  // the access is repeated, and ends the process
  errno = saved;
}

}  // namespace

void watch_for_cut_off_files() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

bool take_cut_off(const void* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  bool found = false;
  for (std::atomic<std::uintptr_t>& one : pages) {
    std::uintptr_t page = one.load();
    if (page < first || page - first >= bytes) continue;
    found = one.compare_exchange_strong(page, 0) || found;
  }
  return found;
}

bool has_cut_off_files() {
  for (const std::atomic<std::uintptr_t>& one : pages) {
    if (one.load() != 0) return true;
  }
  return more_pages;
}

}  // namespace culprit::report
