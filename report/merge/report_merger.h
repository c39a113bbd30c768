// Merges the reports of many processes into one: groups with the same stack become one group with a share for each
// process. Merging is associative: order and number of steps make no difference to the result.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/model/frame_store.h"
#include "report/model/report.h"

namespace culprit::report {

// Not thread-safe: each thread has a merger of its own, and the results are merged at the end.
class ReportMerger {
 public:
  ReportMerger();

  // Takes a report of one process or a merged one, as made by load_report() or finish(). Facts that mean nothing
  // outside of their process (addresses, thread ids, allocation sites, use over time) are left out.
  // `cache`: the one of the report's stacks, which is not used with another merger; nullptr: none.
  void add(Report report, StackCache* cache = nullptr);

  // The merged report. The merger is empty afterwards.
  Report finish(bool strict);
  // The same as a part of a larger report, to be added to another merger: complete, where finish() leaves out the
  // smallest entries of long lists, and without sums and ids.
  Report finish_part();

 private:
  struct List {
    std::vector<Group> groups;
    std::unordered_map<std::string, std::size_t> index;  // by merge_key()
  };

  void add_groups(std::vector<Group> from, std::uint32_t first_process, StoreImport* import, List* into);
  void add_error(ErrorGroup error, StoreImport* import);
  void add_audit(const Audit& from, bool first, StoreImport* import);
  void add_balances(Report report, std::uint32_t first_process, StoreImport* import);
  static void add_breakdowns(std::vector<Breakdown> from, std::uint32_t first_process, StoreImport* import,
                             std::vector<Breakdown>* to);
  void add_head(const Report& report);
  static std::vector<Group> finish_groups(const std::vector<std::uint32_t>& place, List* list);

  std::shared_ptr<FrameStore> store_;
  Report report_;  // except the lists
  List leaks_, library_, resources_;
  std::map<std::string, ErrorGroup> errors_;
  FailedAllocations failed_allocations_;
  std::map<std::string, DeviceInfo> devices_;  // by UUID
  std::map<std::pair<std::string, format::MarkKind>, MarkInfo> marks_;
  std::set<std::string> notes_;
};

// The order of processes in a merged report: by rank, then host, start and pid.
bool comes_before(const JobProcess& left, const JobProcess& right);

// The ranks that `reports`, of one job, lack according to the job's size: "no dump of ranks 3, 5-7 of 8: REASON, or the
// process made no CUDA call"; "" if none is missing, they are of several jobs, or the size is not known.
std::string missing_ranks_of(const std::vector<const Report*>& reports, const std::string& reason);

}  // namespace culprit::report
