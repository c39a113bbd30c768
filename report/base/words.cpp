#include "report/base/words.h"

#include <cinttypes>
#include <cstdio>

#include "interpose/format/signal_names.h"

namespace culprit::report {
namespace {

std::string three_digits(double value, const char* unit) {
  char text[48];
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, unit);
  return text;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < sizeof(kUnits) / sizeof(kUnits[0])) {
    value /= 1024;
    ++unit;
  }
  return three_digits(value, kUnits[unit]);
}

std::string growth_text(std::int64_t bytes) {
  const auto value = static_cast<std::uint64_t>(bytes);
  return bytes < 0 ? "-" + format_bytes(0 - value) : "+" + format_bytes(value);
}

std::string hex_text(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

std::string hex_id(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

std::string hex_bytes(const std::uint8_t* bytes, std::size_t count) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string format_time(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  return seconds < 1 ? three_digits(seconds * 1e3, "ms") : three_digits(seconds, "s");
}

std::string short_word(std::string_view word) {
  constexpr std::size_t kMostColumns = 40;
  return cut_to_width(printable(word), kMostColumns, "...");
}

std::string plural(std::uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string signal_text(int number) {
  const char* name = signal_name(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

}  // namespace culprit::report
