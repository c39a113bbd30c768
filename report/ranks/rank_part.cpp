#include "report/ranks/rank_part.h"

#include <nlohmann/json.hpp>

#include "report/base/file_error.h"
#include "report/base/json_input.h"

namespace culprit::report {

using Json = nlohmann::json;

// The first line is about the part, the rest is its report: so the large part is read once.
std::string part_text(const RankPart& part) {
  const Json head = {{"list", part.list},
                     {"ranks", part.ranks},
                     {"merged", part.files.merged},
                     {"errors", part.files.errors},
                     {"bytes", part.merged.size()}};
  return head.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" + part.merged;
}

RankPart read_part(const std::string& text, const std::string& name) {
  const std::size_t end = text.find('\n');
  const Json head = parse_json(text.substr(0, end));
  try {
    if (end == std::string::npos) throw FileError("");
    RankPart part;
    head.at("list").get_to(part.list);
    head.at("ranks").get_to(part.ranks);
    head.at("merged").get_to(part.files.merged);
    head.at("errors").get_to(part.files.errors);
    part.merged = text.substr(end + 1);
    if (part.ranks.empty() || part.merged.empty() != (part.files.merged == 0)) throw FileError("");
    if (part.merged.size() != head.at("bytes").get<std::size_t>()) throw FileError("");
    return part;
  } catch (const std::exception&) {
    throw FileError(name + " is damaged");
  }
}

}  // namespace culprit::report
