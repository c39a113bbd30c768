// The data inside an HTML report.
#pragma once

#include <string>

namespace culprit::test {

// The JSON text that the page's scripts read; "" when it is missing.
inline std::string page_data(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(begin);
  const std::size_t to = page.find("</script>", from);
  if (from == std::string::npos || to == std::string::npos) return "";
  return page.substr(from + begin.size(), to - from - begin.size());
}

}  // namespace culprit::test
