#include "report/dump/process_status.h"
#include "report/base/host_name.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <optional>

#include "report/base/host_name.h"
#include "report/dump/dump_reader.h"
#include "report/dump/side_files.h"
#include "report/proc/process_folder.h"

namespace culprit::report {

using namespace format;

namespace {

enum class Mapping { kYes, kNo, kCannotSee };

Mapping maps_file(const ProcessFolder& process, const Dump& dump) {
  bool any = false;
  bool found = false;
  process.for_each_mapping([&](const MappedRange& range) {
    any = true;
    if (found || range.inode != dump.file_inode()) return;
    // On btrfs and overlayfs this device differs from stat()'s, so stat() is called for the path.
    struct stat info = {};
    found =
        range.device == dump.file_device() || (!range.path.empty() && ::stat(range.path.c_str(), &info) == 0 &&
                                               info.st_dev == dump.file_device() && info.st_ino == dump.file_inode());
  });
  if (found) return Mapping::kYes;
  return any ? Mapping::kNo : Mapping::kCannotSee;
}

std::string boot_id_of(const Header& header) {
  return {header.boot_id, ::strnlen(header.boot_id, sizeof(header.boot_id))};
}

ProcessStatus unknown(const std::string& note) {
  ProcessStatus status;
  status.note = note;
  return status;
}

}  // namespace

const char* ended_name(Ended ended) {
  switch (ended) {
    case Ended::kExit:
      return "exit";
    case Ended::kKilled:
      return "killed";
    case Ended::kRunning:
      return "running";
    case Ended::kUnknown:
      return "unknown";
  }
  return "unknown";
}

bool is_surely_of_this_machine(const Dump& dump, const MachineFacts& machine) {
  const std::string boot = boot_id(machine.proc);
  const std::string host(dump.header().host, ::strnlen(dump.header().host, sizeof(dump.header().host)));
  // Containers share the ID of the kernel's start, but not its name and files.
  return !boot.empty() && boot == boot_id_of(dump.header()) && dump.file_owner() == ::geteuid() && !host.empty() &&
         host == host_name();
}

ProcessKey process_key(const Header& header) { return {header.pid_namespace, header.pid, header.start_time_ticks}; }

namespace {

bool is_known(const ProcessKey& key) { return std::get<0>(key) != 0 && std::get<1>(key) != 0 && std::get<2>(key) != 0; }

ProcessStatus status_of(bool signalled, int code) {
  ProcessStatus status;
  status.ended = signalled ? Ended::kKilled : Ended::kExit;
  (signalled ? status.signal : status.exit_status) = code;
  return status;
}

// How the process ended, where that is proven.
std::optional<ProcessStatus> proven_end(const ProcessKey& key, const ProcessFolder& process,
                                        const std::optional<ProcessStat>& stat, const MachineFacts& machine) {
  if (machine.child && machine.child->process == key) return status_of(machine.child->signalled, machine.child->code);
  if (!stat || !stat->has_ended() || stat->start_ticks != std::get<2>(key)) return std::nullopt;
  const int status = stat->wait_status;
  if (WIFSIGNALED(status)) return status_of(true, WTERMSIG(status));
  // The kernel shows 0 instead of the status to those who may not trace the process.
  if (status == 0 && !process.may_be_traced()) return std::nullopt;
  return status_of(false, WEXITSTATUS(status));
}

ProcessStatus status_of_gone(const Header& header) {
  ProcessStatus status;
  status.gone = true;
  status.note = std::string("it is not known how the process ended: ") +
                (header.process_state == ProcessState::kExiting ? "its exit handlers did not come to their end"
                                                                : "its exit handlers did not run") +
                ", so it was killed by a signal, or ended by the system call exit_group or by exec";
  return status;
}

}  // namespace

ProcessStatus process_status(const Dump& dump, const MachineFacts& machine) {
  const Header& header = dump.header();
  ProcessStatus status;
  if (header.snapshot_ns != 0) {
    status.ended = Ended::kRunning;
    return status;
  }
  if (header.process_state == ProcessState::kDetached) {
    status.detached = true;
    return status;
  }

  const std::string boot = boot_id(machine.proc);
  const bool same_boot = !boot.empty() && boot == boot_id_of(header);
  const std::uint64_t name_space = own_pid_namespace(machine.proc);
  const bool same_namespace = name_space != 0 && name_space == header.pid_namespace;
  const ProcessKey key = process_key(header);
  const bool marked = header.process_state == ProcessState::kExited;
  const auto last = machine.last_start_ns.find(key);
  if (!marked && is_known(key) && last != machine.last_start_ns.end() && last->second > header.start_realtime_ns) {
    status.gone = true;
    status.note = "process " + std::to_string(header.pid) +
                  " replaced itself by another program (exec), which has a dump of its own";
    return status;
  }
  const ProcessFolder process(machine.proc, header.pid);
  const std::optional<ProcessStat> stat = process.stat();
  const auto end_of_run = machine.ends_of_runs.find(run_id_of(header));
  if (end_of_run != machine.ends_of_runs.end() && is_known(key) && end_of_run->second.child.process == key &&
      end_of_run->second.boot_id == boot_id_of(header))
    return status_of(end_of_run->second.child.signalled, end_of_run->second.child.code);
  if (same_boot && same_namespace && is_known(key) && (process.has_ended() || machine.child)) {
    // A marked process may still be killed while it ends, or be given another status.
    const std::optional<ProcessStatus> end = proven_end(key, process, stat, machine);
    if (end) return *end;
  }
  if (marked) return status_of(false, header.exit_status);
  if (!same_boot)
    return unknown("recorded on another host or before a reboot, and not marked as ended: it may still run there");
  if (!same_namespace)
    return unknown("recorded in another pid namespace (a container), and not marked as ended: it may still run there");
  if (!stat || process.has_ended() || stat->start_ticks != header.start_time_ticks) return status_of_gone(header);
  switch (maps_file(process.living(), dump)) {
    case Mapping::kYes:
      status.ended = Ended::kRunning;
      return status;
    case Mapping::kNo:
      return unknown("process " + std::to_string(header.pid) +
                     " runs but no longer writes this file: it was replaced by exec, or this is a copy");
    case Mapping::kCannotSee:
      return unknown("process " + std::to_string(header.pid) +
                     " runs, but its mappings cannot be read; run culprit as its user");
  }
  return status;
}

}  // namespace culprit::report
