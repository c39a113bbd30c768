// The modules (the program, its libraries) and their addresses, so that a frame is stored as (module, offset) when it
// is seen and stays valid after a dlclose.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/loader/loader_count.h"
#include "interpose/loader/loader_modules.h"

namespace culprit {

// Number of times that the program closed a library.
extern CULPRIT_OWN std::atomic<std::uint32_t> modules_closed;
inline void note_module_closed() { modules_closed.fetch_add(1, std::memory_order_release); }

// Grows when another module may lie at an address than before: each cache of addresses is of one generation.
// A library opened while none was closed raises it too: code that a program wrote itself may have been at its place.
inline std::uint32_t module_generation() {
  return static_cast<std::uint32_t>(__atomic_load_n(modules_added, __ATOMIC_ACQUIRE)) +
         modules_closed.load(std::memory_order_acquire);
}

class ModuleTable {
 public:
  // Marks the modules of the table that were unmapped or moved. Modules are added by frame_of(), to the dump of the
  // last refresh(). Thread-safe.
  void refresh(DumpWriter& dump);

  // Turns an absolute address into the format's frame (without kFrameExact). Asks the loader about an address outside
  // the table's modules, and in a new generation about the others too. `address` must be in a module that stays loaded:
  // on the calling thread's stack, e.g. Thread-safe, takes no lock of the loader.
  std::uint64_t frame_of(std::uint64_t address);

  // The absolute address that frame_of() made this frame of; 0: its module is not mapped any more. Adds nothing.
  // Thread-safe.
  std::uint64_t address_of(std::uint64_t frame);

  // A program may load new modules without end (a just-in-time compiler that writes libraries). When the table is full,
  // the numbers of unloaded modules are reused, once a collection of stacks (stack_collection.h) has found no stack
  // that names them: begin_marking(), mark(frame) for each frame of a stack that stays, free_unmarked(). Thread-safe.
  bool wants_collection() const { return __atomic_load_n(&wants_collection_, __ATOMIC_RELAXED); }
  void begin_marking();
  void mark(std::uint64_t frame) {
    const std::uint64_t number = frame >> format::kFrameModuleShift & format::kFrameModuleMask;
    if (number != 0 && number <= kCapacity) entries_[number - 1].needed = true;
  }
  void free_unmarked();

  // A hash that identifies the module of a frame in every run of the same program. 0: no known module. Thread-safe.
  std::uint64_t identity_of(std::uint64_t frame);

 private:
  static constexpr int kCapacity = 4096;
  struct Entry {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t load_bias;
    ModuleMark mark;           // as it was when the module was found
    std::uint64_t identity;    // hash of path and build ID: a module loaded again keeps its number
    std::uint32_t generation;  // in which this module was last seen at its place
    format::Ref record;
    std::uint16_t index;      // in the dump, and here
    std::uint16_t path_room;  // capacity of its record's path
    bool mapped;
    bool needed;  // by a stack, or mapped since the collection began
    bool free;
  };
  void unmap(Entry& entry);
  std::uint64_t describe(const struct dl_phdr_info& info, format::ModuleRecord* record, std::size_t* path_length);
  bool stands(Entry& entry, std::uint64_t address, std::uint32_t generation);
  const Entry* add(const struct dl_phdr_info& info, std::uint32_t generation);
  Entry* new_entry();
  void store_path(Entry* entry, format::ModuleRecord* record, const char* path, std::size_t length);

  SpinLock lock_;
  DumpWriter* dump_;
  int count_;
  char path_[4096];  // of the module that is being added
  int free_count_;
  bool wants_collection_;
  Entry entries_[kCapacity];
};

// The path of the module that `info` describes: absolute, the program's own name for "". Returns its length.
std::size_t module_path(const struct dl_phdr_info& info, char* path, std::size_t capacity);

// Copies the module's GNU build ID out of its mapped notes. Returns its length in bytes; 0: it has none that fits.
std::uint8_t build_id_of(const struct dl_phdr_info& info, std::uint8_t* id, std::size_t capacity);

}  // namespace culprit
