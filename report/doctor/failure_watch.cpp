#include "report/doctor/failure_watch.h"

#include <algorithm>
#include <filesystem>

#include "report/base/clock.h"
#include "report/base/log.h"
#include "report/dump/run_dumps.h"
#include "report/model/record_facts.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kShortestPause{200};
constexpr int kShare = 100;  // a look takes at most one part in so many of the time
constexpr std::chrono::seconds kLongestPause{64};
constexpr std::size_t kMostAnswers = 16;  // of a process
constexpr std::size_t kMostOthers = 64;

}  // namespace

FailureWatch::FailureWatch(std::string pattern, RunOfDumps run)
    : pattern_(std::move(pattern)), run_(std::move(run)), pid_namespace_(own_pid_namespace("/proc")) {}

void FailureWatch::look_at(const std::string& path) {
  Watched& watched = dumps_.try_emplace(path, path).first->second;
  if (watched.ended() || !watched.dump.look()) return;
  for (const FailedMoment& failure : watched.dump.failures()) {
    std::uint64_t& last = watched.failed_ns[failure.device];
    last = std::max(last, failure.time_ns);
  }
}

void FailureWatch::look_at_dumps() {
  for (const std::string& path : find_dumps_quietly(pattern_, run_)) look_at(path);
}

// Of a process of another PID namespace nothing is known until the program has ended.
bool FailureWatch::has_ended(const Watched& watched) const {
  const format::Header& header = watched.dump.header();
  if (watched.ended()) return true;
  if (header.pid_namespace != pid_namespace_) return program_ended_;
  const ProcessFolder process("/proc", header.pid);
  const std::optional<ProcessStat> stat = process.stat();
  return !stat || process.has_ended() || stat->start_ticks != header.start_time_ticks;
}

// One answer serves all failures that were seen before it was asked for.
void FailureWatch::ask() {
  const std::uint64_t now = realtime_ns();
  asked_.clear();
  for (const auto& [path, watched] : dumps_) {
    for (const auto& [device, failed_ns] : watched.failed_ns) {
      const auto answered = watched.answered_ns.find(device);
      if (answered != watched.answered_ns.end() && answered->second >= failed_ns) continue;
      asked_.push_back({path, device, failed_ns, now, has_ended(watched)});
    }
  }
  if (asked_.empty()) return;
  if (unanswered_.unanswered) return take(unanswered_);
  log::debug("an allocation failed with out of memory: NVML is asked who uses the GPU");
  question_.begin();
  asking_ = true;
}

GpuCharges FailureWatch::charges_of(const GpuUsers& users, const Watched& watched, const Asked& asked) const {
  GpuCharges charges;
  charges.after_end = asked.after_end;
  const format::Header& header = watched.dump.header();
  const std::uint64_t start = header.start_realtime_ns;
  // The two clocks may differ a little: an answer never comes before its question.
  charges.asked_ns = std::max(asked.asked_realtime_ns > start ? asked.asked_realtime_ns - start : 0, asked.failed_ns);
  const DeviceUsers* device = nullptr;
  for (const format::DeviceRecord& record : watched.dump.devices()) {
    if (record.ordinal == asked.device) device = users.of(uuid_text(record));
  }
  if (device == nullptr || !device->problem.empty()) {
    charges.problem = !users.problem.empty() ? users.problem
                      : device == nullptr    ? "NVML does not show this GPU"
                                             : device->problem;
    return charges;
  }
  charges.foreign_numbers = device->foreign_numbers || header.pid_namespace != pid_namespace_;
  for (const GpuUser& user : device->users) {
    if (!charges.foreign_numbers && user.pid == header.pid) {
      charges.own_known = user.bytes.has_value();
      charges.own_bytes = user.bytes.value_or(0);
    } else if (charges.others.size() < kMostOthers) {
      charges.others.push_back({user.pid, user.name, user.bytes.has_value(), user.bytes.value_or(0)});
    } else {
      ++charges.left_out;
    }
  }
  return charges;
}

void FailureWatch::take(const GpuUsers& users) {
  asking_ = false;
  if (users.unanswered && !unanswered_.unanswered) unanswered_ = users;
  next_question_ = steady_clock::now() + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  for (const Asked& asked : asked_) {
    Watched& watched = dumps_.at(asked.dump);
    watched.answered_ns[asked.device] = asked.failed_ns;
    if (watched.answers.size() == kMostAnswers) watched.answers.pop_back();
    watched.answers.push_back({asked.device, charges_of(users, watched, asked)});
    std::error_code error;
    if (!std::filesystem::exists(asked.dump, error)) continue;  // the program removed it
    write_gpu_answers(asked.dump, watched.dump.header(), watched.answers);
  }
}

milliseconds FailureWatch::look() {
  const steady_clock::time_point begin = steady_clock::now();
  try {
    look_at_dumps();
    if (asking_) {
      const std::optional<GpuUsers> users = question_.answer(milliseconds(0));
      if (users) take(*users);
    } else if (begin >= next_question_) {
      ask();
    }
  } catch (const std::exception& error) {
    log::debug("the dumps of the run cannot be watched", error);
  }
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  return std::max(kShortestPause, took * kShare);
}

// However long that takes: the question has a limit of its own.
void FailureWatch::take_answer() {
  if (asking_) take(question_.answer(std::chrono::hours(1)).value_or(GpuUsers()));
}

void FailureWatch::finish() {
  try {
    take_answer();
    program_ended_ = true;
    look_at_dumps();
    ask();
    take_answer();
  } catch (const std::exception& error) {
    log::debug("the dumps of the run cannot be watched", error);
  }
}

}  // namespace culprit::report
