// The bits from 32 on of the addresses that the kernel looks for, in as few ranges as it can test: the nearest two are
// joined as long as there are too many.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "interpose/device_search/find_pointers.h"

namespace culprit {

class UpperRanges {
 public:
  explicit UpperRanges(UpperRange* ranges) : ranges_(ranges) {}

  // In order of addresses.
  void add(std::uint64_t begin, std::uint64_t end) {
    const auto first = static_cast<std::uint32_t>(begin >> 32);
    const auto last = static_cast<std::uint32_t>(end >> 32);
    if (count_ != 0 && first <= last_of(count_ - 1) + 1) {
      list_[count_ - 1].more = std::max(last, last_of(count_ - 1)) - list_[count_ - 1].first;
      return;
    }
    list_[count_++] = {first, last - first};
    if (count_ > kUpperRanges) join();
  }

  void finish() {
    for (int i = 0; i < kUpperRanges; ++i) ranges_[i] = list_[std::min(i, count_ - 1)];
  }

 private:
  std::uint32_t last_of(int number) const { return list_[number].first + list_[number].more; }
  void join() {
    int nearest = 1;
    for (int i = 2; i < count_; ++i) {
      if (list_[i].first - last_of(i - 1) < list_[nearest].first - last_of(nearest - 1)) nearest = i;
    }
    list_[nearest - 1].more = last_of(nearest) - list_[nearest - 1].first;
    std::copy(list_ + nearest + 1, list_ + count_--, list_ + nearest);
  }

  UpperRange* ranges_;
  UpperRange list_[kUpperRanges + 1] = {};
  int count_ = 0;
};

}  // namespace culprit
