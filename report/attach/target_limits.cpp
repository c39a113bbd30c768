#include "report/attach/target_limits.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "report/attach/control_groups.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

// Attaching to and detaching from a small program failed with 96 MiB left, and worked with 128: tables of the search
// are reserved for the largest program. It keeps 37 MiB of addresses, and 2.5 MiB of memory.
constexpr std::uint64_t kAddressesNeeded = 192 << 20;
// Attaching to one with 24 mappings left worked, and failed with 14.
constexpr std::uint64_t kMappingsNeeded = 40;
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

std::uint64_t descriptors_below(const ProcessFolder& process, std::uint64_t limit) {
  std::uint64_t count = 0;
  for_each_entry(process.path() + "/fd", [&](const char* name) {
    if (std::strtoull(name, nullptr, 10) < limit) ++count;
  });
  return count;
}

}  // namespace

void check_not_frozen(const TracedProcess& process, const std::string& control_groups) {
  const std::string group = frozen_control_group(process.folder().living().text("cgroup"), control_groups);
  if (group.empty()) return;
  throw AttachError(process.name() + " is frozen by its cgroup " + printable(group) +
                    " (docker pause, systemctl freeze): let it run on first");
}

void check_limits(const TracedProcess& process, const std::string& control_groups) {
  const ProcessFolder alive = process.folder().living();
  const std::string limits = alive.text("limits");
  const std::string nothing = ": nothing was changed";
  struct statfs files = {};
  if (::statfs(process.path_from_here("/proc").c_str(), &files) != 0 || files.f_type != PROC_SUPER_MAGIC) {
    throw AttachError(process.name() + " has no /proc in its root (chroot), which loading libculprit.so needs" +
                      nothing + "; mount it there, or start the program with culprit run");
  }
  const std::optional<std::uint64_t> addresses = limit_named(limits, "Max address space");
  const std::uint64_t used = kilobytes(alive.status("VmSize"));
  if (addresses && used + kAddressesNeeded > *addresses) {
    throw AttachError(process.name() + " may use " + format_bytes(*addresses) + " of addresses (ulimit -v), " +
                      format_bytes(*addresses - std::min(used, *addresses)) +
                      " are left, and loading libculprit.so needs " + format_bytes(kAddressesNeeded) + nothing);
  }
  const std::optional<std::uint64_t> data = limit_named(limits, "Max data size");
  const std::uint64_t private_memory = kilobytes(alive.status("VmData"));
  if (data && private_memory + kAddressesNeeded > *data) {
    throw AttachError(process.name() + " may use " + format_bytes(*data) + " of private memory (ulimit -d), " +
                      format_bytes(*data - std::min(private_memory, *data)) +
                      " are left, and loading libculprit.so needs " + format_bytes(kAddressesNeeded) + nothing);
  }
  const std::uint64_t most_mappings = std::strtoull(process.own().text("../sys/vm/max_map_count").c_str(), nullptr, 10);
  const std::uint64_t mappings = process.mappings().size();
  if (most_mappings != 0 && mappings + kMappingsNeeded > most_mappings) {
    throw AttachError(process.name() + " has " + std::to_string(mappings) + " of at most " +
                      std::to_string(most_mappings) + " mappings (vm.max_map_count), and loading libculprit.so needs " +
                      std::to_string(kMappingsNeeded) + nothing);
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
