#include "interpose/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "interpose/os.h"

namespace culprit {
namespace {

constexpr std::uint64_t kFewDescriptors = 64;
constexpr std::uint64_t kHighest = 1023;

// The same file under a high number, or -errno. `fd` stays open.
int duplicate_high(int fd) {
  const std::uint64_t limit = os.limit(RLIMIT_NOFILE);
  if (limit < kFewDescriptors) return -EMFILE;
  // F_DUPFD takes the lowest free number from `least` on. Where the program has files up there itself, the search goes
  // down, in steps that double.
  int least = static_cast<int>(limit - 1 < kHighest ? limit - 1 : kHighest);
  for (int step = 1; least > 2; least -= step, step *= 2) {
    const int high = os.duplicate_from(fd, least);
    if (high != -EMFILE && high != -EINVAL) return high;
  }
  return -EMFILE;
}

}  // namespace

OpenedFile open_high(const char* path, int flags, unsigned mode) {
  const int low = os.open_file(path, flags | O_CLOEXEC, mode);
  if (low < 0) return {low, false};
  const int high = duplicate_high(low);
  if (high < 0) return {low, false};
  os.close_file(low);
  return {high, true};
}

}  // namespace culprit
