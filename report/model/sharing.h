// Memory that one process of a job gave to another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "interpose/format/dump_sharing.h"
#include "report/dump/process_status.h"

namespace culprit::report {

struct ResolvedStack;

// An export by one process, or an import that is still open. Joined with those of other processes by
// merge/join_sharings.h.
struct Sharing {
  std::uint32_t process = 0;  // index into Report::job
  format::SharingRole role = format::SharingRole::kNone;
  format::SharingType type = format::SharingType::kNone;
  format::Kind kind = format::Kind::kNone;
  std::uint64_t key = 0;  // equal for the export and its imports; 0: the handle has no identity
  std::optional<unsigned> device;
  std::string gpu;          // UUID of the device
  std::uint64_t bytes = 0;  // of an import: as far as it was mapped, 0: not known
  std::uint64_t count = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t ended_ns = 0;  // of an export: its memory was freed; 0: it was not
  // Never nullptr. Of an export: of the allocation, of the export, and of the free. Of an import: the first only.
  const ResolvedStack* stack = nullptr;
  const ResolvedStack* export_stack = nullptr;
  const ResolvedStack* end_stack = nullptr;
};

// One of the two processes.
struct SharingSide {
  std::uint32_t process = 0;  // index into Report::job, if the process is part of the report
  bool in_report = false;
  std::uint32_t pid = 0;
  std::string host;
  std::optional<unsigned> rank;
  Ended ended = Ended::kUnknown;
  bool gone = false;  // with kUnknown: it has ended
};

enum class SharedState : std::uint8_t {
  kStays,            // the exporter freed it or has ended; the importer still maps it, or did so when it ended
  kOpen,             // likewise mapped; not freed
  kExporterUnknown,  // likewise mapped; no dump has the export
};

// Memory of one process that another one maps. Equal ones (processes, stacks, state) are one entry.
struct SharedMemory {
  SharedState state = SharedState::kExporterUnknown;
  // False: a file descriptor has no identity. The export is one of the same size on the same device, before the import;
  // if any of these was not freed, that one.
  bool certain = true;
  format::SharingType type = format::SharingType::kNone;
  std::optional<unsigned> device;  // as the importer counts
  std::string gpu;
  std::uint64_t bytes = 0;  // 0: not known
  std::uint64_t count = 0;  // allocations
  std::optional<SharingSide> exporter;
  SharingSide importer;
  const ResolvedStack* allocated = nullptr;  // of the exporter; nullptr without one
  const ResolvedStack* exported = nullptr;   // likewise
  const ResolvedStack* freed = nullptr;      // likewise; nullptr: not freed
  const ResolvedStack* opened = nullptr;     // never nullptr
  std::uint64_t freed_ns = 0;                // of the first of them, in the exporter's time
  std::uint64_t opened_ns = 0;               // likewise, in the importer's
};

// "ipc-handle", "file-descriptor", "fabric-handle", "pool-pointer"; "unknown".
const char* sharing_type_name(format::SharingType type);
// "stays", "open", "exporter-unknown".
const char* shared_state_name(SharedState state);

}  // namespace culprit::report
