// Searches in lists that are sorted by the member `address`.
#pragma once

#include <algorithm>
#include <cstdint>

namespace culprit::report {

// The first element at this address or above; end(): there is none.
template <typename List>
auto at_or_above(const List& list, std::uint64_t address) {
  return std::lower_bound(list.begin(), list.end(), address,
                          [](const auto& one, std::uint64_t wanted) { return one.address < wanted; });
}

// The element whose `bytes` contain this address; end(): there is none.
template <typename List>
auto containing(const List& list, std::uint64_t address) {
  auto behind = std::upper_bound(list.begin(), list.end(), address,
                                 [](std::uint64_t wanted, const auto& one) { return wanted < one.address; });
  if (behind == list.begin()) return list.end();
  --behind;
  return address - behind->address < behind->bytes ? behind : list.end();
}

}  // namespace culprit::report
