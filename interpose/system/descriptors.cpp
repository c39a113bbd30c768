#include "interpose/system/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "interpose/system/os.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

// A program with such a limit does not use up its descriptors. The kernel's table of descriptors also grows with the
// highest number, by 8 bytes for each.
constexpr std::uint64_t kManyDescriptors = 1 << 16;
constexpr std::uint64_t kHighest = 1023;
constexpr std::uint64_t kRaisedBy = 64;

// The soft limit of descriptors, raised for some microseconds where the hard limit or the right to raise it allows
// that: root has that right, and only root can change its root directory or user later, so that the file could not be
// opened again. A file that gets a number above the program's limit does not count among the program's descriptors.
class RaisedLimit {
 public:
  RaisedLimit() {
    is_known_ = !calls_restricted_now() && os.exchange_limit(RLIMIT_NOFILE, nullptr, &former_) == 0;
    if (!is_known_ || former_.rlim_cur >= kManyDescriptors) return;
    raised_ = {former_.rlim_cur + kRaisedBy, former_.rlim_max};
    if (raised_.rlim_max < raised_.rlim_cur) {
      if (!may_raise_limits()) return;
      raised_.rlim_max = raised_.rlim_cur;
    }
    is_raised_ = os.exchange_limit(RLIMIT_NOFILE, &raised_, &former_) == 0;
  }
  ~RaisedLimit() {
    if (!is_raised_) return;
    // Another thread may have set a limit of its own meanwhile.
    struct rlimit seen;
    if (os.exchange_limit(RLIMIT_NOFILE, &former_, &seen) != 0) return;
    if (seen.rlim_cur != raised_.rlim_cur || seen.rlim_max != raised_.rlim_max)
      os.exchange_limit(RLIMIT_NOFILE, &seen, nullptr);
  }
  RaisedLimit(const RaisedLimit&) = delete;
  RaisedLimit& operator=(const RaisedLimit&) = delete;
  bool is_raised() const { return is_raised_; }
  // The soft limit that the program has.
  std::uint64_t of_program() const { return is_known_ ? former_.rlim_cur : os.limit(RLIMIT_NOFILE); }

 private:
  struct rlimit former_;
  struct rlimit raised_;
  bool is_known_ = false;
  bool is_raised_ = false;
};

// The same file under the highest free number below `limit`, at most kHighest, or -errno. F_DUPFD takes the lowest free
// number from its argument on: where the program has files up there itself, the search goes down, in steps that double.
int duplicate_below(int fd, std::uint64_t limit) {
  int least = static_cast<int>(limit - 1 < kHighest ? limit - 1 : kHighest);
  for (int step = 1; least > 2; least -= step, step *= 2) {
    const int high = os.duplicate_from(fd, least);
    if (high != -EMFILE && high != -EINVAL) return high;
  }
  return -EMFILE;
}

// Whether the kernel makes this thread wait when it enlarges the table of descriptors for `number`.
bool would_wait_for(std::uint64_t number) {
  return threads_seen() > 1 && descriptor_table_seen() != 0 && number >= descriptor_table_seen();
}

// Gives the file another number, if there is a better one.
OpenedFile duplicate_high(int fd, const RaisedLimit& raised, bool may_wait) {
  const std::uint64_t limit = raised.of_program();
  const std::uint64_t wanted = raised.is_raised() ? limit : limit - 1 < kHighest ? limit - 1 : kHighest;
  if (!may_wait && would_wait_for(wanted)) {
    const std::uint64_t table = descriptor_table_seen();
    return {duplicate_below(fd, table < limit ? table : limit), false};
  }
  if (raised.is_raised()) {
    const int above = os.duplicate_from(fd, static_cast<int>(limit));
    if (above >= 0) return {above, true};
  }
  return {duplicate_below(fd, limit), limit >= kManyDescriptors};
}

}  // namespace

OpenedFile open_high(const char* path, int flags, unsigned mode, bool may_wait) {
  const RaisedLimit raised;
  const int first = os.open_file(path, flags | O_CLOEXEC, mode);
  if (first < 0) return {first, false};
  if (raised.is_raised() && static_cast<std::uint64_t>(first) >= raised.of_program()) return {first, true};
  const OpenedFile high = duplicate_high(first, raised, may_wait);
  if (high.fd < 0) return {first, false};
  os.close_file(first);
  return high;
}

void grow_descriptor_table() {
  if (threads_seen() != 1) return;
  const OpenedFile file = open_high("/", O_PATH | O_DIRECTORY, 0);
  if (file.fd >= 0) os.close_file(file.fd);
}

int datagram_socket() {
  const RaisedLimit raised;
  return static_cast<int>(system_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace culprit
