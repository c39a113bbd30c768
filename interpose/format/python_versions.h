// The range of CPython versions whose frames are read: made from python_versions.def.
#pragma once

#include <cstdint>

namespace culprit::format {

namespace python_versions {

constexpr int kMinors[] = {
#define PYTHON_VERSION(minor, layout) minor,
#include "interpose/format/python_versions.def"
};
constexpr int kCount = sizeof(kMinors) / sizeof(kMinors[0]);

constexpr const char* after(const char* text, const char* start) {
  while (text != nullptr && *start != 0) text = *text == *start++ ? text + 1 : nullptr;
  return text;
}
constexpr const char* after(const char* text, int number) {
  if (number >= 10) text = after(text, number / 10);
  return text != nullptr && *text == '0' + number % 10 ? text + 1 : nullptr;
}
constexpr bool range_is_right(const char* text) {
  for (int i = 1; i < kCount; ++i) {
    if (kMinors[i] != kMinors[i - 1] + 1) return false;
  }
  text = after(text, "3.");
  if (text != nullptr) text = after(text, kMinors[0]);
  if (text != nullptr) text = after(text, " to 3.");
  if (text != nullptr) text = after(text, kMinors[kCount - 1]);
  return text != nullptr && *text == 0;
}
static_assert(range_is_right(CULPRIT_PYTHON_VERSIONS), "CULPRIT_PYTHON_VERSIONS is not the range of the rows");

}  // namespace python_versions

constexpr const char* kPythonVersions = CULPRIT_PYTHON_VERSIONS;  // "3.9 to 3.14"

// Whether the frames of usual builds of this version (PY_VERSION_HEX) are read.
constexpr bool reads_python(std::uint32_t version) {
  const int minor = static_cast<int>(version >> 16 & 0xff);
  return version >> 24 == 3 && minor >= python_versions::kMinors[0] &&
         minor <= python_versions::kMinors[python_versions::kCount - 1];
}

}  // namespace culprit::format
