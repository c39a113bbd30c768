#include "report/base/markdown_text.h"

#include "report/base/entities.h"
#include "report/base/words.h"

namespace culprit::report {

std::string preformatted(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (!append_entity(c, &result)) result += c;
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

}  // namespace culprit::report
