// Which modules (the program, its libraries) are mapped where, so that a frame can be stored as (module, offset) at the
// moment it is seen and stays true after a dlclose.
#pragma once

#include <cstdint>

#include "interpose/dump_writer.h"

struct dl_phdr_info;

namespace culprit {

// All zeros = empty. Lives in memory that the kernel wipes in a fork child.
class ModuleTable {
 public:
  // Marks the modules of the table that are not mapped any more, or no longer where they were. Modules are added by
  // frame_of(), to the dump that was given here last. Thread-safe.
  void refresh(DumpWriter& dump);

  // Turns an absolute address into the format's frame (without kFrameExact). Asks the loader for the module of an
  // address that lies in none of the table's. Thread-safe, takes no lock of the loader.
  std::uint64_t frame_of(std::uint64_t address);

  // What stands for the module of such a frame in every run of the same program. 0: in no known module. Thread-safe.
  std::uint64_t identity_of(std::uint64_t frame);

 private:
  static constexpr int kCapacity = 4096;
  struct Entry {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t load_bias;
    std::uint64_t identity;  // hash of path and build ID: a module loaded again keeps its number
    format::Ref record;
    std::uint16_t index;
    bool mapped;
  };
  void unmap(Entry& entry);
  const Entry* add(const struct dl_phdr_info& info);

  SpinLock lock_;
  DumpWriter* dump_;
  int count_;
  char path_[4096];  // of the module that is being added
  Entry entries_[kCapacity];
};

// The path of the module that `info` describes: absolute, the program's own name for "". Returns its length.
std::size_t module_path(const struct dl_phdr_info& info, char* path, std::size_t capacity);

}  // namespace culprit
