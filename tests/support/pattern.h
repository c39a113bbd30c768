// Regular expressions of tests (std::regex, ECMAScript). They are compiled once, in pattern.cpp: the templates of
// <regex> would be a tenth of a file that includes it.
#pragma once

#include <string>
#include <vector>

namespace culprit::test {

// Whether the whole text is as the pattern says, or a part of it. ^ and $ stand for the ends of lines.
bool matches(const std::string& text, const std::string& pattern);
bool has_match(const std::string& text, const std::string& pattern);

// Of each match, in order, the text of the first group.
std::vector<std::string> first_groups(const std::string& text, const std::string& pattern);

}  // namespace culprit::test
