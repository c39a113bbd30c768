// Memory that a process hands to another one, or gets from one. Part of dump_format.h.
#pragma once

#include "interpose/format/dump_records.h"

namespace culprit::format {

// How the memory is handed over.
enum class SharingType : std::uint8_t {
  kNone = 0,
  kIpcHandle = 1,       // cuIpcGetMemHandle, cuIpcOpenMemHandle
  kFileDescriptor = 2,  // cuMemExportToShareableHandle, cuMemImportFromShareableHandle with a descriptor, which has no
                        // identity: all of them are the same file, /dev/nvidiactl
  kFabricHandle = 3,    // likewise with a CUmemFabricHandle, which may lead to another machine
  kPoolPointer = 4,     // cuMemPoolExportPointer, cuMemPoolImportPointer
};
constexpr SharingType kLastSharingType = SharingType::kPoolPointer;

enum class SharingRole : std::uint8_t {
  kNone = 0,
  kExport = 1,
  kImport = 2,
};

// An export of an allocation, or the mapping that an import made. Exports stay after the allocation was freed, until
// the table needs the room; the record of an import is given up when the mapping is closed.
struct SharingRecord {
  std::uint32_t state;  // live: 0 = not valid, else the number of uses of the record
  SharingType type;
  SharingRole role;
  std::uint8_t device;
  Kind kind;            // of the allocation or mapping
  std::uint64_t key;    // sharing_key() of the handle's bytes, the same in all processes; 0 = it has no identity
  std::uint64_t bytes;  // live: of the allocation; of an import: as far as it was mapped, 0 = not known
  std::uint64_t time_ns;
  std::uint64_t ended_ns;  // live: the allocation was freed; 0 = not yet
  std::uint64_t count;     // live: equal calls
  Ref stack;               // of the allocation, or of the call that opened it
  Ref export_stack;        // of the export
  Ref end_stack;           // live: of the free
  Ref allocation;          // for the writer only: AllocationRecord; 0 = ended
  std::uint32_t thread;    // of the export or import
  std::uint16_t api;       // likewise
  std::uint8_t reserved[10];
};
static_assert(sizeof(SharingRecord) == 80);

// A name of an opaque handle: never 0. It is compared between dumps, so it never changes.
inline std::uint64_t sharing_key(const void* handle, std::size_t bytes) {
  const auto* byte = static_cast<const unsigned char*>(handle);
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3ULL;
  hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdULL;
  return (hash ^ hash >> 29) | 1;
}

}  // namespace culprit::format
