// Texts that a program passes to NVTX.
#pragma once

#include <cstdint>

#include "interpose/base/utf8.h"
#include "interpose/control/marks.h"

namespace culprit {

inline std::uint32_t bounded_length(const char* text) {
  return static_cast<std::uint32_t>(length_up_to(text, OpenMarks::kNameBytes - 1));
}

// Characters outside ASCII become '?'.
struct Narrow {
  explicit Narrow(const wchar_t* wide) {
    for (; wide[length] != L'\0' && length < OpenMarks::kNameBytes - 1; ++length)
      text[length] = wide[length] < 0x80 ? static_cast<char>(wide[length]) : '?';
  }
  std::uint32_t length = 0;
  char text[OpenMarks::kNameBytes];
};

// nvtxMessageType_t
enum MessageType : std::uint32_t { kAscii = 1, kUnicode = 2, kRegistered = 3 };

}  // namespace culprit
