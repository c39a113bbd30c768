// Escapes text for Markdown: names in a program may contain any character.
#pragma once

#include <string>

namespace culprit::report {

// For text inside <pre> and other HTML in Markdown, where only HTML is escaped.
std::string preformatted(const std::string& text);

// Escapes everything that Markdown, or HTML in it, would interpret.
std::string markdown_escaped(const std::string& text);

}  // namespace culprit::report
