#include "report/attach/untold_starts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <thread>

#include "interpose/format/run_starts.h"
#include "report/attach/remote_symbols.h"
#include "report/base/descriptor.h"
#include "report/base/log.h"
#include "report/cuda/library_names.h"
#include "report/proc/proc_facts.h"
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
};

Mapped mapped_in(const ProcessFolder& process) {
  Mapped mapped;
  process.for_each_mapping([&](const MappedRange& range) {
    if (range.offset != 0) return;
    if (mapped.library.path.empty() && names_library(range.path, "libculprit.so"))
      mapped.library = {range.path, process.mapped_file(range), range.begin};
    mapped.has_driver = mapped.has_driver || names_library(range.path, kDriverLibrary);
  });
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

bool UntoldStarts::look_at_all(bool at_end) {
  bool any_may_call = false;
  for_each_entry(kProc, [&](const char* name) {
    const std::optional<std::uint32_t> pid = whole_number(name);
    if (!pid || *pid == static_cast<std::uint32_t>(::getpid())) return;
    const ProcessFolder process(kProc, *pid);
    if (!has_mark(process, mark_)) return;
    const std::optional<ProcessStat> stat = process.stat();
    if (!stat || stat->has_ended()) return;
    const Mapped mapped = mapped_in(process);
    if (mapped.library.path.empty()) return;
    const std::int32_t state = start_state(process, mapped.library).value_or(0);
    const bool is_untold = state != 0 && state != format::kStartTold;
    const bool may_call = at_end && state == 0 && mapped.has_driver && dump_of_process(kProc, *pid).empty();
    if (!is_untold && !may_call) return;
    any_may_call = any_may_call || may_call;
    const std::string program = process.link("exe");
    found_[{static_cast<int>(*pid), stat->start_ticks}] = {static_cast<int>(*pid),
                                                           program.empty() ? stat->name : program, state};
  });
  return any_may_call;
}

void UntoldStarts::look() {
  if (std::chrono::steady_clock::now() < next_) return;
  const std::chrono::nanoseconds begin = processor_time();
  look_at_all(false);
  const std::chrono::nanoseconds took = processor_time() - begin;
  next_ = std::chrono::steady_clock::now() + std::max<std::chrono::nanoseconds>(kPause, took * kShare);
}

std::vector<UntoldStart> UntoldStarts::finish() {
  // Processes that end with the command need some time for it.
  const std::map<std::pair<int, std::uint64_t>, UntoldStart> before = found_;
  constexpr int kTurns = 6;
  constexpr std::chrono::milliseconds kTurn{50};
  for (int turn = 0; turn <= kTurns; ++turn) {
    if (turn != 0) std::this_thread::sleep_for(kTurn);
    found_ = before;
    if (!look_at_all(true)) break;
  }
  std::vector<UntoldStart> all;
  all.reserve(found_.size());
  for (const auto& [key, start] : found_) all.push_back(start);
  return all;
}

}  // namespace culprit::report
