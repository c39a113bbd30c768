// The locks of the loader in another process.
#pragma once

#include <link.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// The first mapping of the loader, which may have any name; null: it has none.
const MappedRange* find_loader(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// The loader's writable memory, which contains its locks.
std::vector<MappedRange> loader_data(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// Whether the thread owns one of the locks. Also true when that cannot be known.
bool owns_loader_lock(const TracedProcess& process, const std::vector<MappedRange>& data, pid_t thread);

// The state that the loader has for debuggers; empty when it cannot be read.
std::optional<r_debug> loader_state(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// Whether the loader is in the middle of changing its list of libraries (the same state). A child that was forked then
// stays there for ever, and a dlopen() in it ends it.
bool is_loader_at_work(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// The number that the thread has in its own process.
std::uint32_t own_number(const TracedProcess& process, pid_t thread);

// The lock that dlopen() and dlclose() hold from beginning to end.
class LoadingLock {
 public:
  struct State {
    std::uint32_t word = 0;   // 0: free, kTaken, or kAwaited
    std::uint32_t owner = 0;  // as the process numbers its threads; 0 for a moment while it changes
    std::uint64_t added = 0;  // how many libraries were ever loaded
    bool operator==(const State& other) const {
      return word == other.word && owner == other.owner && added == other.added;
    }
  };
  static constexpr std::uint32_t kTaken = 1;
  static constexpr std::uint32_t kAwaited = 2;  // taken, and the owner wakes a thread when it releases the lock

  LoadingLock() = default;
  LoadingLock(const TracedProcess& process, const std::vector<MappedRange>& mappings);

  // 0: not known in this libc.
  std::uint64_t address() const { return address_; }
  // Empty where the lock is not known or cannot be read.
  std::optional<State> read(const TracedProcess& process) const;
  // The thread that has it; 0 = none.
  pid_t owner(const TracedProcess& process) const;

 private:
  std::uint64_t address_ = 0;
  std::uint64_t added_at_ = 0;
};

}  // namespace culprit::report
