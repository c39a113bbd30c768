#include "report/attach/untold_starts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <exception>
#include <iterator>
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

// Those that kthreadd started, from one file: a machine with 16 processors has 200 of them, and each look at one takes
// 10 us. Empty where they are not seen (a PID namespace), and without CONFIG_PROC_CHILDREN.
std::set<std::uint32_t> kernel_threads() {
  constexpr std::uint32_t kKthreadd = 2;
  const ProcessFolder kthreadd(kProc, std::uint64_t{kKthreadd});
  const std::optional<ProcessStat> stat = kthreadd.stat();
  if (!stat || !stat->kernel_thread) return {};
  const std::vector<std::uint32_t> found = kthreadd.thread(kKthreadd).children();
  return {found.begin(), found.end()};
}

bool has_mark(const ProcessFolder& process, const std::string& mark) {
  const std::string environment = process.text("environ");
  const std::size_t at = environment.find(mark);
  return at != std::string::npos && (at == 0 || environment[at - 1] == '\0') &&
         (at + mark.size() == environment.size() || environment[at + mark.size()] == '\0');
}

// The library and the driver in a process.
struct Mapped {
  std::vector<MappedRange> mappings;
  std::uint64_t library_begin = 0;  // 0: it is not loaded
  bool has_driver = false;
  bool is_readable = false;
};

Mapped mapped_in(const ProcessFolder& process) {
  Mapped mapped;
  int error = 0;
  mapped.mappings = mappings_of(process, &error);
  const MappedRange* library = find_loaded(mapped.mappings, {"libculprit.so"});
  if (library != nullptr) mapped.library_begin = library->begin;
  mapped.has_driver = find_loaded(mapped.mappings, {kDriverLibrary}) != nullptr;
  mapped.is_readable = error != EACCES && error != EPERM;
  return mapped;
}

// The variable's value; empty when it cannot be read. While the loader maps the library, other bytes of the file stand
// in its place, which cannot be written yet.
std::optional<std::int32_t> start_state(const ProcessFolder& process, const Mapped& mapped) {
  const Descriptor memory(::open((process.path() + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  const auto read = [&](std::uint64_t at, void* data, std::size_t size) {
    return ::pread(memory.get(), data, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  };
  const std::uint64_t address = RemoteSymbols(read, mapped.library_begin).variable("culprit_api_start_state");
  const bool is_variable = std::any_of(mapped.mappings.begin(), mapped.mappings.end(), [&](const MappedRange& range) {
    return range.writable && range.contains(address);
  });
  std::int32_t value = 0;
  if (!is_variable || !read(address, &value, sizeof(value))) return {};
  return value;
}

}  // namespace

void UntoldStarts::look_at(const ProcessFolder& process, int pid, const ProcessStat& stat, bool at_end) {
  const Mapped mapped = mapped_in(process);
  const std::int32_t state = mapped.library_begin == 0 ? 0 : start_state(process, mapped).value_or(0);
  const std::string program = process.link("exe");
  UntoldStart start = {pid, stat.start_ticks, program.empty() ? stat.name : program, Untold::kFailed, 0};
  bool is_news = true;
  if (!mapped.is_readable) {
    start.what = Untold::kNotReadable;
  } else if (mapped.library_begin == 0 && mapped.has_driver) {
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
    if (state != format::kStartTold) ++undecided_;
    if (at_end) others_.push_back(start);
  }
  if (start.what == Untold::kNotReadable) ++undecided_;
  if (is_news) found_[{pid, stat.start_ticks}] = std::move(start);
}

UntoldStarts::UntoldStarts(std::string mark) : mark_(std::move(mark)) {
  const ProcessFolder self(kProc, "self");
  const std::optional<ProcessStat> stat = self.stat();
  if (stat) begin_ticks_ = stat->start_ticks;
  control_groups_ = self.text("cgroup");
}

void UntoldStarts::begin_with(int command) noexcept try {
  const std::optional<ProcessStat> stat = ProcessFolder(kProc, static_cast<std::uint64_t>(command)).stat();
  if (!stat) return;
  command_ticks_ = stat->start_ticks;
  of_run_.insert({command, stat->start_ticks});
  leaders_.insert(command);
} catch (const std::exception& error) {
  log::debug("the processes of the run cannot be watched", error);
}

bool UntoldStarts::has_told(int pid) {
  const ProcessFolder process(kProc, static_cast<std::uint64_t>(pid));
  const Mapped mapped = mapped_in(process);
  return mapped.library_begin != 0 && start_state(process, mapped).value_or(0) != 0;
}

OfRun UntoldStarts::belongs(int pid, std::uint64_t start_ticks) const {
  if (of_run_.count({pid, start_ticks}) != 0) return OfRun::kYes;
  const auto began = began_.find({pid, start_ticks});
  return began != began_.end() && began->second ? OfRun::kLikely : OfRun::kNo;
}

// The number of a process that has ended is not given away as long as it is that of a group or session.
bool UntoldStarts::is_led_by_run(std::uint32_t leader, const std::map<int, ProcessStat>& all) const {
  const int pid = static_cast<int>(leader);
  const auto alive = all.find(pid);
  return leaders_.count(pid) != 0 && (alive == all.end() || of_run_.count({pid, alive->second.start_ticks}) != 0);
}

bool UntoldStarts::is_of_run(const ProcessFolder& process, int pid, const ProcessStat& stat,
                             const std::map<int, ProcessStat>& all) const {
  if (of_run_.count({pid, stat.start_ticks}) != 0) return true;
  const auto parent = all.find(static_cast<int>(stat.parent));
  if (parent != all.end() && of_run_.count({parent->first, parent->second.start_ticks}) != 0) return true;
  if (stat.start_ticks >= begin_ticks_ && (is_led_by_run(stat.group, all) || is_led_by_run(stat.session, all)))
    return true;
  if (has_mark(process, mark_)) return true;
  // Processes whose parent ended become children of this one, if it is the first of its PID namespace. A copy of this
  // process that is ending has no path any more, and both paths change when the file is replaced.
  if (static_cast<int>(stat.parent) != ::getpid() || stat.start_ticks <= command_ticks_) return false;
  const std::string path = process.link("exe");
  return !path.empty() && path != ProcessFolder(kProc, "self").link("exe");
}

// Whether its parent ended, as far as that can be told: the kernel then gives it to the first process of the PID
// namespace, or to the one of its ancestors that asked for it. One that this first process started itself, as the
// script of a container does, has its session.
bool UntoldStarts::is_orphan(const ProcessFolder& process, const ProcessStat& stat,
                             const std::map<int, ProcessStat>& all) const {
  const auto parent = all.find(static_cast<int>(stat.parent));
  if (parent == all.end()) return false;
  static constexpr const char* kReapers[] = {"systemd",   "init",        "tini",      "docker-init", "dumb-init",
                                             "catatonit", "podman-init", "s6-svscan", "slurmstepd"};
  const std::string& name = parent->second.name;
  const bool adopts =
      std::any_of(std::begin(kReapers), std::end(kReapers), [&](const char* one) { return name == one; });
  const bool has_own_session = parent->first == 1 && stat.session != parent->second.session;
  if (!adopts && !has_own_session) return false;
  // One of another run has another mark.
  const std::string variable = mark_.substr(0, mark_.find('=') + 1);
  const std::string environment = process.text("environ");
  if (environment.compare(0, variable.size(), variable) == 0 || environment.find('\0' + variable) != std::string::npos)
    return false;
  return process.text("cgroup") == control_groups_;
}

bool UntoldStarts::look_at_all(bool at_end) {
  undecided_ = 0;
  const int own = ::getpid();
  const std::set<std::uint32_t> kernel = kernel_threads();
  std::map<int, ProcessStat> all;
  for_each_entry(kProc, [&](const char* name) {
    const std::optional<std::uint32_t> pid = whole_number(name);
    if (!pid || static_cast<int>(*pid) == own || kernel.count(*pid) != 0) return;
    const std::optional<ProcessStat> stat = ProcessFolder(kProc, *pid).stat();
    if (stat && !stat->kernel_thread) all.emplace(static_cast<int>(*pid), *stat);
  });
  bool any = false;
  // A parent has mostly a lower number than its children; otherwise the next look knows them.
  for (const auto& [pid, stat] : all) {
    const ProcessFolder process(kProc, static_cast<std::uint64_t>(pid));
    if (!is_of_run(process, pid, stat, all)) {
      if (stat.start_ticks < begin_ticks_ || stat.has_ended()) continue;
      const Key key = {pid, stat.start_ticks};
      auto began = began_.find(key);
      if (began == began_.end()) began = began_.emplace(key, is_orphan(process, stat, all)).first;
      if (began->second) ++undecided_;
      continue;
    }
    of_run_.insert({pid, stat.start_ticks});
    leaders_.insert(pid);
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
