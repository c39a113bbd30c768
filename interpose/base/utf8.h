// Texts of users, cut to a size without a part of a UTF-8 character at the end. Async-signal-safe, no call of libc.
#pragma once

#include <cstddef>

namespace culprit {

// The bytes of `text` up to its NUL, at most `most`. A text of `most` bytes or more loses the last character if its end
// is beyond them.
inline std::size_t length_up_to(const char* text, std::size_t most) {
  std::size_t length = 0;
  while (length < most && text[length] != '\0') ++length;
  if (length < most) return length;
  for (std::size_t back = 1; back <= 3 && back <= length; ++back) {
    const auto byte = static_cast<unsigned char>(text[length - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t bytes = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return bytes > back ? length - back : length;
  }
  return length;
}

}  // namespace culprit
