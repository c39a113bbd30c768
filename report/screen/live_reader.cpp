#include "report/screen/live_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <utility>

#include "report/base/failure.h"
#include "report/base/log.h"
#include "report/base/printable.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/proc/process_folder.h"
#include "report/symbols/symbol_cache.h"

namespace culprit::report {

using std::chrono::steady_clock;

LiveReader::LiveReader(std::vector<std::string> targets) : targets_(std::move(targets)), places_(targets_) {}

void LiveReader::check_targets() const {
  for (const std::string& target : targets_) {
    const DumpPlace place = place_of(places_.proc(), target);
    const bool ended = place.dump.empty() && place.problem.find(": name one of") == std::string::npos;
    if (!place.problem.empty() && !place.without_library)
      throw DumpError(DumpProblem::kCannotOpen,
                      place.problem + (ended ? "; of a process that has ended name the dump" : ""));
    if (place.pid == 0) load_report(place.dump, LoadOptions());
  }
}

// At most once in a second, and for at most a twentieth of the time: a question takes the driver's locks.
void LiveReader::ask() {
  const steady_clock::time_point begin = steady_clock::now();
  if (begin < next_question_) return;
  users_ = places_.ask();
  const steady_clock::time_point end = steady_clock::now();
  next_question_ = end + std::max<steady_clock::duration>(std::chrono::seconds(1), (end - begin) * 20);
}

LiveReader::Source* LiveReader::source_of(const DumpPlace& place) {
  std::unique_ptr<Source>& source = sources_[place.key()];
  if (source != nullptr) return source.get();
  source = std::make_unique<Source>();
  source->place = place;
  SymbolOptions options;
  options.cache_folder = symbol_cache_folder();
  if (place.pid != 0) {
    source->file = Descriptor(open_in_process(places_.proc(), place.pid, place.dump));
    options.sysroot = ProcessFolder(places_.proc(), place.pid).living().root();
  }
  source->symbols = std::make_unique<SharedSymbols>(
      [options](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, options); });
  source->last.pid = place.pid;
  source->last.name = printable(place.pid == 0 ? place.dump : ProcessFolder(places_.proc(), place.pid).name());
  source->last.key = place.key();
  return source.get();
}

// The last look stays when the dump cannot be read now: it is being written, or was removed.
void LiveReader::read(Source* source) {
  SharedSymbols* const symbols = source->symbols.get();
  LoadOptions options;
  options.machine.proc = places_.proc();
  options.lookup = [symbols](std::vector<ModuleSymbols>& modules) { symbols->look_up(modules); };
  options.judge.strict = true;  // all live memory, including caches and libraries
  const std::uint32_t pid = source->place.pid;
  const std::string path =
      source->file.is_open() ? "/proc/self/fd/" + std::to_string(source->file.get()) : source->place.dump;
  try {
    auto report = std::make_shared<Report>(load_report(path, options));
    if (pid != 0) report->process.pid = pid;  // as seen from here
    source->last = live_process_of(std::move(report), users_);
    source->last.dump = path;
    source->over = source->last.state == LiveState::kEnded || source->last.state == LiveState::kSnapshot;
  } catch (const std::exception& error) {
    log::debug("read the dump of process " + std::to_string(pid), error);
    source->last.note = failure_text(error);
    if (source->last.report == nullptr) return;
    // The dump of a process that runs may be cut off for a moment.
    if (pid == 0 || ProcessFolder(places_.proc(), pid).has_ended()) source->last.state = LiveState::kEnded;
  }
}

LiveProcess LiveReader::without_dump(const DumpPlace& place) const {
  LiveProcess process;
  process.pid = place.pid;
  process.key = place.key();
  process.name = printable(ProcessFolder(places_.proc(), place.pid).name());
  process.note = printable(place.problem);
  if (place.without_library) {
    process.state = LiveState::kNotRecorded;
  } else if (place.problem.empty()) {
    process.state = LiveState::kNothingYet;
    process.note = "it has made no CUDA call yet";
  } else if (ProcessFolder(places_.proc(), place.pid).has_ended()) {
    process.state = LiveState::kEnded;
  }
  for (const DeviceUsers& device : users_.devices) {
    const std::optional<std::uint64_t> bytes = charge_of(users_, device.uuid, place.pid).bytes;
    if (bytes) process.charged = process.charged.value_or(0) + *bytes;
  }
  return process;
}

LiveProcess LiveReader::look_at(const DumpPlace& place) {
  const auto last = last_source_.find(place.target);
  // A named process that has ended: its dump was opened while it ran.
  if (!place.target.empty() && last != last_source_.end() && (place.dump.empty() || !place.problem.empty())) {
    Source* const source = sources_.at(last->second).get();
    if (!source->over) read(source);
    return source->last;
  }
  if (place.dump.empty() || !place.problem.empty()) return without_dump(place);
  Source* const source = source_of(place);
  if (!place.target.empty()) last_source_[place.target] = place.key();
  if (!source->over) read(source);
  return source->last;
}

LiveLook LiveReader::look() {
  LiveLook look;
  ask();
  look.users = users_;
  std::vector<DumpPlace> places = places_.find(users_);
  look.left_out = places.size() > kMostProcesses ? places.size() - kMostProcesses : 0;
  places.resize(places.size() - look.left_out);
  std::set<std::string> keys;
  for (const DumpPlace& place : places) {
    LiveProcess process = look_at(place);
    const auto last = last_source_.find(place.target);
    keys.insert(last != last_source_.end() && !place.target.empty() ? last->second : place.key());
    // Of all processes of the machine those that run are shown.
    const bool shown = !place.target.empty() || process.state != LiveState::kEnded;
    if (shown) look.processes.push_back(std::move(process));
  }
  // Those that were found and have ended go, with their symbols.
  for (auto at = sources_.begin(); at != sources_.end();)
    at = keys.count(at->first) != 0 ? std::next(at) : sources_.erase(at);
  look.seconds = std::chrono::duration<double>(steady_clock::now() - begin_).count();
  return look;
}

}  // namespace culprit::report
