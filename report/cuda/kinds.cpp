#include "report/cuda/kinds.h"

namespace culprit::report {

using format::Kind;

namespace {

struct KindRow {
  Kind kind;
  const char* name;
  const char* one;
  const char* many;
  KindClass what;
};

constexpr KindClass kGpu = KindClass::kDeviceMemory;
constexpr KindClass kHost = KindClass::kHostMemory;
constexpr KindClass kObject = KindClass::kObject;

// clang-format off
constexpr KindRow kRows[] = {
    {Kind::kDevice,           "device",             "device allocation",     "device allocations",     kGpu},
    {Kind::kManaged,          "managed",            "managed allocation",    "managed allocations",    kGpu},
    {Kind::kPitched,          "pitched",            "pitched allocation",    "pitched allocations",    kGpu},
    {Kind::kPinnedHost,       "pinned-host",        "pinned allocation",     "pinned allocations",     kHost},
    {Kind::kRegisteredHost,   "registered-host",    "registered range",      "registered ranges",      kHost},
    {Kind::kArray,            "array",              "array",                 "arrays",                 kGpu},
    {Kind::kMipmappedArray,   "mipmapped-array",    "mipmapped array",       "mipmapped arrays",       kGpu},
    {Kind::kStreamOrdered,    "stream-ordered",     "pool allocation",       "pool allocations",       kGpu},
    {Kind::kVmmPhysical,      "vmm-physical",       "VMM handle",            "VMM handles",            kGpu},
    {Kind::kVmmReservation,   "vmm-reservation",    "address reservation",   "address reservations",   kObject},
    {Kind::kVmmMapping,       "vmm-mapping",        "VMM mapping",           "VMM mappings",           kObject},
    {Kind::kVmmImported,      "vmm-imported",       "imported VMM handle",   "imported VMM handles",   kObject},
    {Kind::kIpcMemory,        "ipc-memory",         "IPC mapping",           "IPC mappings",           kObject},
    {Kind::kExternalMemory,   "external-memory",    "external memory",       "external memories",      kObject},
    {Kind::kExternalBuffer,   "external-buffer",    "external buffer",       "external buffers",       kObject},
    {Kind::kMemoryPool,       "memory-pool",        "memory pool",           "memory pools",           kObject},
    {Kind::kPoolImport,       "pool-import",        "pool import",           "pool imports",           kObject},
    {Kind::kGraphMemory,      "graph-memory",       "graph allocation",      "graph allocations",      kGpu},
    {Kind::kMulticast,        "multicast",          "multicast object",      "multicast objects",      kObject},
    {Kind::kContext,          "context",            "context",               "contexts",               kObject},
    {Kind::kPrimaryContext,   "primary-context",    "primary context",       "primary contexts",       KindClass::kNeverCounted},
    {Kind::kGreenContext,     "green-context",      "green context",         "green contexts",         kObject},
    {Kind::kStream,           "stream",             "stream",                "streams",                kObject},
    {Kind::kEvent,            "event",              "event",                 "events",                 kObject},
    {Kind::kGraph,            "graph",              "graph",                 "graphs",                 kObject},
    {Kind::kGraphExec,        "graph-exec",         "executable graph",      "executable graphs",      kObject},
    {Kind::kModule,           "module",             "module",                "modules",                kObject},
    {Kind::kLibrary,          "library",            "library",               "libraries",              kObject},
    {Kind::kTextureObject,    "texture-object",     "texture object",        "texture objects",        kObject},
    {Kind::kSurfaceObject,    "surface-object",     "surface object",        "surface objects",        kObject},
    {Kind::kExternalSemaphore,"external-semaphore", "external semaphore",    "external semaphores",    kObject},
    {Kind::kGraphicsResource, "graphics-resource",  "graphics resource",     "graphics resources",     kObject},
    {Kind::kUserObject,       "user-object",        "user object",           "user objects",           kObject},
    {Kind::kLinkState,        "link-state",         "link state",            "link states",            kObject},
    {Kind::kTextureReference, "texture-reference",  "texture reference",     "texture references",     kObject},
};
// clang-format on

const KindRow* find_row(Kind kind) {
  for (const KindRow& row : kRows) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace

std::string kind_name(Kind kind) {
  const KindRow* row = find_row(kind);
  return row != nullptr ? row->name : "kind " + std::to_string(static_cast<unsigned>(kind));
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const KindRow& row : kRows) names.emplace_back(row.name);
  return names;
}

std::string kind_count_name(Kind kind, std::uint64_t count) {
  const KindRow* row = find_row(kind);
  if (row == nullptr) return "of " + kind_name(kind);
  return count == 1 ? row->one : row->many;
}

KindClass kind_class(Kind kind) {
  const KindRow* row = find_row(kind);
  return row != nullptr ? row->what : KindClass::kObject;
}

}  // namespace culprit::report
