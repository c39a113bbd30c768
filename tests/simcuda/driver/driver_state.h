// The state of the simulated driver: devices, contexts, memory and every handle it gave out.
//
// It differs from the real driver on purpose:
//   - A stream is always idle: copies, graph launches and host functions are done before the call returns.
//   - A managed allocation takes no device memory; contexts, modules and so on only with SIMCUDA_OWN_MEMORY
//   (own_memory.h).
//   - Graph memory that was freed counts as reserved only; NVIDIA's driver counts it as used until a trim.
//   - cuInit in a fork child starts a driver of its own (driver_state.cpp).
//   - A process may open its own IPC memory handle. Another process that opens or imports exported memory gets fresh
//     memory of that size (ipc.cpp, vmm.cpp, pools.cpp).
//   - cuModuleGetFunction finds every name in every image; a global variable has 1 MiB (modules.cpp).
//   - The host can read device memory at its own address. The first allocation of device k is at
//     0x702d6ac00000 + k * 0x8000000000, which no small numbers in memory look like.
//
// One lock guards all of it (Call takes it). Everything lives on the malloc heap, as in the real driver: .data and .bss
// hold no copy of a handle, which matters to tools that search a process's globals for handles.
#pragma once

#include <cuda.h>
#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/simcuda/driver/address_space.h"

namespace simcuda {

struct DriverState;
struct Context;
struct Pool;
struct Physical;
struct GraphMemory;

enum class ObjectType : std::uint8_t {
  kContext,
  kGreenContext,
  kStream,
  kEvent,
  kArray,
  kMipmappedArray,
  kPool,
  kPhysical,
  kMulticast,
  kGraph,
  kGraphNode,
  kGraphExec,
  kModule,
  kLibrary,
  kKernel,
  kFunction,
  kTextureReference,
  kTextureObject,
  kSurfaceObject,
  kExternalMemory,
  kExternalSemaphore,
  kUserObject,
  kLinkState,
  kResourceDescriptor,
};

// Any object with a handle; the handle is the object's address. Objects of a context end with it.
struct Object {
  explicit Object(ObjectType object_type, Context* object_context = nullptr)
      : type(object_type), context(object_context) {}
  virtual ~Object() = default;
  // Releases what the object holds (memory, children). Called once, just before it is deleted.
  virtual void release(DriverState&) {}

  ObjectType type;
  Context* context;
};

struct Context : Object {
  static constexpr ObjectType kType = ObjectType::kContext;
  Context() : Object(kType) {}

  int device = 0;
  bool primary = false;
  int references = 1;       // cuCtxAttach and cuCtxDetach
  Object* green = nullptr;  // the green context that it was created from
  bool active = true;       // false: a primary context that is not retained, or was reset
  // Changes when a primary context is reset, so that threads in which it is still current see that it was destroyed.
  std::uint64_t serial = 0;
  unsigned flags = 0;
  unsigned api_version = 3020;
  Object* legacy_stream = nullptr;                  // stands for stream 0
  std::map<pthread_t, Object*> per_thread_streams;  // stand for CU_STREAM_PER_THREAD
  std::map<int, std::size_t> limits;
  std::unordered_set<int> peers;  // devices
  // own_memory.h
  std::size_t own_bytes = 0;    // of the device, that end with it
  std::size_t local_bytes = 0;  // a thread
  bool has_fifo = false;
  bool has_heap = false;
};

enum class MemoryKind : std::uint8_t {
  kDevice,
  kManaged,
  kPool,
  kPoolImport,
  kGraph,
  kIpcImport,
  kExternalBuffer,
  kModuleGlobal,
  kVmmMapping,
  kHost,
  kRegisteredHost,
};

struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t range = 0;   // start of the range from the address space; at or below address
  std::size_t bytes = 0;     // the requested size
  std::size_t charged = 0;   // charged to the device by this allocation itself (pools charge their own)
  std::size_t reserved = 0;  // taken from the address space
  std::uint64_t id = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  unsigned flags = 0;
  Context* context = nullptr;
  Pool* pool = nullptr;
  Physical* physical = nullptr;  // VMM mapping
  std::size_t physical_offset = 0;
  bool readable = true;     // VMM mapping: cuMemSetAccess was called
  Object* owner = nullptr;  // module, external memory: ends with that object
  std::shared_ptr<GraphMemory> graph_memory;
  std::uint64_t ipc_source = 0;  // IPC import: id of the exported memory
  unsigned ipc_opens = 0;        // and how often it was opened
};

using AllocationMap = std::map<std::uint64_t, Allocation>;  // by address

struct Device {
  int ordinal = 0;
  std::size_t total = 0;
  std::size_t used = 0;
  std::size_t others = 0;  // used by other processes; see neighbours.h
  std::unique_ptr<AddressSpace> space;
  AllocationMap memory;
  AllocationMap reservations;  // cuMemAddressReserve
  Context* primary = nullptr;
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;
  std::vector<Pool*> pools;
  std::size_t graph_reserved = 0;
  std::size_t graph_reserved_high = 0;
  std::size_t graph_used = 0;
  std::size_t graph_used_high = 0;
  // own_memory.h
  unsigned contexts = 0;
  std::size_t small_bytes = 0;  // of allocations that share blocks
  std::size_t stream_bytes = 0;
  std::size_t idle_streams = 0;
  std::size_t exec_bytes = 0;  // of executable graphs; kept when they end
  std::size_t exec_used = 0;

  std::size_t available() const { return used + others < total ? total - used - others : 0; }
};

// Of own_memory.h; sizes in bytes. All are 0 without SIMCUDA_OWN_MEMORY.
struct OwnMemory {
  bool on = false;
  std::size_t context = 0;       // the first one of a device; SIMCUDA_CONTEXT_MB
  std::size_t next_context = 0;  // each other one; SIMCUDA_NEXT_CONTEXT_MB
  std::size_t module = 0;        // code and globals, when first used; SIMCUDA_MODULE_MB
  std::size_t stream = 0;
  std::size_t heap_extra = 0;  // more than its limit
  std::size_t wide_node = 0;   // of an executable graph, without a dependency
  std::size_t chained_node = 0;
  unsigned info_us = 0;  // that cuMemGetInfo takes at least; SIMCUDA_MEMORY_INFO_US
};

struct DriverState {
  OwnMemory own_memory;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<AddressSpace> managed_space;
  AllocationMap managed;
  AllocationMap host;                                  // pinned and registered host memory
  std::map<std::uint64_t, GraphMemory*> graph_memory;  // of allocation nodes, by address: the newest at each
  std::unordered_set<Object*> objects;
  std::uint64_t next_serial = 1;
  std::uint64_t next_id = 1;
  bool same_addresses = false;
  // Objects exported as a descriptor, by the descriptor's inode.
  std::map<ino_t, Object*> exported;
  unsigned global_captures = 0;  // streams being captured with CU_STREAM_CAPTURE_MODE_GLOBAL

  // The live object behind a handle, or nullptr when there is none of that type.
  template <typename T>
  T* find(const void* handle) const {
    Object* object = static_cast<Object*>(const_cast<void*>(handle));
    if (object == nullptr || objects.find(object) == objects.end() || object->type != T::kType) return nullptr;
    return static_cast<T*>(object);
  }
  template <typename T>
  T* add(T* object) {
    objects.insert(object);
    return object;
  }
  // Releases and deletes the object; does nothing when it is not (or no longer) in the table.
  void destroy(Object* object);

  // Frees everything that lives in the context: memory, streams, modules and so on. The context itself stays.
  void empty_context(Context& context);
};

// The allocation that starts at `address`, or nullptr. `device` decides when devices share their addresses.
Allocation* find_allocation(DriverState& state, int device, std::uint64_t address);
// The allocation that contains `address`.
Allocation* find_containing(DriverState& state, int device, std::uint64_t address);
// Ends an allocation of any kind and releases its memory.
void release_allocation(DriverState& state, Allocation& allocation);
// Creates an allocation in a device's address space. Returns nullptr when `charged` bytes are not available.
Allocation* add_allocation(DriverState& state, Device& device, MemoryKind kind, std::size_t bytes,
                           std::size_t alignment, std::size_t charged, Context* context);
// A second address for memory of the same device (imports): `source` need not be at the start of a page.
Allocation* add_alias(DriverState& state, Device& device, MemoryKind kind, std::uint64_t source, std::size_t bytes,
                      Context* context);
// The host address of the `bytes` bytes at `address`; nullptr when they are not all inside live allocations. Addresses
// of no device are ordinary host memory.
char* host_memory(DriverState& state, int device, std::uint64_t address, std::size_t bytes);
bool is_device_address(const DriverState& state, std::uint64_t address);
// Releases idle pool memory until `bytes` are available. Returns whether they are.
bool make_room(DriverState& state, Device& device, std::size_t bytes);

}  // namespace simcuda
