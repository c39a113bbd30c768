// Foreign text made harmless. Names come from dumps, files and environments of unknown origin: a terminal
// would carry out escape sequences in them, a bidi override would show a line in another order than it has, and invalid
// UTF-8 makes a file of XML, JSON or protobuf unreadable. All functions are thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace culprit::report {

// The text with '?' for each control character (C0, DEL, C1), each character that changes the direction or the lines of
// the text around it, each invisible one that only hides text, each noncharacter and each byte that is no UTF-8.
// The result is valid UTF-8 and fits into one line.
std::string printable(std::string_view text);

// Likewise, but line feeds stay.
std::string printable_lines(std::string_view text);

// For JSON text that a program wrote (valid UTF-8): writes the same characters as escape sequences, so that nothing is
// lost. They occur only inside of strings, where an escape sequence may stand for any character.
std::string with_escapes(std::string json);

// For JSON text that is shown to readers: the strings in it become printable_lines(). Tabs stay, too.
std::string with_printable_strings(std::string json);

}  // namespace culprit::report
