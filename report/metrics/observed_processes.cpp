#include "report/metrics/observed_processes.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "report/base/descriptor.h"
#include "report/base/environment.h"
#include "report/base/log.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/proc/process_folder.h"
#include "report/proc/target_process.h"

namespace culprit::report {
namespace {

bool is_pid(const std::string& target) {
  return target.size() <= 9 && target.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

ObservedProcesses::ObservedProcesses(const std::vector<std::string>& targets, const SampleLimits& limits)
    : proc_(value_or("CULPRIT_PROC", kProc)), targets_(targets), limits_(limits) {
  has_nvml_ = targets.empty() || std::any_of(targets.begin(), targets.end(), is_pid);
}

ObservedProcesses::Place ObservedProcesses::place_of(const std::string& target) const {
  if (!is_pid(target)) return {0, target};
  const TargetProcess process = find_target(proc_, static_cast<std::uint32_t>(std::stoul(target)));
  if (process.without_library)
    throw DumpError(DumpProblem::kCannotOpen,
                    process.problem + ": culprit attach " + target + " records its allocations from then on");
  if (!process.problem.empty()) throw DumpError(DumpProblem::kCannotOpen, process.problem);
  return {process.pid, process.dump};
}

void ObservedProcesses::check_targets() const {
  for (const std::string& target : targets_) {
    const Place place = place_of(target);
    if (place.pid == 0) load_report(place.dump, LoadOptions());
  }
}

// A named process that has made no CUDA call has no dump yet: it is found at a later look.
std::vector<ObservedProcesses::Place> ObservedProcesses::places(const GpuUsers& users, std::uint64_t* left_out) const {
  std::vector<Place> result;
  if (targets_.empty() && has_nvml_) {
    for (const Recorder& recorder : users.recorders) result.push_back({recorder.pid, recorder.dump});
  } else if (targets_.empty()) {
    for (const auto& [pid, process] : read_proc(proc_, {}).processes) {
      if (!process.dump.empty()) result.push_back({pid, process.dump});
    }
  }
  std::set<std::uint32_t> known;
  for (const std::string& target : targets_) {
    try {
      Place place = place_of(target);
      if (place.dump.empty() || (place.pid != 0 && !known.insert(place.pid).second)) continue;
      result.push_back(std::move(place));
    } catch (const DumpError&) {
      continue;  // it has ended
    }
  }
  *left_out = result.size() > kMostObserved ? result.size() - kMostObserved : 0;
  result.resize(result.size() - *left_out);
  return result;
}

GpuUsers ObservedProcesses::ask() {
  if (!has_nvml_) return GpuUsers();
  GpuUsers users = ask_for_users(&question_);
  has_nvml_ = users.problem.empty();
  if (!has_nvml_) log::note("without NVML no rest of a balance is known: " + users.problem);
  return users;
}

std::string ObservedProcesses::key_of(const Place& place) { return std::to_string(place.pid) + " " + place.dump; }

SharedSymbols* ObservedProcesses::symbols_of(const Place& place) {
  std::unique_ptr<SharedSymbols>& symbols = symbols_[key_of(place)];
  if (symbols == nullptr) {
    SymbolOptions options;
    if (place.pid != 0) options.sysroot = ProcessFolder(proc_, place.pid).living().root();
    symbols = std::make_unique<SharedSymbols>(
        [options](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, options); });
  }
  return symbols.get();
}

ProcessSample ObservedProcesses::read(const Place& place, const GpuUsers& users) {
  SharedSymbols* const symbols = symbols_of(place);
  LoadOptions options;
  options.machine.proc = proc_;
  options.lookup = [symbols](std::vector<ModuleSymbols>& modules) { symbols->look_up(modules); };
  ProcessSample unreadable;
  unreadable.pid = place.pid;
  try {
    if (place.pid == 0) return sample_of(load_report(place.dump, options), users, limits_);
    const Descriptor file(open_in_process(proc_, place.pid, place.dump));
    if (!file.is_open()) return unreadable;
    Report report = load_report("/proc/self/fd/" + std::to_string(file.get()), options);
    report.process.pid = place.pid;  // as seen from here
    return sample_of(report, users, limits_);
  } catch (const std::exception& error) {
    log::debug("read the dump of process " + std::to_string(place.pid), error);
    return unreadable;
  }
}

void ObservedProcesses::never_less(ProcessSample* sample) {
  Counts& counts = counts_[sample->pid];
  if (counts.start_ns != sample->start_ns) counts = Counts{sample->start_ns, {}};
  std::uint64_t* const now[] = {&sample->allocations, &sample->frees, &sample->failed_allocations,
                                &sample->not_recorded};
  for (std::size_t i = 0; i < std::size(now); ++i) {
    counts.counts[i] = std::max(counts.counts[i], *now[i]);
    *now[i] = counts.counts[i];
  }
}

Observation ObservedProcesses::look() {
  const auto begin = std::chrono::steady_clock::now();
  Observation observation;
  GpuUsers users = ask();
  std::map<std::uint32_t, ProcessSample> samples;
  std::map<std::string, std::unique_ptr<SharedSymbols>> symbols;
  for (const Place& place : places(users, &observation.left_out)) {
    ProcessSample sample = read(place, users);
    const std::string key = key_of(place);
    symbols[key] = std::move(symbols_[key]);
    if (!sample.readable && place.pid == 0) continue;  // a file that is gone: whose it was is not known
    // Two dumps may name one pid: a program that executed another one. The later one counts.
    const auto known = samples.find(sample.pid);
    if (known == samples.end() || known->second.start_ns < sample.start_ns) samples[sample.pid] = std::move(sample);
  }
  symbols_ = std::move(symbols);  // without those of processes that have ended
  std::map<std::uint32_t, Counts> counts;
  for (auto& [pid, sample] : samples) {
    if (sample.readable) never_less(&sample);
    const auto found = counts_.find(pid);
    if (found != counts_.end()) counts.insert(*found);
    observation.processes.push_back(std::move(sample));
  }
  counts_ = std::move(counts);
  observation.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return observation;
}

}  // namespace culprit::report
