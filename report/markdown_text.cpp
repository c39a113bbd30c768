#include "report/markdown_text.h"

#include "report/text_style.h"

namespace culprit {

std::string preformatted(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string markdown_escaped(const std::string& text) {
  std::string result;
  for (const char c : preformatted(text)) {
    if (std::string("\\`*_{}[]()#+!|~$@").find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

}  // namespace culprit
