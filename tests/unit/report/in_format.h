// A report in one of the formats.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/render/json/render_json.h"
#include "report/select/render_options.h"

namespace culprit::test {

using Render = void (*)(const std::vector<report::Report>&, const report::RenderOptions&, std::ostream&);

inline std::string in_format(const report::Report& report, Render render) {
  std::ostringstream out;
  render({report}, report::RenderOptions(), out);
  return out.str();
}

inline nlohmann::json json_of(const report::Report& report) {
  std::ostringstream out;
  report::render_json({report}, out);
  return nlohmann::json::parse(out.str());
}

}  // namespace culprit::test
