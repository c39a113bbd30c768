// The pages of another process that it has written: private ones that are present or swapped.
//
// A program may reserve thousands of gigabytes that it never touches (a sanitizer's shadow, an allocator's arena), so
// time must not go with the size of the reservations: the kernel walks over what is not there (PAGEMAP_SCAN, Linux
// 6.7). Before that there is one word for each page, there or not (/proc/PID/pagemap). Large mappings then come last,
// and those of which nothing is resident (/proc/PID/smaps) are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

constexpr std::uint64_t kPageBytes = 4096;

struct AddressRange {
  std::uint64_t begin, end;
};

struct WrittenPages {
  std::vector<AddressRange> ranges;
  std::uint64_t unseen_bytes = 0;  // may be written: left when the time was up
};

// Those in `parts`, which are of whole pages. `goes_on` is called now and then; false ends the look.
WrittenPages written_pages(const TracedProcess& process, const std::vector<AddressRange>& parts,
                           const std::function<bool()>& goes_on);

}  // namespace culprit::report
