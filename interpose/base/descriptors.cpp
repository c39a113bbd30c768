#include "interpose/base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "interpose/base/os.h"
#include "interpose/base/restrictions.h"

namespace culprit {
namespace {

// A program that may have so many will not use them all up. The kernel's table of descriptors, too, grows with the
// highest number: 8 bytes for each.
constexpr std::uint64_t kManyDescriptors = 1 << 16;
constexpr std::uint64_t kHighest = 1023;
constexpr std::uint64_t kRaisedBy = 64;

// The soft limit of descriptors, raised for some microseconds where the hard one allows that: a file that gets a number
// above the program's limit is none of those that it may have.
class RaisedLimit {
 public:
  RaisedLimit() {
    if (calls_restricted_now() || os.exchange_limit(RLIMIT_NOFILE, nullptr, &former_) != 0) return;
    const struct rlimit seen = former_;
    if (seen.rlim_cur >= kManyDescriptors || seen.rlim_max < seen.rlim_cur + kRaisedBy) return;
    const struct rlimit wanted = {seen.rlim_cur + kRaisedBy, seen.rlim_max};
    if (os.exchange_limit(RLIMIT_NOFILE, &wanted, &former_) != 0) return;
    raised_ = wanted;
    is_raised_ = true;
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
  std::uint64_t former() const { return former_.rlim_cur; }

 private:
  struct rlimit former_;
  struct rlimit raised_;
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

// Gives the file another number, if there is a better one.
OpenedFile duplicate_high(int fd, const RaisedLimit& raised) {
  if (raised.is_raised()) {
    const int above = os.duplicate_from(fd, static_cast<int>(raised.former()));
    if (above >= 0) return {above, true};
  }
  const std::uint64_t limit = raised.is_raised() ? raised.former() : os.limit(RLIMIT_NOFILE);
  return {duplicate_below(fd, limit), limit >= kManyDescriptors};
}

}  // namespace

OpenedFile open_high(const char* path, int flags, unsigned mode) {
  const RaisedLimit raised;
  const int first = os.open_file(path, flags | O_CLOEXEC, mode);
  if (first < 0) return {first, false};
  if (raised.is_raised() && static_cast<std::uint64_t>(first) >= raised.former()) return {first, true};
  const OpenedFile high = duplicate_high(first, raised);
  if (high.fd < 0) return {first, false};
  os.close_file(first);
  return high;
}

}  // namespace culprit
