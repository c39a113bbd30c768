#include "report/base/shell_words.h"

#include "interpose/format/shell_word.h"
#include "report/base/printable.h"

namespace culprit::report {
namespace {

std::string word_of(std::string_view text, format::ShellWord is) {
  std::string word;
  // A '?' of printable() would name another file.
  const bool hidden = printable(text) != text;
  format::put_shell_word(text.data(), text.size(), is, hidden, [&](char c) { word += c; });
  return word;
}

}  // namespace

std::string shell_word(std::string_view text) { return word_of(text, format::ShellWord::kText); }

std::string shell_path(std::string_view path) { return word_of(path, format::ShellWord::kPath); }

std::string shell_command(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + shell_word(word);
  return command;
}

}  // namespace culprit::report
