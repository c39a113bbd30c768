// Self-contained HTML pages: the style, the scripts and D3 are inside (report/render/html/, built into the command),
// and the page's content security policy forbids the browser to load anything else.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace culprit::report {

// Writes a page with the data from `write_data`: JSON text, whose member "view" names the script that draws it
// (report/render/html/main.js). All text in it may be hostile. `write_data` is called once.
void write_html_page(const std::string& title, const std::function<void(std::ostream&)>& write_data, std::ostream& out);

}  // namespace culprit::report
