// A text as one word of a command that a reader types in a shell, for the messages of the library and of the command:
// as it is, in single quotes, or in $'...' (bash, zsh, ksh) where it has characters that a terminal does not show.
// Calls nothing, so that the library can use it in every state of the process.
#pragma once

#include <cstddef>

namespace culprit::format {

enum class ShellWord {
  kText,
  kPath,  // gets "./" in front of a leading dash, which would begin an option
};

// Calls put(char) for each letter. `hidden`: the text has characters beyond ASCII that must not reach a terminal.
template <typename Put>
void put_shell_word(const char* text, std::size_t length, ShellWord is, bool hidden, Put put) {
  const auto is_control = [&](unsigned char c) { return c < 0x20 || c == 0x7f || (hidden && c >= 0x80); };
  const auto is_plain = [](char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    for (const char* one = "_@%+=:,./-"; *one != '\0'; ++one) {
      if (c == *one) return true;
    }
    return false;
  };
  bool plain = length != 0;
  bool controls = false;
  for (std::size_t i = 0; i < length; ++i) {
    plain = plain && is_plain(text[i]);
    controls = controls || is_control(static_cast<unsigned char>(text[i]));
  }
  const auto put_text = [&](const char* letters) {
    for (; *letters != '\0'; ++letters) put(*letters);
  };
  put_text(plain ? "" : controls ? "$'" : "'");
  if (is == ShellWord::kPath && length != 0 && text[0] == '-') put_text("./");
  for (std::size_t i = 0; i < length; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (controls && is_control(c)) {
      put('\\');
      put(static_cast<char>('0' + (c >> 6)));
      put(static_cast<char>('0' + (c >> 3 & 7)));
      put(static_cast<char>('0' + (c & 7)));
    } else if (controls && (c == '\'' || c == '\\')) {
      put('\\');
      put(text[i]);
    } else if (c == '\'') {
      put_text("'\\''");
    } else {
      put(text[i]);
    }
  }
  put_text(plain ? "" : "'");
}

}  // namespace culprit::format
