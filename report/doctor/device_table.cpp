#include "report/doctor/device_table.h"

#include <algorithm>
#include <limits>

#include "report/base/words.h"

namespace culprit::report {
namespace {

// The part of a process's dump that is about the device. A dump that cannot be read is about each.
const Inside* inside_on(const InsideByGpu& insides, const std::string& uuid) {
  for (const std::string& key : {uuid, std::string()}) {
    const auto found = insides.find(key);
    if (found != insides.end()) return &found->second;
  }
  return nullptr;
}

bool has_used(const Inside& inside) { return inside.balance || inside.known() != 0; }

TableRow row_of(const GpuUser& user, const std::string& uuid, const std::map<std::uint32_t, InsideByGpu>& insides) {
  TableRow row;
  row.pid = user.pid;
  if (user.kind != HolderKind::kReusedPid) row.name = user.name;
  row.here = user.here;
  row.own_number = user.own_number;
  row.account = user.account;
  row.bytes = user.bytes;
  row.kind = user.kind;
  const auto known = user.here == 0 ? insides.end() : insides.find(user.here);
  if (known != insides.end()) {
    const Inside* const inside = inside_on(known->second, uuid);
    if (inside != nullptr) row.recorded = *inside;
  }
  if (!row.recorded && user.here == 0 && user.kind == HolderKind::kHidden) row.unreadable = "only its number is known";
  if (!row.recorded && !user.unreadable.empty()) row.unreadable = user.unreadable;
  return row;
}

// On the whole GPU an instance is one row: its processes have a table of their own.
void add_instances(const GpuUsers& users, const DeviceUsers& gpu, std::vector<std::optional<unsigned>>* instances,
                   std::vector<TableRow>* rows) {
  for (const DeviceUsers& device : users.devices) {
    if (device.gpu.empty() || device.gpu != gpu.uuid) continue;
    if (std::find(instances->begin(), instances->end(), device.gpu_instance) != instances->end()) continue;
    instances->push_back(device.gpu_instance);
    TableRow row;
    row.name = device.title.substr(0, device.title.find(" of "));
    row.uuid = device.uuid;
    row.bytes = device.in_use;
    rows->push_back(std::move(row));
  }
}

void add_recorders(const GpuUsers& users, const DeviceUsers& device,
                   const std::map<std::uint32_t, InsideByGpu>& insides, std::vector<TableRow>* rows) {
  for (const Recorder& recorder : users.recorders) {
    const auto known = insides.find(recorder.pid);
    if (known == insides.end()) continue;
    const auto inside = known->second.find(device.uuid);
    if (inside == known->second.end() || !has_used(inside->second)) continue;
    const bool listed = std::any_of(device.users.begin(), device.users.end(),
                                    [&](const GpuUser& user) { return user.here == recorder.pid; });
    if (listed) continue;
    TableRow row;
    row.pid = row.here = recorder.pid;
    row.own_number = recorder.own_number;
    row.name = recorder.name;
    row.account = recorder.account;
    row.listed = false;
    row.recorded = inside->second;
    rows->push_back(std::move(row));
  }
}

// Saturates: figures of a broken library.
std::int64_t difference(std::uint64_t left, std::uint64_t right) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return left >= right ? static_cast<std::int64_t>(std::min(left - right, kMost))
                       : -static_cast<std::int64_t>(std::min(right - left, kMost));
}

DeviceTable make_table(const GpuUsers& users, const DeviceUsers& device,
                       const std::map<std::uint32_t, InsideByGpu>& insides) {
  DeviceTable table;
  table.title = device.title;
  table.uuid = device.uuid;
  table.problem = device.problem;
  if (device.foreign_numbers) {
    table.problem =
        "NVML names processes by the numbers of another PID namespace: which of them is a process here is not known";
  }
  table.in_use = device.in_use;
  std::vector<std::optional<unsigned>> instances;
  if (device.gpu.empty()) add_instances(users, device, &instances, &table.rows);
  for (const GpuUser& user : device.users) {
    const bool in_instance =
        user.gpu_instance && std::find(instances.begin(), instances.end(), user.gpu_instance) != instances.end();
    if (!in_instance) table.rows.push_back(row_of(user, device.uuid, insides));
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), [](const TableRow& left, const TableRow& right) {
    return left.bytes.value_or(0) > right.bytes.value_or(0);
  });
  add_recorders(users, device, insides, &table.rows);
  for (const TableRow& row : table.rows) table.charged += row.bytes.value_or(0);
  if (table.in_use) table.uncharged = difference(*table.in_use, table.charged);
  return table;
}

std::string name_text(const TableRow& row) {
  switch (row.kind) {
    case HolderKind::kGhost:
    case HolderKind::kReusedPid:
      return "(has ended)";
    case HolderKind::kHidden:
      return "(number only)";
    default:
      break;
  }
  std::string text = row.name.empty() ? "?" : printable(row.name);
  if (row.kind == HolderKind::kZombie) text += " (zombie)";
  if (row.own_number != 0 && row.own_number != row.here)
    text += " (" + std::to_string(row.own_number) + " in its PID namespace)";
  return text;
}

// "9.80 GiB: 9.50 GiB live · 300 MiB lost".
std::string recorded_text(const TableRow& row, const Palette& palette) {
  if (!row.recorded) return row.unreadable.empty() ? "-" : "not known: " + printable(row.unreadable);
  const Inside& inside = *row.recorded;
  if (!inside.problem.empty()) return "its dump cannot be read: " + printable(inside.problem);
  const std::uint64_t sum = inside.live_bytes + inside.lost_bytes + inside.cached_bytes;
  std::string text = format_bytes(sum);
  if (sum != 0) {
    text += ":";
    const char* between = " ";
    const auto add = [&](std::uint64_t bytes, const std::string& words) {
      if (bytes == 0) return;
      text += between + words;
      between = " · ";
    };
    add(inside.live_bytes, format_bytes(inside.live_bytes) + " live");
    add(inside.lost_bytes, palette.bad(format_bytes(inside.lost_bytes) + " lost"));
    add(inside.cached_bytes, format_bytes(inside.cached_bytes) + " cached");
  }
  return text + (row.listed ? "" : " (not in NVML's list)");
}

bool has_row_without_figure(const DeviceTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), [](const TableRow& row) { return !row.bytes; });
}

std::string uncharged_text(const DeviceTable& table) {
  if (*table.uncharged < 0) return "charged more than once: memory that several processes share";
  if (!table.problem.empty() && table.rows.empty()) return "of processes that are not known: " + table.problem;
  if (has_row_without_figure(table)) return "charged to no process, or to one without a figure";
  return "charged to no process";
}

std::string signed_text(std::int64_t bytes) {
  return bytes < 0 ? "-" + format_bytes(static_cast<std::uint64_t>(-bytes))
                   : format_bytes(static_cast<std::uint64_t>(bytes));
}

}  // namespace

std::vector<DeviceTable> tables_of(const GpuUsers& users, const std::map<std::uint32_t, InsideByGpu>& insides) {
  std::vector<DeviceTable> tables;
  tables.reserve(users.devices.size());
  for (const DeviceUsers& device : users.devices) tables.push_back(make_table(users, device, insides));
  return tables;
}

const DeviceTable* table_of(const std::vector<DeviceTable>& tables, const std::string& uuid) {
  const auto found =
      std::find_if(tables.begin(), tables.end(), [&](const DeviceTable& table) { return table.uuid == uuid; });
  return found == tables.end() ? nullptr : &*found;
}

void render_table(const DeviceTable& table, const Palette& palette, std::size_t indent, std::ostream& out) {
  constexpr std::size_t kGap = 2;
  constexpr std::size_t kBytes = 10;
  const std::string blank(indent, ' ');
  std::size_t pid_width = 3;
  std::size_t account_width = 4;
  std::size_t name_width = 7;
  for (const TableRow& row : table.rows) {
    pid_width = std::max(pid_width, std::to_string(row.pid).size());
    account_width = std::max(account_width, columns_of(printable(row.account)));
    name_width = std::max(name_width, columns_of(name_text(row)));
  }
  if (!table.rows.empty()) {
    out << blank
        << palette.faint(padded_to_width("BYTES", kBytes) + padded_to_width("PID", pid_width + kGap) +
                         padded_to_width("USER", account_width + kGap) + padded_to_width("PROCESS", name_width + kGap) +
                         "RECORDED BY CULPRIT")
        << "\n";
  }
  for (const TableRow& row : table.rows) {
    const bool ended = row.kind == HolderKind::kGhost || row.kind == HolderKind::kReusedPid ||
                       row.kind == HolderKind::kZombie || row.kind == HolderKind::kStuck;
    const std::string name = padded_to_width(name_text(row), name_width + kGap);
    out << blank << padded_to_width(row.bytes ? format_bytes(*row.bytes) : "?", kBytes)
        << padded_to_width(row.pid == 0 ? "-" : std::to_string(row.pid), pid_width + kGap)
        << padded_to_width(row.account.empty() ? "-" : printable(row.account), account_width + kGap)
        << (ended ? palette.bad(name) : name)
        << (row.uuid.empty() ? recorded_text(row, palette) : "in a table of its own") << "\n";
  }
  if (!table.problem.empty() && !(table.rows.empty() && table.uncharged))
    out << blank << palette.warn("not known") << ": " << printable(table.problem) << "\n";
  if (!table.in_use) {
    if (!table.rows.empty()) {
      out << blank << padded_to_width(format_bytes(table.charged), kBytes)
          << "charged; the memory in use on the device is not known\n";
    }
    return;
  }
  out << blank << padded_to_width(signed_text(*table.uncharged), kBytes) << printable(uncharged_text(table)) << "\n"
      << blank << palette.title(padded_to_width(format_bytes(*table.in_use), kBytes) + "in use on " + table.title)
      << "\n";
}

}  // namespace culprit::report
