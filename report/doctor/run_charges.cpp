#include "report/doctor/run_charges.h"

#include <algorithm>

#include "report/base/log.h"
#include "report/base/words.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kFirst{1};  // shorter programs are not asked about while they run
constexpr std::chrono::seconds kLongestPause{64};
constexpr std::chrono::seconds kLongestAtEnd{1};

}  // namespace

RunCharges::RunCharges(const UntoldStarts& processes) : processes_(processes), next_(steady_clock::now() + kFirst) {}

void RunCharges::note(const std::string& problem) {
  const std::string sentence =
      "processes that use a GPU unseen were looked for by their environment, parents and "
      "mappings only: " +
      problem;
  if (std::find(notes_.begin(), notes_.end(), sentence) == notes_.end()) notes_.push_back(sentence);
}

void RunCharges::begin() {
  log::debug("NVML is asked for processes of the run that record nothing");
  question_.begin();
  asking_ = true;
}

void RunCharges::take(const GpuUsers& users) {
  asking_ = false;
  next_ = steady_clock::now() + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  if (!users.problem.empty()) {
    unanswered_ = true;
    note(users.problem);
    return;
  }
  for (const DeviceUsers& device : users.devices) {
    // Its processes are those of its instances, too.
    const bool has_instances = std::any_of(users.devices.begin(), users.devices.end(),
                                           [&](const DeviceUsers& other) { return other.gpu == device.uuid; });
    if (has_instances) continue;
    if (!device.problem.empty()) note(device.title + ": " + device.problem);
    if (device.foreign_numbers) note("in this container NVML names processes by the numbers of another PID namespace");
    for (const GpuUser& user : device.users) {
      const int pid = static_cast<int>(user.here);
      const OfRun of_run = processes_.belongs(pid, user.start_ticks);
      if (!user.computes || user.here == 0 || of_run == OfRun::kNo || UntoldStarts::has_told(pid)) continue;
      UnseenProcess& process = found_[{pid, user.start_ticks}];
      process.pid = pid;
      process.own_number = user.own_number;
      process.start_ticks = user.start_ticks;
      process.of_run = of_run;
      if (process.program.empty()) {
        const std::string program = ProcessFolder("/proc", user.here).link("exe");
        process.program = program.empty() ? user.name : program;
      }
      std::uint64_t& bytes = process.bytes[device.title];
      bytes = std::max(bytes, user.bytes.value_or(0));
    }
  }
}

void RunCharges::look() {
  if (asking_) {
    const std::optional<GpuUsers> users = question_.answer(milliseconds(0));
    if (users) take(*users);
  } else if (!unanswered_ && processes_.undecided() != 0 && steady_clock::now() >= next_) {
    begin();
  }
}

void RunCharges::finish() {
  if (!asking_ && !unanswered_ && processes_.undecided() != 0) begin();
  if (!asking_) return;
  const std::optional<GpuUsers> users = question_.answer(kLongestAtEnd);
  if (users) {
    take(*users);
  } else {
    note("NVML did not answer within 1 s at the end of the run");
  }
}

std::vector<UnseenProcess> RunCharges::found() const {
  std::vector<UnseenProcess> all;
  all.reserve(found_.size());
  for (const auto& [key, process] : found_) all.push_back(process);
  return all;
}

std::string deed_of(const UnseenProcess& process) {
  std::string text = "has ";
  const char* between = "";
  for (const auto& [device, bytes] : process.bytes) {
    text += between + (bytes != 0 ? format_bytes(bytes) : std::string("memory")) + " of " + device;
    between = " and ";
  }
  text += ", as NVML says, and began no record: none of its calls was seen";
  if (process.of_run == OfRun::kLikely)
    text += " (it began during the run, in its control group, and its parent has ended)";
  return text;
}

}  // namespace culprit::report
