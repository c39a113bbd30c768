// The difference of two runs as one object of schema culprit.diff/1.
#include "report/render/json/render_diff_json.h"

#include <nlohmann/json.hpp>

#include "report/base/json_output.h"
#include "report/model/frames.h"
#include "report/render/json/diff_json.h"
#include "report/render/json/render_json.h"

namespace culprit::report {

void render_diff_json(const Diff& diff, std::ostream& out) {
  Json json;
  json["schema"] = "culprit.diff/1";
  json.update(diff_head_json(diff));
  json["changes"] = Json::array();
  for (const Change change : kShownChanges) {
    for (const DiffEntry& entry : diff.with(change)) {
      ResolvedStack stack;
      stack.frames = entry.shown().frames;
      Json one = change_json(entry);
      one["stack"] = Json::parse(stack_as_json(stack));
      json["changes"].push_back(std::move(one));
    }
  }
  out << json_text(json, 2) << "\n";
}

}  // namespace culprit::report
