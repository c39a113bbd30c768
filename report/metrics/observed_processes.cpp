#include "report/metrics/observed_processes.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "report/base/descriptor.h"
#include "report/base/log.h"
#include "report/dump/dump_reader.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/proc/process_folder.h"
#include "report/symbols/symbol_cache.h"

namespace culprit::report {

ObservedProcesses::ObservedProcesses(const std::vector<std::string>& targets, const SampleLimits& limits, bool again)
    : targets_(targets), limits_(limits), again_(again), places_(targets) {}

void ObservedProcesses::check_targets() const {
  for (const std::string& target : targets_) {
    const DumpPlace place = place_of(places_.proc(), target);
    if (place.without_library)
      throw DumpError(DumpProblem::kCannotOpen,
                      place.problem + ": culprit attach " + target + " records its allocations from then on");
    if (!place.problem.empty()) throw DumpError(DumpProblem::kCannotOpen, place.problem);
    if (place.pid == 0) load_report(place.dump, LoadOptions());
  }
}

SharedSymbols* ObservedProcesses::symbols_of(const DumpPlace& place) {
  std::unique_ptr<SharedSymbols>& symbols = symbols_[place.key()];
  if (symbols == nullptr) {
    SymbolOptions options;
    options.cache_folder = symbol_cache_folder();
    if (place.pid != 0) options.sysroot = ProcessFolder(places_.proc(), place.pid).living().root();
    symbols = std::make_unique<SharedSymbols>(
        [options](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, options); });
  }
  return symbols.get();
}

ProcessSample ObservedProcesses::read(const DumpPlace& place, const GpuUsers& users) {
  SharedSymbols* const symbols = symbols_of(place);
  LoadOptions options;
  options.machine.proc = places_.proc();
  options.lookup = [symbols](std::vector<ModuleSymbols>& modules) { symbols->look_up(modules); };
  ProcessSample unreadable;
  unreadable.pid = place.pid;
  try {
    if (place.pid == 0) return sample_of(load_report(place.dump, options), users, limits_);
    const Descriptor file(open_in_process(places_.proc(), place.pid, place.dump));
    if (!file.is_open()) return unreadable;
    const Dump dump = Dump::open("/proc/self/fd/" + std::to_string(file.get()));
    Report report = load_report(dump, options);
    report.process.pid = place.pid;  // as seen from here
    ProcessSample sample = sample_of(report, users, limits_);
    sample.insides = inside_of(place);
    if (again_) judge(dump, place, users, &sample);
    return sample;
  } catch (const std::exception& error) {
    log::debug("read the dump of process " + std::to_string(place.pid), error);
    return unreadable;
  }
}

std::vector<CacheBytes> ObservedProcesses::inside_of(const DumpPlace& place) {
  return torch_.try_emplace(place.key(), static_cast<pid_t>(place.pid)).first->second.read();
}

void ObservedProcesses::judge(const Dump& dump, const DumpPlace& place, const GpuUsers& users, ProcessSample* sample) {
  std::unique_ptr<RowVerdicts>& verdicts = verdicts_[place.key()];
  SharedSymbols* const symbols = symbols_of(place);
  if (verdicts == nullptr)
    verdicts =
        std::make_unique<RowVerdicts>([symbols](std::vector<ModuleSymbols>& modules) { symbols->look_up(modules); });
  std::size_t others = 0;
  for (const auto& [key, one] : verdicts_) {
    if (one != verdicts) others += one->rows();
  }
  verdicts->look(dump, answers_for(users, place.pid), kMostWatchedRows - std::min(others, kMostWatchedRows),
                 limits_.stacks, sample);
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
  const GpuUsers users = places_.ask();
  if (!users.problem.empty()) log::note("without NVML no rest of a balance is known: " + users.problem);
  std::map<std::uint32_t, ProcessSample> samples;
  std::map<std::string, std::unique_ptr<SharedSymbols>> symbols;
  // A named process that has made no CUDA call has no dump yet: it is found at a later look. One with a problem has
  // ended.
  std::vector<DumpPlace> places = places_.find(users);
  places.erase(std::remove_if(places.begin(), places.end(),
                              [](const DumpPlace& one) { return !one.problem.empty() || one.dump.empty(); }),
               places.end());
  observation.left_out = places.size() > kMostObserved ? places.size() - kMostObserved : 0;
  places.resize(places.size() - observation.left_out);
  for (const DumpPlace& place : places) {
    ProcessSample sample = read(place, users);
    const std::string key = place.key();
    symbols[key] = std::move(symbols_[key]);
    if (!sample.readable && place.pid == 0) continue;  // a file that is gone: whose it was is not known
    // Two dumps may name one pid: a program that executed another one. The later one counts.
    const auto known = samples.find(sample.pid);
    if (known == samples.end() || known->second.start_ns < sample.start_ns) samples[sample.pid] = std::move(sample);
  }
  symbols_ = std::move(symbols);  // without those of processes that have ended
  const auto forget_ended = [this](auto* by_place) {
    for (auto at = by_place->begin(); at != by_place->end();)
      at = symbols_.count(at->first) != 0 ? std::next(at) : by_place->erase(at);
  };
  forget_ended(&verdicts_);
  forget_ended(&torch_);
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
