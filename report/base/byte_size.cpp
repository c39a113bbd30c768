#include "report/base/byte_size.h"

#include <cctype>
#include <charconv>
#include <cmath>

namespace culprit::report {
namespace {

// Reads the decimal number at the beginning of `text`, independently of the locale (std::from_chars).
bool take_number(const std::string& text, double* number, std::string* rest) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return false;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *number, std::chars_format::fixed);
  if (error != std::errc()) return false;
  rest->assign(at, end);
  return true;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(const std::string& text) {
  std::uint64_t whole = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, whole);
  // A double would lose the last digits of a large byte count.
  if (error == std::errc() && at == end) return whole;
  double number = 0;
  std::string unit;
  if (!take_number(text, &number, &unit)) return std::nullopt;
  std::string lower;
  for (const char c : unit) {
    if (c != ' ') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  double scale = 1;
  if (lower != "b") {
    const std::size_t power = lower.empty() ? std::string::npos : std::string("kmgt").find(lower[0]);
    if (power == std::string::npos) return std::nullopt;
    const std::string tail = lower.substr(1);
    if (!tail.empty() && tail != "b" && tail != "ib") return std::nullopt;
    scale = std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
  }
  const double bytes = number * scale;
  if (!(bytes < std::ldexp(1.0, 64))) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<Growth> parse_growth(const std::string& text) {
  Growth growth;
  if (!text.empty() && text.back() == '%') {
    std::string rest;
    if (!take_number(text, &growth.percent, &rest) || rest != "%") return std::nullopt;
    return growth;
  }
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (!bytes) return std::nullopt;
  growth.bytes = *bytes;
  growth.counts = false;
  return growth;
}

bool has_grown(std::uint64_t before, std::uint64_t now, const Growth& allowed) {
  if (now <= before) return false;
  const std::uint64_t more = now - before;
  return more > allowed.bytes && static_cast<double>(more) > static_cast<double>(before) * allowed.percent / 100;
}

}  // namespace culprit::report
