#include "report/proc/target_process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "interpose/format/signal_names.h"
#include "report/cuda/library_names.h"
#include "report/proc/loaded_library.h"
#include "report/proc/proc_facts.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

// How often, and how many microseconds apart, a process is looked at that seems to be detached.
constexpr int kLooks = 20;
constexpr useconds_t kPause = 5000;

void add_descendants(const std::string& proc, std::uint32_t pid, std::vector<std::uint32_t>* found) {
  for (const std::uint32_t child : ProcessFolder(proc, pid).thread(pid).children()) {
    if (found->size() >= 1000) break;
    if (has_library(proc, child)) found->push_back(child);
    add_descendants(proc, child, found);
  }
}

// The value of a variable in the environment that the process was started with.
std::string variable_of(const std::string& environment, const std::string& name) {
  const std::string key = name + "=";
  for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
    if (environment.compare(at, key.size(), key) == 0) return environment.c_str() + at + key.size();
    if (environment.find('\0', at) == std::string::npos) break;
  }
  return {};
}

// Whether the signal is set in the field `name` of the process's status.
bool has_signal(const ProcessFolder& process, const std::string& name, int number) {
  if (number < 1 || number > 64) return false;
  return (std::strtoull(process.status(name).c_str(), nullptr, 16) >> (number - 1) & 1) != 0;
}

// Whether libculprit.so came into the process after its start, according to its environment. Unknown where that cannot
// be read, as in the middle of an exec and at the end of a process.
std::optional<bool> was_loaded_late(const ProcessFolder& process) {
  const std::string environment = process.text("environ");
  const std::optional<ProcessStat> stat = process.stat();
  if (!stat || stat->has_ended() || (environment.empty() && !stat->has_no_environment)) return {};
  return variable_of(environment, "LD_PRELOAD").find("libculprit.so") == std::string::npos;
}

// Whether it was detached: it goes on, with the library, which was not there from its start and writes no dump. That is
// also true for a moment during an attach, and in part during an exec, so it must stay true.
bool is_detached(const std::string& proc, std::uint32_t pid) {
  const ProcessFolder whole(proc, pid);
  const std::optional<ProcessStat> first = whole.stat();
  for (int look = 0; look < kLooks; ++look) {
    if (look != 0) ::usleep(kPause);
    const std::optional<ProcessStat> now = whole.stat();
    if (!first || !now || now->start_ticks != first->start_ticks || whole.has_ended()) return false;
    const std::optional<bool> late = was_loaded_late(whole.living());
    if (!late || !*late || !has_library(proc, pid) || !dump_of_process(proc, pid).empty()) return false;
  }
  return true;
}

}  // namespace

TargetProcess find_target(const std::string& proc, std::uint32_t pid) {
  TargetProcess target;
  target.pid = pid;
  const std::string name = "process " + std::to_string(pid);
  if (::access(ProcessFolder(proc, pid).path().c_str(), F_OK) != 0) {
    target.problem = "there is no " + name;
    return target;
  }
  if (ProcessFolder(proc, pid).living().for_each_mapping([](const MappedRange&) {}) != 0) {
    target.problem = name + " belongs to another user: run culprit as that user, or as root";
    return target;
  }
  target.has_library = has_library(proc, pid);
  if (!target.has_library) {
    std::vector<std::uint32_t> descendants;
    add_descendants(proc, pid, &descendants);
    if (descendants.size() > 1) {
      target.problem =
          name + " has " + std::to_string(descendants.size()) + " processes under culprit below it: name one of";
      for (std::uint32_t one : descendants) target.problem += " " + std::to_string(one);
      return target;
    }
    if (descendants.empty()) {
      const bool ended = ProcessFolder(proc, pid).has_ended();
      target.problem = name + (ended ? " has ended" : " does not run under culprit");
      target.without_library = !ended;
      return target;
    }
    target.pid = descendants.front();
    target.has_library = true;
  }
  target.dump = dump_of_process(proc, target.pid);
  target.detached = target.dump.empty() && is_detached(proc, target.pid);
  if (!target.detached) target.dump = dump_of_process(proc, target.pid);
  const ProcessFolder process = ProcessFolder(proc, target.pid).living();
  const std::string environment = process.text("environ");
  target.waits_for_signal = ::strcasecmp(variable_of(environment, "CULPRIT_START").c_str(), "signal") == 0;
  target.signal_name = variable_of(environment, "CULPRIT_SIGNAL");
  target.signal_number = parse_signal(target.signal_name.c_str());
  if (target.signal_number == 0) {  // as the library does, with a message
    target.signal_name = "USR2";
    target.signal_number = SIGUSR2;
  }
  target.catches_signal = has_signal(process, "SigCgt", target.signal_number);
  target.ignores_signal = has_signal(process, "SigIgn", target.signal_number);
  target.has_cuda = find_loaded(mappings_of(process), {kDriverLibrary, kRuntimeLibrary}) != nullptr;
  return target;
}

bool has_library(const std::string& proc, std::uint32_t pid) {
  return find_loaded(mappings_of(ProcessFolder(proc, pid).living()), {"libculprit.so"}) != nullptr;
}

bool read_header(const std::string& proc, const TargetProcess& target, format::Header* header) {
  const int fd = open_in_process(proc, target.pid, target.dump);
  if (fd < 0) return false;
  const bool whole = ::pread(fd, header, sizeof(*header), 0) == static_cast<ssize_t>(sizeof(*header));
  ::close(fd);
  return whole && std::memcmp(header->magic, format::kMagic, sizeof(format::kMagic)) == 0;
}

}  // namespace culprit::report
