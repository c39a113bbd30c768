#include "report/render/text/render_sharing.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/findings/place_words.h"
#include "report/findings/sharing_words.h"
#include "report/model/frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownExporters = 3;

bool is_same_code(const ResolvedStack& left, const ResolvedStack& right) {
  return &left == &right || std::equal(left.frames.begin(), left.frames.end(), right.frames.begin(), right.frames.end(),
                                       [](const Frame* a, const Frame* b) {
                                         return a->function == b->function && a->file == b->file && a->line == b->line;
                                       });
}

struct SharingSum {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t unknown = 0;  // of `count`: of unknown size
  void add(const Sharing& sharing) {
    bytes += sharing.bytes;
    count += sharing.count;
    if (sharing.bytes == 0) unknown += sharing.count;
  }
  std::string text() const {
    if (unknown == count) return "memory of unknown size (" + std::to_string(count) + "x)";
    return format_bytes(bytes) + " (" + std::to_string(count) + "x" +
           (unknown == 0 ? "" : ", " + std::to_string(unknown) + " of unknown size") + ")";
  }
};

}  // namespace

void render_own_sharings(const Report& report, std::ostream& out) {
  SharingSum exported, freed, opened;
  for (const Sharing& sharing : report.sharings) {
    const bool is_export = sharing.role == format::SharingRole::kExport;
    (!is_export ? opened : sharing.ended_ns == 0 ? exported : freed).add(sharing);
  }
  if (exported.count != 0) out << "shared  " << exported.text() << " exported to other processes\n";
  if (freed.count != 0)
    out << "shared  " << freed.text() << " exported and freed: the memory stays while others map it (culprit doctor)\n";
  if (opened.count != 0) out << "shared  " << opened.text() << " of other processes is open here\n";
}

std::vector<std::string> exporters_of(const Report& report, const Group& group) {
  std::vector<std::string> lines;
  if (group.kind != format::Kind::kIpcMemory && group.kind != format::Kind::kVmmImported) return lines;
  std::size_t count = 0;
  for (const SharedMemory& shared : report.shared) {
    if (!shared.importer.in_report || !is_same_code(*shared.opened, *group.stack)) continue;
    std::string line = printable(export_text(shared)) + ": " + amount_of(shared);
    if (shared.freed != nullptr) line += ", freed" + printable(at_place(shared.freed));
    if (std::find(lines.begin(), lines.end(), line) != lines.end()) continue;
    if (++count <= kShownExporters) lines.push_back(line);
  }
  if (count > kShownExporters) lines.push_back("and " + std::to_string(count - kShownExporters) + " more");
  return lines;
}

}  // namespace culprit::report
