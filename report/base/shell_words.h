// Words of commands that a reader copies into a shell. Every command that a report or a message shows is made with
// these. The results are printable().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace culprit::report {

// "a.dump", "'a b.dump'".
std::string shell_word(std::string_view text);

// The same for a file, whose name must not be taken for an option: "./-a.dump".
std::string shell_path(std::string_view path);

// The words with blanks between them.
std::string shell_command(const std::vector<std::string>& words);

}  // namespace culprit::report
