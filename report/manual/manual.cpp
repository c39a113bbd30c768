#include "report/manual/manual.h"

#include <algorithm>

#include "report/base/embedded_files.h"

namespace culprit::report {

extern "C" const EmbeddedFile culprit_manual[];

std::vector<std::string> manual_topics() {
  std::vector<std::string> names;
  for (const EmbeddedFile* one = culprit_manual; one->name != nullptr; ++one) names.emplace_back(one->name);
  return names;
}

std::string_view manual_page(std::string_view topic) { return embedded_file(culprit_manual, topic); }

std::string manual_title(std::string_view topic) {
  std::string_view line = manual_page(topic);
  line = line.substr(0, line.find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of("# "), line.size()));
  return std::string(line);
}

}  // namespace culprit::report
