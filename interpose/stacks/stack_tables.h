// The tables of native stacks: the part of Process (process/process.h) that belongs to this folder.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/stacks/modules.h"
#include "interpose/stacks/site_table.h"
#include "interpose/stacks/stack_table.h"

namespace culprit {

struct StackTables {
  ModuleTable modules;
  StackTable table;
  SiteTable sites;
  // The module_generation() of the tables and of libunwind's cache. The lock is held while those of an older one are
  // emptied.
  std::atomic<std::uint32_t> generation;
  SpinLock renewing;

  // Gives the memory of all indexes back. Not while other threads use the tables.
  void free_memory() {
    table.free_memory();
    sites.free_memory();
  }
};

}  // namespace culprit
