// The difference of two runs as a page (report/render/html/diff.js): all changes, and the unchanged leaks.
#include "report/render/html/render_diff_html.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/model/frames.h"
#include "report/render/html/html_page.h"
#include "report/render/html/page_frames.h"
#include "report/render/json/diff_json.h"

namespace culprit::report {
namespace {

// null when this side has no such leak, or no stacks.
Json side_stack(const ListedLeak* side, PageFrames* frames) {
  return side == nullptr || side->frames.empty() ? Json() : frames->numbers_of(side->frames);
}

Json page_change(const DiffEntry& entry, PageFrames* frames) {
  Json one = change_json(entry);
  one["old_stack"] = side_stack(entry.before, frames);
  one["stack"] = side_stack(entry.now, frames);
  if (entry.before != nullptr && !entry.before->leak.comment.empty()) one["comment"] = entry.before->leak.comment;
  return one;
}

void write_data(const Diff& diff, std::ostream& out) {
  out << "{\"view\": \"diff\",\n";
  const Json head = diff_head_json(diff);
  for (const auto& [key, value] : head.items()) out << '"' << key << "\": " << page_text(value) << ",\n";
  PageFrames frames;
  std::size_t left_out = 0;
  std::size_t bytes = 0;
  out << "\"changes\": [";
  bool first = true;
  for (const std::vector<DiffEntry>& entries : diff.entries) {
    std::size_t shown = 0;
    while (shown < std::min(entries.size(), kMostPageEntries) && bytes + frames.bytes() < kMostPageDataBytes) {
      const std::string text = page_text(page_change(entries[shown], &frames));
      out << (first ? "\n" : ",\n") << text;
      bytes += page_bytes(text) + 2;
      first = false;
      ++shown;
    }
    left_out += entries.size() - shown;
  }
  out << "],\n";
  if (left_out != 0) out << "\"left_out\": " << left_out << ",\n";
  frames.write(out);
  out << "}\n";
}

}  // namespace

void render_diff_html(const Diff& diff, std::ostream& out) {
  auto count = [&](Change change) { return std::to_string(diff.with(change).size()) + " " + change_name(change); };
  const bool known = diff.before.not_known.empty() && diff.now.not_known.empty();
  const bool worse = !diff.with(Change::kNew).empty() || !diff.with(Change::kGrown).empty();
  const std::string title = (known || worse ? "" : "Not known; ") + count(Change::kNew) + ", " + count(Change::kGrown) +
                            ", " + count(Change::kShrunk) + ", " + count(Change::kGone) + " · " +
                            std::string(base_name(diff.now.path)) + " · culprit";
  write_html_page(
      title, [&](std::ostream& data) { write_data(diff, data); }, out);
}

}  // namespace culprit::report
