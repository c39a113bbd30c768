#include "report/base/removed_at_end.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace culprit::report {
namespace {

constexpr int kSlots = 8;
constexpr int kLevels = 3;
constexpr int kEnding[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM};

std::atomic<const char*> slots[kSlots];

struct KernelEntry {  // linux_dirent64 of getdents64(2)
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

// Async-signal-safe: opendir() would call malloc.
void remove_content(int folder, int levels) {
  alignas(KernelEntry) char buffer[4096];
  long bytes = 0;
  while ((bytes = ::syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const KernelEntry*>(buffer + at);
      at += entry->bytes;
      if (std::strcmp(entry->name, ".") == 0 || std::strcmp(entry->name, "..") == 0) continue;
      if (::unlinkat(folder, entry->name, 0) == 0 || levels == 0) continue;
      const int inner = ::openat(folder, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (inner < 0) continue;
      remove_content(inner, levels - 1);
      ::close(inner);
      ::unlinkat(folder, entry->name, AT_REMOVEDIR);
    }
  }
}

void remove_path(const char* path) {
  if (::unlink(path) == 0) return;
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  remove_content(folder, kLevels);
  ::close(folder);
  ::rmdir(path);
}

// Runs with all other signals of kEnding blocked, and ends the process with its own.
void remove_and_end(int number) {
  for (std::atomic<const char*>& slot : slots) {
    if (const char* path = slot.exchange(nullptr)) remove_path(path);
  }
  struct sigaction usual = {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(number, &usual, nullptr);
  ::raise(number);  // delivered when this handler returns
}

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = remove_and_end;
  for (int number : kEnding) sigaddset(&action.sa_mask, number);
  for (int number : kEnding) {
    struct sigaction present = {};
    if (::sigaction(number, nullptr, &present) == 0 && present.sa_handler == SIG_DFL)
      ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

RemovedAtEnd::RemovedAtEnd(const std::string& path) : path_(path) {
  watch_signals();
  for (int i = 0; i < kSlots && slot_ < 0; ++i) {
    const char* expected = nullptr;
    if (slots[i].compare_exchange_strong(expected, path_.c_str())) slot_ = i;
  }
}

RemovedAtEnd::~RemovedAtEnd() {
  if (slot_ >= 0) slots[slot_].store(nullptr);
}

}  // namespace culprit::report
