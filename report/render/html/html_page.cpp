#include "report/render/html/html_page.h"

#include <algorithm>
#include <cstring>
#include <streambuf>
#include <string_view>

#include "report/base/embedded_files.h"
#include "report/base/markdown_text.h"
#include "report/render/html/page_causes.h"

namespace culprit::report {

// The files of report/render/html/, and D3 with its licence.
extern "C" const EmbeddedFile culprit_html_assets[];

namespace {

std::string_view asset(std::string_view name) { return embedded_file(culprit_html_assets, name); }

// Escapes JSON text for a <script> element, which "</script>" or "<!--" inside a string would end. In JSON, "<" occurs
// only in strings, so it can be written as an escape sequence.
class DataBuffer : public std::streambuf {
 public:
  explicit DataBuffer(std::ostream& out) : out_(out) {}

 private:
  std::streamsize xsputn(const char* data, std::streamsize count) override {
    const char* const end = data + count;
    for (const char* from = data; from != end;) {
      const char* found = static_cast<const char*>(std::memchr(from, '<', static_cast<std::size_t>(end - from)));
      out_.write(from, (found == nullptr ? end : found) - from);
      if (found == nullptr) break;
      out_ << "\\u003c";
      from = found + 1;
    }
    return count;
  }
  int_type overflow(int_type c) override {
    if (c == traits_type::eof()) return 0;
    const char one = traits_type::to_char_type(c);
    xsputn(&one, 1);
    return 0;
  }

  std::ostream& out_;
};

}  // namespace

void write_html_page(const std::string& title, const std::function<void(std::ostream&)>& write_data,
                     std::ostream& out) {
  std::string_view page = asset("page.html");
  for (;;) {
    const std::size_t open = page.find("{{");
    const std::size_t close = page.find("}}", std::min(open, page.size()));
    if (close == std::string_view::npos) break;
    out << page.substr(0, open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    if (name == "title") {
      out << preformatted(title);
    } else if (name == "data") {
      DataBuffer buffer(out);
      std::ostream data(&buffer);
      write_data(data);
    } else if (name == "causes") {
      out << page_causes();
    } else if (name == "cause-colours") {
      out << page_cause_colours();
    } else {
      out << asset(name);
    }
    page.remove_prefix(close + 2);
  }
  out << page;
}

}  // namespace culprit::report
