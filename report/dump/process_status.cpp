#include "report/dump/process_status.h"

#include <sys/stat.h>

#include <cstring>
#include <optional>

#include "report/dump/dump_reader.h"
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

ProcessStatus process_status(const Dump& dump, const MachineFacts& machine) {
  const Header& header = dump.header();
  ProcessStatus status;
  if (header.snapshot_ns != 0) {
    status.ended = Ended::kRunning;
    return status;
  }
  if (header.process_state == ProcessState::kExited) {
    status.ended = Ended::kExit;
    status.exit_status = header.exit_status;
    return status;
  }

  if (header.process_state == ProcessState::kDetached) {
    status.detached = true;
    return status;
  }

  const std::string boot = boot_id(machine.proc);
  const std::string dump_boot_id(header.boot_id, ::strnlen(header.boot_id, sizeof(header.boot_id)));
  if (boot.empty() || boot != dump_boot_id) {
    return unknown("recorded on another host or before a reboot, and not marked as ended: it may still run there");
  }
  const std::uint64_t name_space = own_pid_namespace(machine.proc);
  if (name_space == 0 || name_space != header.pid_namespace) {
    return unknown("recorded in another pid namespace (a container), and not marked as ended: it may still run there");
  }

  const ProcessFolder process(machine.proc, header.pid);
  const std::optional<ProcessStat> stat = process.stat();
  const bool gone = !stat || stat->has_ended() || stat->start_ticks != header.start_time_ticks;
  if (gone) {
    status.ended = Ended::kKilled;
    if (header.process_state == ProcessState::kExiting) status.note = "it was killed while its exit handlers ran";
    return status;
  }
  switch (maps_file(process, dump)) {
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
