#include "report/attach/target_limits.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "report/base/words.h"
#include "report/proc/proc_text.h"

namespace culprit::report {
namespace {

// Attaching to and detaching from a small program failed with 96 MiB left, and worked with 128: tables of the search
// are reserved for the largest program. It keeps 37 MiB of addresses, and 2.5 MiB of memory.
constexpr std::uint64_t kAddressesNeeded = 192 << 20;
constexpr std::uint64_t kMemoryNeeded = 16 << 20;
constexpr std::uint64_t kLeastDump = 1 << 20;

// The soft limit in a line of /proc/PID/limits; empty: none.
std::optional<std::uint64_t> limit_named(const std::string& limits, const std::string& name) {
  const std::size_t at = limits.find(name);
  if (at == std::string::npos) return std::nullopt;
  std::istringstream rest(limits.substr(at + name.size()));
  std::uint64_t soft = 0;
  if (!(rest >> soft)) return std::nullopt;  // "unlimited"
  return soft;
}

std::uint64_t kilobytes(const std::string& field) { return std::strtoull(field.c_str(), nullptr, 10) * 1024; }

// A number in a file of a cgroup; empty: "max", or no file.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::istringstream text(read_proc_text(path));
  std::uint64_t number = 0;
  if (!(text >> number)) return std::nullopt;
  return number;
}

// The value of a key of memory.stat.
std::uint64_t value_of(const std::string& statistics, const std::string& key) {
  std::istringstream text(statistics);
  std::string name;
  for (std::uint64_t value = 0; text >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

struct MemoryFiles {
  const char* most;
  const char* now;
  const char* prefix;  // of the keys that count the groups below too
};
constexpr MemoryFiles kUnified = {"/memory.max", "/memory.current", ""};
constexpr MemoryFiles kOld = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"};

bool has_no_room(const std::string& group, const MemoryFiles& files, std::uint64_t needed) {
  const std::optional<std::uint64_t> most = number_in(group + files.most);
  const std::optional<std::uint64_t> now = number_in(group + files.now);
  if (!most || !now) return false;
  const std::string statistics = read_proc_text(group + "/memory.stat");
  const std::string prefix = files.prefix;
  // Pages of files can be dropped.
  const std::uint64_t droppable =
      value_of(statistics, prefix + "active_file") + value_of(statistics, prefix + "inactive_file");
  const std::uint64_t used = *now - std::min(*now, droppable);
  return used + needed > *most;
}

// The group, or one above it, that has no room.
std::string full_group(const std::string& mount, std::string path, const MemoryFiles& files, std::uint64_t needed) {
  while (true) {
    if (has_no_room(mount + path, files, needed)) return path.empty() ? "/" : path;
    if (path.empty()) return {};
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

std::uint64_t descriptors_below(const ProcessFolder& process, std::uint64_t limit) {
  std::uint64_t count = 0;
  for_each_entry(process.path() + "/fd", [&](const char* name) {
    if (std::strtoull(name, nullptr, 10) < limit) ++count;
  });
  return count;
}

}  // namespace

std::string full_control_group(const std::string& membership, const std::string& root, std::uint64_t needed) {
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    std::string full;
    if (controllers == ",,") {
      full = full_group(root, path, kUnified, needed);
    } else if (controllers.find(",memory,") != std::string::npos) {
      full = full_group(root + "/memory", path, kOld, needed);
    }
    if (!full.empty()) return full;
  }
  return {};
}

void check_limits(const TracedProcess& process, const std::string& control_groups) {
  const ProcessFolder alive = process.folder().living();
  const std::string limits = alive.text("limits");
  const std::string nothing = ": nothing was changed";
  const std::optional<std::uint64_t> addresses = limit_named(limits, "Max address space");
  const std::uint64_t used = kilobytes(alive.status("VmSize"));
  if (addresses && used + kAddressesNeeded > *addresses) {
    throw AttachError(process.name() + " may use " + format_bytes(*addresses) + " of addresses (ulimit -v), " +
                      format_bytes(*addresses - std::min(used, *addresses)) +
                      " are left, and loading libculprit.so needs " + format_bytes(kAddressesNeeded) + nothing);
  }
  const std::optional<std::uint64_t> descriptors = limit_named(limits, "Max open files");
  if (descriptors && descriptors_below(alive, *descriptors) >= *descriptors) {
    throw AttachError(process.name() + " has all of its " + std::to_string(*descriptors) +
                      " descriptors open (ulimit -n), and loading a library needs one" + nothing);
  }
  const std::optional<std::uint64_t> file_size = limit_named(limits, "Max file size");
  if (file_size && *file_size < kLeastDump) {
    throw AttachError(process.name() + " may write files of at most " + format_bytes(*file_size) +
                      " (ulimit -f), and its dump needs " + format_bytes(kLeastDump) + nothing);
  }
  const std::string group = full_control_group(alive.text("cgroup"), control_groups, kMemoryNeeded);
  if (!group.empty()) {
    throw AttachError(process.name() + " is in a memory cgroup with less than " + format_bytes(kMemoryNeeded) +
                      " left (" + group + "), so that loading libculprit.so could make the kernel end it" + nothing);
  }
}

}  // namespace culprit::report
