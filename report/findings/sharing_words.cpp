#include "report/findings/sharing_words.h"

#include "report/base/words.h"
#include "report/findings/place_words.h"

namespace culprit::report {
namespace {

std::string name_of(const SharingSide& side) {
  return side.rank ? "rank " + std::to_string(*side.rank) : "process " + std::to_string(side.pid);
}

}  // namespace

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

}  // namespace culprit::report
