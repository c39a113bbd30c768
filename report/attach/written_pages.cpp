#include "report/attach/written_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "report/base/descriptor.h"

namespace culprit::report {
namespace {

constexpr std::size_t kPagesAtOnce = 16384;
constexpr std::size_t kRegionsAtOnce = 4096;
constexpr std::uint64_t kLargePart = std::uint64_t{4} << 30;  // its pages take some milliseconds to look through

// Linux, Documentation/admin-guide/mm/pagemap.rst
constexpr std::uint64_t kPagePresent = 1ULL << 63, kPageSwapped = 1ULL << 62, kPageOfFile = 1ULL << 61;

// Linux, include/uapi/linux/fs.h, from 6.7 on.
struct PageRegion {
  std::uint64_t begin, end, categories;
};
struct PageScan {
  std::uint64_t size, flags, begin, end, walk_end, regions, region_count, most_pages;
  std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, PageScan);
constexpr std::uint64_t kOfFile = 1 << 2, kPresent = 1 << 3, kSwapped = 1 << 4, kOfZeros = 1 << 5;

void add(std::vector<AddressRange>* ranges, std::uint64_t begin, std::uint64_t end) {
  if (!ranges->empty() && ranges->back().end == begin) {
    ranges->back().end = end;
  } else {
    ranges->push_back({begin, end});
  }
}

// In ascending order, and each page once.
std::vector<AddressRange> merged(std::vector<AddressRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& one, const auto& other) { return one.begin < other.begin; });
  std::vector<AddressRange> result;
  for (const AddressRange& range : ranges) {
    if (!result.empty() && range.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, range.end);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

class Look {
 public:
  Look(const TracedProcess& process, const std::function<bool()>& goes_on)
      : process_(process),
        goes_on_(goes_on),
        pagemap_(::open((process.folder().living().path() + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}

  WrittenPages run(const std::vector<AddressRange>& parts) {
    WrittenPages result;
    std::vector<AddressRange> left;
    for (const AddressRange& part : parts) {
      if (!can_scan_ || !scan(part, &result.ranges)) left.push_back(part);
    }
    std::stable_sort(left.begin(), left.end(),
                     [](const auto& one, const auto& other) { return one.end - one.begin < other.end - other.begin; });
    const bool any_large = !left.empty() && left.back().end - left.back().begin >= kLargePart;
    const std::map<std::uint64_t, std::uint64_t> resident = any_large ? resident_bytes() : decltype(resident)();
    for (const AddressRange& part : left) {
      const std::uint64_t bytes = part.end - part.begin;
      const auto mapping = resident.upper_bound(part.begin);
      const std::uint64_t most =
          bytes >= kLargePart && mapping != resident.begin() ? std::min(std::prev(mapping)->second, bytes) : bytes;
      if (most != 0) result.unseen_bytes += std::min(most, read(part, &result.ranges));
    }
    result.ranges = merged(std::move(result.ranges));
    return result;
  }

 private:
  bool goes_on() {
    stopped_ = stopped_ || !goes_on_();
    return !stopped_;
  }

  // False: the kernel cannot do it, or the time is up.
  bool scan(const AddressRange& part, std::vector<AddressRange>* ranges) {
    PageScan scan = {};
    scan.size = sizeof(scan);
    scan.regions = reinterpret_cast<std::uint64_t>(regions_.data());
    scan.region_count = regions_.size();
    scan.category_anyof_mask = kPresent | kSwapped;
    scan.return_mask = kPresent | kSwapped | kOfFile | kOfZeros;
    scan.end = part.end;
    for (std::uint64_t at = part.begin; at < part.end; at = scan.walk_end) {
      if (!goes_on()) return false;
      scan.begin = at;
      const int count = ::ioctl(pagemap_.get(), kPagemapScan, &scan);
      if (count < 0 && errno == EINTR) {
        scan.walk_end = at;
        continue;
      }
      if (count < 0 || scan.walk_end <= at) {
        can_scan_ = false;
        return false;
      }
      for (int i = 0; i < count; ++i) {
        const PageRegion& region = regions_[static_cast<std::size_t>(i)];
        const bool written = (region.categories & kSwapped) != 0 || (region.categories & (kOfFile | kOfZeros)) == 0;
        if (written) add(ranges, region.begin, region.end);
      }
    }
    return true;
  }

  // Returns the bytes that it did not come to.
  std::uint64_t read(const AddressRange& part, std::vector<AddressRange>* ranges) {
    std::vector<std::uint64_t> pages(kPagesAtOnce);
    for (std::uint64_t at = part.begin; at < part.end;) {
      if (!goes_on()) return part.end - at;
      const std::size_t count = std::min<std::uint64_t>((part.end - at) / kPageBytes, kPagesAtOnce);
      const auto bytes = static_cast<ssize_t>(count * sizeof(std::uint64_t));
      if (!pagemap_.is_open() || ::pread(pagemap_.get(), pages.data(), static_cast<std::size_t>(bytes),
                                         static_cast<off_t>(at / kPageBytes * sizeof(std::uint64_t))) != bytes) {
        add(ranges, at, part.end);  // all of it where the kernel does not tell
        return 0;
      }
      for (std::size_t i = 0; i < count; ++i) {
        const bool written =
            (pages[i] & kPageSwapped) != 0 || ((pages[i] & kPagePresent) != 0 && (pages[i] & kPageOfFile) == 0);
        if (written) add(ranges, at + i * kPageBytes, at + (i + 1) * kPageBytes);
      }
      at += count * kPageBytes;
    }
    return 0;
  }

  std::map<std::uint64_t, std::uint64_t> resident_bytes() const {
    std::map<std::uint64_t, std::uint64_t> result;
    std::istringstream lines(process_.folder().living().text("smaps"));
    std::uint64_t* current = nullptr;
    for (std::string line; std::getline(lines, line);) {
      std::uint64_t begin = 0;
      std::uint64_t kibibytes = 0;
      if (std::sscanf(line.c_str(), "%" SCNx64 "-%*x ", &begin) == 1 && line.find('-') < line.find(' ')) {
        current = &result[begin];
      } else if (current != nullptr && (std::sscanf(line.c_str(), "Rss: %" SCNu64, &kibibytes) == 1 ||
                                        std::sscanf(line.c_str(), "Swap: %" SCNu64, &kibibytes) == 1)) {
        *current += kibibytes * 1024;
      }
    }
    return result;
  }

  const TracedProcess& process_;
  const std::function<bool()>& goes_on_;
  const Descriptor pagemap_;
  std::vector<PageRegion> regions_ = std::vector<PageRegion>(kRegionsAtOnce);
  bool can_scan_ = true;
  bool stopped_ = false;
};

}  // namespace

WrittenPages written_pages(const TracedProcess& process, const std::vector<AddressRange>& parts,
                           const std::function<bool()>& goes_on) {
  return Look(process, goes_on).run(parts);
}

}  // namespace culprit::report
