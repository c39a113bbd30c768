#include "report/dump/process_status.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "report/dump/dump_reader.h"
#include "report/proc/proc_text.h"

namespace culprit::report {

using namespace format;

namespace {

struct ProcStat {
  bool found = false;
  char state = '?';
  std::uint64_t start_time_ticks = 0;
};

ProcStat read_stat(const std::string& folder) {
  ProcStat result;
  const std::string text = read_proc_text(folder + "/stat");
  // The second field is the name in parentheses, which may contain spaces and parentheses.
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return result;
  std::istringstream rest(text.substr(close + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 3) result.state = field[0];
    if (number == 22) {
      result.start_time_ticks = std::strtoull(field.c_str(), nullptr, 10);
      result.found = true;
      break;
    }
  }
  return result;
}

enum class Mapping { kYes, kNo, kCannotSee };

Mapping maps_file(const std::string& folder, const Dump& dump) {
  std::ifstream maps(folder + "/maps");
  if (!maps) return Mapping::kCannotSee;
  bool any = false;
  std::string line;
  while (std::getline(maps, line)) {
    any = true;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    std::uint64_t inode = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%*x-%*x %*s %*x %x:%x %" SCNu64 " %n", &major_number, &minor_number, &inode,
                    &path_at) < 3 ||
        inode != dump.file_inode()) {
      continue;
    }
    if (makedev(major_number, minor_number) == dump.file_device()) return Mapping::kYes;
    // On btrfs and overlayfs this device differs from stat()'s, so stat() is called for the path.
    struct stat info = {};
    if (path_at > 0 && ::stat(line.c_str() + path_at, &info) == 0 && info.st_dev == dump.file_device() &&
        info.st_ino == dump.file_inode()) {
      return Mapping::kYes;
    }
  }
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

  std::string boot_id = read_proc_text(machine.proc + "/sys/kernel/random/boot_id");
  while (!boot_id.empty() && boot_id.back() == '\n') boot_id.pop_back();
  const std::string dump_boot_id(header.boot_id, ::strnlen(header.boot_id, sizeof(header.boot_id)));
  if (boot_id.empty() || boot_id != dump_boot_id) {
    return unknown("recorded on another host or before a reboot, and not marked as ended: it may still run there");
  }
  struct stat name_space = {};
  if (::stat((machine.proc + "/self/ns/pid").c_str(), &name_space) != 0 || name_space.st_ino != header.pid_namespace) {
    return unknown("recorded in another pid namespace (a container), and not marked as ended: it may still run there");
  }

  const std::string folder = machine.proc + "/" + std::to_string(header.pid);
  const ProcStat stat = read_stat(folder);
  const bool gone =
      !stat.found || stat.state == 'Z' || stat.state == 'X' || stat.start_time_ticks != header.start_time_ticks;
  if (gone) {
    status.ended = Ended::kKilled;
    if (header.process_state == ProcessState::kExiting) status.note = "it died while its exit handlers ran";
    return status;
  }
  switch (maps_file(folder, dump)) {
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
