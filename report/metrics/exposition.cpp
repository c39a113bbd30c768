#include "report/metrics/exposition.h"

#include "prometheus/text_serializer.h"
#include "report/metrics/metric_families.h"

namespace culprit::report {
namespace {

constexpr std::string_view kTotal = "_total";

bool is_counter(const prometheus::MetricFamily& family) {
  const std::string& name = family.name;
  return family.type == prometheus::MetricType::Counter && name.size() > kTotal.size() &&
         name.compare(name.size() - kTotal.size(), kTotal.size(), kTotal) == 0;
}

// prometheus-cpp has no OpenMetrics. For counters and gauges the formats differ in this: the name of a counter ends in
// "_total" in its series only, not in the two lines before them.
std::string without_total(const std::string& text, const std::string& name) {
  const std::string short_name = name.substr(0, name.size() - kTotal.size());
  std::string result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin) + 1;
    std::string line = text.substr(begin, end - begin);
    for (const char* word : {"# HELP ", "# TYPE "}) {
      const std::string head = word + name + " ";
      if (line.compare(0, head.size(), head) == 0) line.replace(0, head.size(), word + short_name + " ");
    }
    result += line;
    begin = end;
  }
  return result;
}

}  // namespace

bool accepts_openmetrics(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos;
}

Exposition exposition_of(const Observation& observation) {
  const prometheus::TextSerializer serializer;
  const prometheus::Serializer& base = serializer;
  Exposition result;
  for (const prometheus::MetricFamily& family : families_of(observation)) {
    const std::string text = base.Serialize({family});
    result.prometheus += text;
    result.openmetrics += is_counter(family) ? without_total(text, family.name) : text;
  }
  result.openmetrics += "# EOF\n";
  return result;
}

}  // namespace culprit::report
