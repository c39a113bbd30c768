// A hash for ids that last: the same on each platform and in each release, which std::hash is not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/base/words.h"

namespace culprit::report {

// FNV-1a of texts, each with a NUL behind it.
class StableHash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  std::string hex() const { return hex_id(value_); }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace culprit::report
