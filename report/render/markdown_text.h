// Text in Markdown: names of a program may hold anything.
#pragma once

#include <string>

namespace culprit {

// For the inside of <pre> and of other HTML in Markdown, where only HTML counts.
std::string preformatted(const std::string& text);

// What Markdown and the HTML in it would take for their own stands there as it is.
std::string markdown_escaped(const std::string& text);

}  // namespace culprit
