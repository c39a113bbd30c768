// Memory that its process freed, or left behind at its end, while another process still maps it.
#include "report/findings/finding.h"
#include "report/findings/sharing_words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

void collect_shared_memory(const Report& report, std::vector<Finding>* list) {
  for (const SharedMemory& shared : report.shared) {
    if (shared.state != SharedState::kStays) continue;
    Finding& finding = add_finding(FindingKind::kSharedMemory, shared_memory_text(shared), list);
    finding.bytes = shared.bytes;
    finding.count = shared.count;
    finding.device = shared.device;
    if (!report.job.empty()) {
      for (const SharingSide* side : {shared.exporter ? &*shared.exporter : nullptr, &shared.importer}) {
        if (side != nullptr && side->in_report) finding.processes.push_back(side->process);
      }
    }
    finding.add_place("allocated", shared.allocated);
    finding.add_place("exported", shared.exported);
    finding.add_place("freed", shared.freed);
    finding.add_place("opened", shared.opened);
  }
}

}  // namespace

const CollectFindings kSharedMemoryFinding = collect_shared_memory;

}  // namespace culprit::report
