#include "report/render/text/text_style.h"

#include <cinttypes>
#include <cstdio>

#include "report/render/render.h"

namespace culprit::report {
namespace {

std::string three_digits(double value, const char* unit) {
  char text[48];
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, unit);
  return text;
}

std::string offset_text(std::uint64_t offset) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, offset);
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

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

std::string format_time(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  return seconds < 1 ? three_digits(seconds * 1e3, "ms") : three_digits(seconds, "s");
}

std::string frame_place(const Frame& frame) {
  if (!frame.file.empty()) {
    std::string place = printable(base_name(frame.file));
    return frame.line != 0 ? place + ":" + std::to_string(frame.line) : place;
  }
  return frame.module != nullptr ? printable(frame.module->name) : "";
}

std::string frame_function(const Frame& frame) {
  const std::string name = printable(frame.function);
  if (!frame.file.empty()) return name.empty() ? "??" : name;
  if (!name.empty() && !frame.approximate) return name + (frame.inlined ? "" : "+" + offset_text(frame.symbol_offset));
  const std::string place = frame.module != nullptr ? printable(frame.module->name) + "+" : "";
  const std::string nearest = name.empty() ? "" : " (after " + name + "+" + offset_text(frame.symbol_offset) + ")";
  return place + offset_text(frame.offset) + nearest;
}

std::string frame_text(const Frame& frame) {
  return frame.file.empty() ? frame_function(frame) : frame_place(frame) + "  " + frame_function(frame);
}

}  // namespace culprit::report
