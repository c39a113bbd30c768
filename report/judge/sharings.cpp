#include "report/judge/sharings.h"

#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {

using namespace format;

namespace {

// The recorder keeps at most 4096; a damaged dump may have millions, of which each pair would be compared.
constexpr std::size_t kMostSharings = 8192;
constexpr std::uint64_t kMostShared = 1ULL << 56;  // sums do not overflow

bool is_plausible(const SharingRecord& record) {
  const bool known_role = record.role == SharingRole::kExport || record.role == SharingRole::kImport;
  return known_role && record.type != SharingType::kNone && record.type <= kLastSharingType &&
         record.bytes < kMostShared;
}

}  // namespace

std::vector<Sharing> read_sharings(const std::vector<SharingRecord>& records, const StackResolver& stacks,
                                   const Report& report) {
  std::vector<Sharing> sharings;
  for (const SharingRecord& record : records) {
    if (!is_plausible(record)) continue;
    if (sharings.size() == kMostSharings) break;
    Sharing sharing;
    sharing.role = record.role;
    sharing.type = record.type;
    sharing.kind = record.kind;
    sharing.key = record.key;
    sharing.device = device_of(record.device);
    for (const DeviceInfo& device : report.devices) {
      if (device.ordinal == sharing.device) sharing.gpu = device.uuid;
    }
    sharing.bytes = record.bytes;
    sharing.count = record.count;
    sharing.time_ns = record.time_ns;
    sharing.ended_ns = record.ended_ns;
    sharing.stack = &stacks.stack(record.stack);
    sharing.export_stack = &stacks.stack(record.export_stack);
    sharing.end_stack = &stacks.stack(record.end_stack);
    sharings.push_back(std::move(sharing));
  }
  return sharings;
}

}  // namespace culprit::report
