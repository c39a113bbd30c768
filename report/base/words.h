// Numbers, sizes, times and counts as words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/base/printable.h"
#include "report/base/text_width.h"

namespace culprit::report {

inline bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// "1.25 GiB", "11001 B": three significant digits.
std::string format_bytes(std::uint64_t bytes);

// "+1.25 GiB", "-11001 B".
std::string growth_text(std::int64_t bytes);

// "0x7f10".
std::string hex_text(std::uint64_t value);

// 16 hex digits.
std::string hex_id(std::uint64_t value);

// Two hex digits for each byte.
std::string hex_bytes(const std::uint8_t* bytes, std::size_t count);

// "12.4 s", "830 ms", "0.2 ms".
std::string format_time(std::uint64_t ns);

// A word of the user in a message: printable, and cut to 40 columns.
std::string short_word(std::string_view word);

// "1 call", "3 calls".
std::string plural(std::uint64_t count, const std::string& one, const std::string& many);

// "SIGABRT", "signal 40".
std::string signal_text(int number);

}  // namespace culprit::report
