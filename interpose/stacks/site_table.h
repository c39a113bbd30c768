// Stacks that allocate memory, with names that are the same in other runs of the program (for CULPRIT_FAIL).
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/stacks/modules.h"
#include "interpose/system/hash_index.h"

namespace culprit {

class SiteTable {
 public:
  // Counts an allocation call with this stack: the `number`th of the process. Returns the site's name, 0 when there is
  // no stack or no room. When the table is full, the site has a name but no record, which is counted. Thread-safe.
  std::uint64_t note(format::Ref stack, std::uint16_t api, std::uint64_t number, ModuleTable& modules,
                     DumpWriter& dump);

  // Gives the index's memory back; empty afterwards. Not while other threads use this.
  void free_memory() { index_.free_memory(); }

 private:
  static constexpr std::uint32_t kCapacity = 65536;  // 3 MiB, and one stack each
  SpinLock lock_;
  HashIndex index_;  // stack -> record
};

}  // namespace culprit
