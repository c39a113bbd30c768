// Many processes' reports become one: groups with the same stack are one group that knows what each process has of it.
// Merging is associative: in which order and in how many steps the reports come makes no difference to the result.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/model/frame_store.h"
#include "report/model/report_model.h"

namespace culprit {

// Not thread-safe: several threads have one each, whose results are merged at the end.
class ReportMerger {
 public:
  ReportMerger();

  // Takes a report of one process or a merged one, as load_report() or finish() made it. What tells nothing beyond its
  // process (addresses, numbers of threads, allocation sites, the course of use over time) is left out.
  void add(Report report);

  // The report of all. The merger is empty afterwards.
  Report finish(bool strict);

 private:
  struct List {
    std::vector<Group> groups;
    std::unordered_map<std::string, std::size_t> index;  // by merge_key()
  };

  void add_groups(std::vector<Group> from, std::uint32_t first_process, StoreImport* import, List* into);
  void add_error(ErrorGroup error, StoreImport* import);
  void add_pictures(std::vector<Picture> from, std::uint32_t first_process, StoreImport* import);
  void add_head(const Report& report);
  static std::vector<Group> finish_groups(const std::vector<std::uint32_t>& place, List* list);

  std::shared_ptr<FrameStore> store_;
  Report report_;  // all but the lists
  List leaks_, library_, resources_;
  std::map<std::string, ErrorGroup> errors_;
  std::map<std::string, DeviceInfo> devices_;  // by UUID
  std::map<std::pair<std::string, format::MarkKind>, MarkInfo> marks_;
  std::set<std::string> notes_;
};

// Whether this process comes before that one in a report of both: by rank, then host, start and pid.
bool comes_before(const JobProcess& left, const JobProcess& right);

// What the job's size says is missing: "no dump of ranks 3, 5-7 of 8: ..."; "" when nothing is, or nothing is known.
std::string missing_ranks_note(const Report& report);

}  // namespace culprit
