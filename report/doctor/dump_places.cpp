#include "report/doctor/dump_places.h"

#include <algorithm>
#include <set>
#include <utility>

#include "report/base/environment.h"
#include "report/proc/target_process.h"

namespace culprit::report {
namespace {

bool is_pid(const std::string& target) {
  return target.size() <= 9 && target.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string DumpPlace::key() const { return std::to_string(pid) + " " + dump; }

DumpPlace place_of(const std::string& proc, const std::string& target) {
  DumpPlace place;
  place.target = target;
  if (!is_pid(target)) {
    place.dump = target;
    return place;
  }
  const TargetProcess process = find_target(proc, static_cast<std::uint32_t>(std::stoul(target)));
  place.pid = process.pid;
  place.dump = process.dump;
  place.problem = process.problem;
  place.without_library = process.without_library;
  return place;
}

DumpPlaces::DumpPlaces(std::vector<std::string> targets, std::chrono::milliseconds longest_question)
    : proc_(value_or("CULPRIT_PROC", kProc)), targets_(std::move(targets)), question_(longest_question) {
  asks_nvml_ = targets_.empty() || std::any_of(targets_.begin(), targets_.end(), is_pid);
  has_nvml_ = asks_nvml_;
}

GpuUsers DumpPlaces::ask(std::chrono::steady_clock::time_point now) {
  if (!asks_nvml_ || now < next_ || question_.has_stuck_copy()) return GpuUsers();
  GpuUsers users = ask_for_users(&question_);
  has_nvml_ = users.problem.empty();
  if (has_nvml_) {
    pause_ = kFirstPause;
  } else if (users.unanswered) {
    next_ = now + pause_;
    pause_ = std::min<std::chrono::seconds>(2 * pause_, kLongestPause);
  } else {
    asks_nvml_ = false;
  }
  return users;
}

std::vector<DumpPlace> DumpPlaces::find(const GpuUsers& users) const {
  std::vector<DumpPlace> found;
  if (targets_.empty() && has_nvml_) {
    for (const Recorder& recorder : users.recorders) found.push_back({recorder.pid, recorder.dump, "", false, ""});
  } else if (targets_.empty()) {
    for (const auto& [pid, process] : read_proc(proc_, {}).processes) {
      if (!process.dump.empty()) found.push_back({pid, process.dump, "", false, ""});
    }
  }
  std::set<std::uint32_t> known;
  for (const std::string& target : targets_) {
    DumpPlace place = place_of(proc_, target);
    if (place.pid == 0 || known.insert(place.pid).second) found.push_back(std::move(place));
  }
  return found;
}

}  // namespace culprit::report
