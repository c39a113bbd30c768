#include "report/render/text/render_sharing.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/render/text/palette.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownEntries = 8;
constexpr std::size_t kShownExporters = 3;

// " at a.py:7", " in function", or "" when the stack is not recorded.
std::string at_place(const ResolvedStack* stack) {
  const Frame* frame = stack == nullptr ? nullptr : naming_frame(*stack);
  if (frame == nullptr) return {};
  const std::string place = frame_place(*frame);
  return place.empty() || frame->line == 0 ? " in " + frame_function(*frame) : " at " + place;
}

std::string name_of(const SharingSide& side) {
  return side.rank ? "rank " + std::to_string(*side.rank) : "process " + std::to_string(side.pid);
}

std::string amount_of(const SharedMemory& shared) {
  const std::string bytes = shared.bytes != 0 ? format_bytes(shared.bytes) : "memory of unknown size";
  return shared.count == 1 ? bytes : bytes + " in " + std::to_string(shared.count) + " allocations";
}

// "exported by rank 0 at a.py:5".
std::string export_text(const SharedMemory& shared) {
  if (!shared.exporter) return "its export is in no dump here";
  return (shared.certain ? "exported by " : "perhaps exported by ") + name_of(*shared.exporter) +
         at_place(shared.exported);
}

bool is_same_code(const ResolvedStack& left, const ResolvedStack& right) {
  return &left == &right || std::equal(left.frames.begin(), left.frames.end(), right.frames.begin(), right.frames.end(),
                                       [](const Frame* a, const Frame* b) {
                                         return a->function == b->function && a->file == b->file && a->line == b->line;
                                       });
}

}  // namespace

std::string shared_memory_text(const SharedMemory& shared) {
  const bool runs = shared.importer.ended == Ended::kRunning;
  const bool end_unseen = shared.importer.ended == Ended::kUnknown && !shared.importer.gone;
  const char* when = runs ? "" : end_unseen ? " at the end of its dump" : " when it ended";
  const std::string mapped =
      "still mapped by " + name_of(shared.importer) + when + ", opened" + at_place(shared.opened);
  if (shared.state != SharedState::kStays || !shared.exporter)
    return mapped + ", " + export_text(shared) + ": " + amount_of(shared);
  const std::string freed = shared.freed != nullptr ? "freed by " + name_of(*shared.exporter) + at_place(shared.freed)
                                                    : "of " + name_of(*shared.exporter) + ", which has ended";
  const char* verb =
      runs ? (shared.certain ? " stay" : " may stay") : (shared.certain ? " stayed" : " may have stayed");
  return freed + ", " + mapped + ": " + amount_of(shared) + verb;
}

void render_shared_memory(const Report& report, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  std::size_t count = 0;
  for (const SharedMemory& shared : report.shared) {
    if (shared.state != SharedState::kStays) continue;
    if (++count > kShownEntries && !options.all) continue;
    out << palette.warn("SHARED MEMORY") << ": " << printable(shared_memory_text(shared)) << "\n";
  }
  if (count > kShownEntries && !options.all)
    out << "and " << plural(count - kShownEntries, "entry", "entries") << " of shared memory more: --all\n";
}

namespace {

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
