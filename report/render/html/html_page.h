// Pages that need nothing but themselves: the style, the scripts and D3 are inside (report/render/html/, built into the
// command), and a content security policy in the page forbids the browser to load anything.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace culprit {

// Writes a page that shows what `write_data` writes: JSON text, whose member "view" names the script that draws it
// (report/render/html/main.js). All text in it may be hostile. `write_data` is called once.
void write_html_page(const std::string& title, const std::function<void(std::ostream&)>& write_data, std::ostream& out);

}  // namespace culprit
