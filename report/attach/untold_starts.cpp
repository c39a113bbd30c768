#include "report/attach/untold_starts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <optional>
#include <thread>

#include "interpose/format/run_starts.h"
#include "report/attach/remote_symbols.h"
#include "report/base/descriptor.h"
#include "report/base/log.h"
#include "report/cuda/library_names.h"
#include "report/proc/loaded_library.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

constexpr char kProc[] = "/proc";
constexpr std::chrono::milliseconds kPause{500};
constexpr int kShare = 100;  // looks take at most one part in so many of a processor's time

// Of this thread: on a busy machine a look takes longer, and costs no more.
std::chrono::nanoseconds processor_time() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool has_mark(const ProcessFolder& process, const std::string& mark) {
  const std::string environment = process.text("environ");
  const std::size_t at = environment.find(mark);
  return at != std::string::npos && (at == 0 || environment[at - 1] == '\0') &&
         (at + mark.size() == environment.size() || environment[at + mark.size()] == '\0');
}

// The library and the driver in a process.
struct Mapped {
  RemoteModule library;
  bool has_driver = false;
  bool is_readable = false;
};

Mapped mapped_in(const ProcessFolder& process) {
  Mapped mapped;
  int error = 0;
  const std::vector<MappedRange> mappings = mappings_of(process, &error);
  const MappedRange* library = find_loaded(mappings, {"libculprit.so"});
  if (library != nullptr) mapped.library = {library->path, process.mapped_file(*library), library->begin};
  mapped.has_driver = find_loaded(mappings, {kDriverLibrary}) != nullptr;
  mapped.is_readable = error != EACCES && error != EPERM;
  return mapped;
}

// The variable's value; empty when it cannot be read.
std::optional<std::int32_t> start_state(const ProcessFolder& process, const RemoteModule& library) {
  std::uint64_t address = 0;
  try {
    address = find_variable(library, "culprit_api_start_state");
  } catch (const AttachError& error) {
    log::debug(error.what());
  }
  const Descriptor memory(::open((process.path() + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  std::int32_t value = 0;
  if (address == 0 || !memory.is_open() ||
      ::pread(memory.get(), &value, sizeof(value), static_cast<off_t>(address)) != static_cast<ssize_t>(sizeof(value)))
    return {};
  return value;
}

}  // namespace

void UntoldStarts::look_at(const ProcessFolder& process, int pid, const ProcessStat& stat, bool at_end) {
  const Mapped mapped = mapped_in(process);
  const std::int32_t state = mapped.library.path.empty() ? 0 : start_state(process, mapped.library).value_or(0);
  const std::string program = process.link("exe");
  UntoldStart start = {pid, stat.start_ticks, program.empty() ? stat.name : program, Untold::kFailed, 0};
  bool is_news = true;
  if (!mapped.is_readable) {
    start.what = Untold::kNotReadable;
  } else if (mapped.library.path.empty() && mapped.has_driver) {
    start.what = Untold::kUnseen;
  } else if (state == format::kUntoldRecording) {
    start.what = Untold::kElsewhere;
  } else if (state != 0 && state != format::kStartTold) {
    start.error = state;
  } else if (at_end && state == format::kStartTold) {
    start.what = Untold::kRecordsOn;
  } else if (at_end && mapped.has_driver) {
    start.what = Untold::kRunsOn;
  } else {
    is_news = false;
    if (at_end) others_.push_back(start.program);
  }
  if (is_news) found_[{pid, stat.start_ticks}] = std::move(start);
}

bool UntoldStarts::look_at_all(bool at_end) {
  const int own = ::getpid();
  std::map<int, ProcessStat> all;
  for_each_entry(kProc, [&](const char* name) {
    const std::optional<std::uint32_t> pid = whole_number(name);
    if (!pid || static_cast<int>(*pid) == own) return;
    const std::optional<ProcessStat> stat = ProcessFolder(kProc, *pid).stat();
    if (stat && !stat->kernel_thread) all.emplace(static_cast<int>(*pid), *stat);
  });
  const std::string own_path = own_program();
  bool any = false;
  // A parent has mostly a lower number than its children; otherwise the next look knows them.
  for (const auto& [pid, stat] : all) {
    const ProcessFolder process(kProc, static_cast<std::uint64_t>(pid));
    const auto parent = all.find(static_cast<int>(stat.parent));
    bool is_of_run = of_run_.count({pid, stat.start_ticks}) != 0 ||
                     (parent != all.end() && of_run_.count({parent->first, parent->second.start_ticks}) != 0) ||
                     has_mark(process, mark_);
    // A copy of this process asks NVML.
    if (!is_of_run && static_cast<int>(stat.parent) == own) is_of_run = process.link("exe") != own_path;
    if (!is_of_run) continue;
    of_run_.insert({pid, stat.start_ticks});
    if (stat.has_ended()) continue;
    any = true;
    look_at(process, pid, stat, at_end);
  }
  return any;
}

void UntoldStarts::look() {
  if (std::chrono::steady_clock::now() < next_) return;
  const std::chrono::nanoseconds begin = processor_time();
  look_at_all(false);
  const std::chrono::nanoseconds took = processor_time() - begin;
  next_ = std::chrono::steady_clock::now() + std::max<std::chrono::nanoseconds>(kPause, took * kShare);
}

std::vector<UntoldStart> UntoldStarts::finish(std::chrono::milliseconds wait) {
  // Processes that end with the command need some time for it.
  const std::map<Key, UntoldStart> before = found_;
  constexpr std::chrono::milliseconds kTurn{50};
  const auto end = std::chrono::steady_clock::now() + wait;
  while (true) {
    found_ = before;
    others_.clear();
    if (!look_at_all(true) || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kTurn);
  }
  std::vector<UntoldStart> all;
  all.reserve(found_.size());
  for (const auto& [key, start] : found_) all.push_back(start);
  return all;
}

}  // namespace culprit::report
