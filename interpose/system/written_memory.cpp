#include "interpose/system/written_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "interpose/system/clock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

constexpr std::uint64_t kBlock = 256 * 1024;
constexpr std::uint64_t kPagesAtOnce = 4096;

// /proc/*/pagemap, one word per page (Linux, Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t kPagePresent = 1ULL << 63;
constexpr std::uint64_t kPageSwapped = 1ULL << 62;
constexpr std::uint64_t kPageOfFile = 1ULL << 61;  // not written by this process: the file's content

class Reader {
 public:
  Reader(std::uint64_t deadline_ns, VisitWords visit, void* context)
      : deadline_ns_(deadline_ns),
        visit_(visit),
        context_(context),
        page_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) {}

  ReadResult run(const MemoryRange* ranges, int count) {
    int error = 0;
    block_ = static_cast<std::uint64_t*>(map_private(kBlock + kPagesAtOnce * sizeof(std::uint64_t), &error));
    if (block_ == nullptr) return {ReadEnd::kStopped, 0};
    pages_ = block_ + kBlock / sizeof(std::uint64_t);
    pagemap_ = open_own_file("pagemap", O_RDONLY);
    for (int i = 0; i < count && going_on(); ++i) read_written(ranges[i].begin, ranges[i].end);
    if (pagemap_ >= 0) os.close_file(pagemap_);
    unmap_private(block_, kBlock + kPagesAtOnce * sizeof(std::uint64_t));
    return {stopped_ ? ReadEnd::kStopped : ReadEnd::kDone, bytes_};
  }

 private:
  bool going_on() const { return !stopped_ && !enough_; }

  // Reads the pages of a range that this process wrote; all of them when the kernel does not report that.
  void read_written(std::uint64_t begin, std::uint64_t end) {
    while (begin < end && going_on()) {
      std::uint64_t first = begin / page_;
      std::uint64_t count = (end - 1) / page_ - first + 1;
      if (count > kPagesAtOnce) count = kPagesAtOnce;
      std::uint64_t bytes = count * sizeof(std::uint64_t);
      if (pagemap_ < 0 ||
          os.read_at(pagemap_, pages_, bytes, first * sizeof(std::uint64_t)) != static_cast<std::int64_t>(bytes)) {
        read(begin, end);
        return;
      }
      for (std::uint64_t i = 0; i < count;) {
        std::uint64_t run = i;
        while (run < count && is_written(pages_[run])) ++run;
        if (run > i) {
          std::uint64_t from = (first + i) * page_;
          std::uint64_t to = (first + run) * page_;
          read(from < begin ? begin : from, to > end ? end : to);
        }
        i = run + 1;
      }
      begin = (first + count) * page_;
    }
  }

  static bool is_written(std::uint64_t page) {
    return (page & kPageSwapped) != 0 || ((page & kPagePresent) != 0 && (page & kPageOfFile) == 0);
  }

  void read(std::uint64_t begin, std::uint64_t end) {
    while (begin < end && going_on()) {
      if (clock_ns(CLOCK_MONOTONIC) > deadline_ns_) {
        stopped_ = true;
        return;
      }
      std::uint64_t wanted = end - begin < kBlock ? end - begin : kBlock;
      std::int64_t got = os.read_own_memory(block_, begin, wanted);
      if (got == -EFAULT || (got >= 0 && got < 8)) {
        // Somewhere in the block: continue in pages, and skip the unreadable one.
        std::uint64_t to_boundary = page_ - begin % page_;
        got = to_boundary < wanted ? os.read_own_memory(block_, begin, to_boundary) : -EFAULT;
        if (got == -EFAULT || (got >= 0 && got < 8)) {
          begin += to_boundary;
          continue;
        }
      }
      if (got < 0) {
        stopped_ = true;  // no such system call, or a sandbox that forbids it
        return;
      }
      std::uint64_t words = static_cast<std::uint64_t>(got) / sizeof(std::uint64_t);
      enough_ = !visit_(context_, block_, words, begin);
      bytes_ += words * sizeof(std::uint64_t);
      begin += words * sizeof(std::uint64_t);
    }
  }

  const std::uint64_t deadline_ns_;
  VisitWords visit_;
  void* context_;
  const std::uint64_t page_;
  std::uint64_t* block_ = nullptr;
  std::uint64_t* pages_ = nullptr;
  int pagemap_ = -1;
  bool stopped_ = false;
  bool enough_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace

ReadResult read_written_memory(const MemoryRange* ranges, int count, std::uint64_t deadline_ns, VisitWords visit,
                               void* context) {
  return Reader(deadline_ns, visit, context).run(ranges, count);
}

}  // namespace culprit
