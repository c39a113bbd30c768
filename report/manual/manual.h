// The pages of the manual, which are inside the command: the .md files of this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace culprit::report {

// The names of the pages, in the order in which a reader wants them.
std::vector<std::string> manual_topics();

// The Markdown of a page; empty: there is none of this name.
std::string_view manual_page(std::string_view topic);

// The title of a page: the words of its first line.
std::string manual_title(std::string_view topic);

}  // namespace culprit::report
