// Sizes as people write them on a command line or in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace culprit::report {

// "4096", "64K", "64KiB", "1.5 GiB", "2MB": K, M, G and T are powers of 1024, with or without "iB" or "B", in any case.
// Empty when the text is not a size or does not fit into 64 bits.
std::optional<std::uint64_t> parse_bytes(const std::string& text);

// By how much a leak may grow before it counts as grown.
struct Growth {
  double percent = 0;
  std::uint64_t bytes = 0;
  // Whether the number of allocations is judged, too: a growth in bytes says nothing about it.
  bool counts = true;
};

// "10%" or a size. Empty for any other text.
std::optional<Growth> parse_growth(const std::string& text);

// Whether `now` is greater than `before` plus the growth that `allowed` permits.
bool has_grown(std::uint64_t before, std::uint64_t now, const Growth& allowed);

}  // namespace culprit::report
