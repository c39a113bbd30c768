#include "report/attach/control_groups.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>

#include "report/proc/proc_text.h"

namespace culprit::report {
namespace {

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

// Calls `look` for each group of the process, until it returns a text: with the controllers, as ",cpu,memory,", or ",,"
// for the unified hierarchy, and with the path, which is empty for the root.
std::string first_of_groups(const std::string& membership,
                            const std::function<std::string(const std::string&, const std::string&)>& look) {
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    std::string found = look("," + line.substr(first + 1, second - first - 1) + ",", path);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::string full_control_group(const std::string& membership, const std::string& root, std::uint64_t needed) {
  return first_of_groups(membership, [&](const std::string& controllers, const std::string& path) -> std::string {
    if (controllers == ",,") return full_group(root, path, kUnified, needed);
    if (controllers.find(",memory,") != std::string::npos) return full_group(root + "/memory", path, kOld, needed);
    return {};
  });
}

std::string frozen_control_group(const std::string& membership, const std::string& root) {
  const auto has = [&](const std::string& file, const char* text) {
    return ("\n" + read_proc_text(root + file)).find(text) != std::string::npos;
  };
  return first_of_groups(membership, [&](const std::string& controllers, const std::string& path) -> std::string {
    const std::string file = path + "/cgroup.events";
    bool frozen = false;
    if (controllers == ",,") {
      frozen = has(file, "\nfrozen 1") || has("/unified" + file, "\nfrozen 1");
    } else if (controllers.find(",freezer,") != std::string::npos) {
      frozen = has("/freezer" + path + "/freezer.state", "\nFROZEN");
    }
    if (!frozen) return {};
    return path.empty() ? "/" : path;
  });
}

}  // namespace culprit::report
