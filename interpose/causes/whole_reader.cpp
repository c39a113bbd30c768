#include "interpose/causes/whole_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "interpose/system/clock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// See written_memory.cpp.
constexpr std::uint64_t kPagePresent = 1ULL << 63;
constexpr std::uint64_t kPageSwapped = 1ULL << 62;
constexpr std::uint64_t kPageOfFile = 1ULL << 61;

bool has_data(std::uint64_t page, bool shared) {
  if (shared) return (page & (kPageSwapped | kPagePresent)) != 0;
  return (page & kPageSwapped) != 0 || ((page & kPagePresent) != 0 && (page & kPageOfFile) == 0);
}

}  // namespace

bool WholeReader::open(std::uint64_t most_bytes, std::uint64_t deadline_ns, Visit visit, void* context) {
  most_bytes_ = most_bytes;
  deadline_ns_ = deadline_ns;
  visit_ = visit;
  context_ = context;
  int error = 0;
  block_ = static_cast<unsigned char*>(map_private(kBlock + kPagesAtOnce * sizeof(std::uint64_t), &error));
  if (block_ == nullptr) return false;
  pages_ = reinterpret_cast<std::uint64_t*>(block_ + kBlock);
  // The kernel's pages are larger on no machine that this library is built for.
  if (sysconf(_SC_PAGESIZE) == static_cast<long>(kPage)) pagemap_ = open_own_file("pagemap", O_RDONLY);
  return true;
}

void WholeReader::close() {
  if (pagemap_ >= 0) os.close_file(pagemap_);
  if (block_ != nullptr) unmap_private(block_, kBlock + kPagesAtOnce * sizeof(std::uint64_t));
  block_ = nullptr;
  pagemap_ = -1;
}

// Whether there is a page of data at `address`, as far as the kernel tells.
bool WholeReader::has_page(std::uint64_t address) {
  std::uint64_t page = 0;
  const std::uint64_t place = address / kPage * sizeof(page);
  return pagemap_ >= 0 && os.read_at(pagemap_, &page, sizeof(page), place) == sizeof(page) && has_data(page, true);
}

WholeRead WholeReader::read(const RootRange& range) {
  // A file that is mapped behind its end has no data there, and device registers cannot be read.
  if (range.shared && range.readable) return read_plainly(range.begin, range.end, false);
  return read_private(range);
}

WholeRead WholeReader::read_private(const RootRange& range) {
  if (pagemap_ < 0) return range.readable ? read_plainly(range.begin, range.end, true) : WholeRead::kUnreadable;
  const std::uint64_t last = (range.end + kPage - 1) / kPage;
  for (std::uint64_t first = range.begin / kPage; first < last;) {
    if (clock_ns(CLOCK_MONOTONIC) > deadline_ns_) return WholeRead::kGivenUp;
    const std::uint64_t count = std::min(last - first, kPagesAtOnce);
    const std::uint64_t bytes = count * sizeof(std::uint64_t);
    if (os.read_at(pagemap_, pages_, bytes, first * sizeof(std::uint64_t)) != static_cast<std::int64_t>(bytes))
      return WholeRead::kUnreadable;
    for (std::uint64_t i = 0; i < count;) {
      std::uint64_t run = i;
      while (run < count && has_data(pages_[run], range.shared)) ++run;
      if (run > i) {
        if (!range.readable) return WholeRead::kUnreadable;
        const WholeRead result =
            read_plainly(std::max(range.begin, (first + i) * kPage), std::min(range.end, (first + run) * kPage), true);
        if (result != WholeRead::kDone) return result;
      }
      i = run + 1;
    }
    // A pointer across the border of two parts: the last page is read again with the next part, if it has data.
    first += first + count < last ? std::max<std::uint64_t>(count - 1, 1) : count;
  }
  return WholeRead::kDone;
}

// `must`: memory that cannot be read is an error.
WholeRead WholeReader::read_plainly(std::uint64_t begin, std::uint64_t end, bool must) {
  constexpr std::uint64_t kPointer = sizeof(std::uint64_t);
  while (begin < end) {
    if (clock_ns(CLOCK_MONOTONIC) > deadline_ns_ || bytes_ > most_bytes_ || end - begin > most_bytes_)
      return WholeRead::kGivenUp;
    const std::uint64_t wanted = std::min(end - begin, kBlock);
    const std::int64_t got = os.read_own_memory(block_, begin, wanted);
    const std::uint64_t bytes = got < 0 ? 0 : static_cast<std::uint64_t>(got);
    // memfd_secret(2) makes memory with data that the kernel reads for no other.
    if (bytes < wanted && (must || has_page(begin + bytes))) return WholeRead::kUnreadable;
    visit_(context_, block_, bytes, begin);
    bytes_ += bytes;
    if (bytes < wanted) {
      begin = (begin + bytes) / kPage * kPage + kPage;
    } else {
      // The next copy begins with the bytes of a pointer that ends in it.
      begin += begin + wanted < end ? wanted - (kPointer - 1) : wanted;
    }
  }
  return WholeRead::kDone;
}

}  // namespace culprit
