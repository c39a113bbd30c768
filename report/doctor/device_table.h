// All processes of a GPU, or of a MIG device, in one table: the bytes that NVML charges to each, and what the dump of
// one that culprit records says of them. With `charged to no process` the rows add up to the memory in use on the
// device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "report/doctor/inside.h"
#include "report/render/text/palette.h"

namespace culprit::report {

struct TableRow {
  std::uint32_t pid = 0;               // NVML's number; 0: the row is of a MIG instance
  std::string name;                    // empty: not known; of a MIG instance its title
  std::string uuid;                    // of a MIG instance: its device
  std::uint32_t here = 0;              // as in GpuUser
  std::uint32_t own_number = 0;        // as in GpuUser
  std::string account;                 // as in GpuUser
  std::optional<std::uint64_t> bytes;  // empty: not known
  HolderKind kind = HolderKind::kProcess;
  bool listed = true;              // by NVML; false: a process that records and has used the device
  std::optional<Inside> recorded;  // its dump; empty: it has none
  std::string unreadable;          // why it is not known whether it has a dump
};

struct DeviceTable {
  std::string title;  // "GPU 0", "MIG 1 of GPU 0"
  std::string uuid;
  std::string problem;                    // why the processes are not known; empty: they are
  std::vector<TableRow> rows;             // most bytes first; those that NVML does not list are the last
  std::uint64_t charged = 0;              // the sum of the rows
  std::optional<std::uint64_t> in_use;    // empty: NVML does not tell it
  std::optional<std::int64_t> uncharged;  // in_use - charged: negative where shared memory is charged more than once
};

// Of each device that NVML shows. `insides`: by the process's number here.
std::vector<DeviceTable> tables_of(const GpuUsers& users, const std::map<std::uint32_t, InsideByGpu>& insides);

// nullptr: there is none.
const DeviceTable* table_of(const std::vector<DeviceTable>& tables, const std::string& uuid);

// `indent`: blanks before each line.
void render_table(const DeviceTable& table, const Palette& palette, std::size_t indent, std::ostream& out);

}  // namespace culprit::report
