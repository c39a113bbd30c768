// A page of the manual as plain text for a terminal or a pipe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace culprit::report {

// Knows the part of Markdown that README.md of this folder allows. Paragraphs, lists and tables are broken at
// `columns`; lines of code stay as they are. A link to another page becomes "words (culprit help PAGE)", or "culprit
// help PAGE".
std::string page_text(std::string_view markdown, std::size_t columns);

}  // namespace culprit::report
