#include "interpose/causes/library_words.h"

#include <initializer_list>

#include "interpose/base/module_name.h"
#include "interpose/causes/driver_threads.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

// glibc's struct pthread begins with the control block (2304 bytes in glibc 2.36), its struct link_map has 1160 bytes
// in 2.36, 1192 in 2.39 (sizes of both: gdb, with libc6-dbg).
constexpr std::uint64_t kThreadBytes = 2304;
constexpr std::uint64_t kModuleBytes = 1280;

bool has_aligned_data(const char* path) {
  if (is_of_libc(path)) return true;
  for (const char* name : {"libstdc++.so", "libgcc_s.so"}) {
    if (begins_with(file_name(path), name)) return true;
  }
  return false;
}

// Whether a module's entry begins at `where` in the table that _dl_find_object() looks at, which is in the heap for
// modules that came by dlopen() (glibc, elf/dl-find_object.h: struct dl_find_object_internal).
bool is_in_table(const ModuleMark& mark, std::uint64_t where) {
  std::uint64_t words[3] = {};
  return os.read_own_memory(words, where, sizeof(words)) == sizeof(words) && words[0] == mark.begin &&
         words[1] == mark.end && words[2] == mark.node;
}

}  // namespace

void LibraryWords::open(const DriverThreads& threads, const MemoryMap& map) {
  threads_ = &threads;
  map_ = &map;
  any_loaded_module([this](const struct dl_phdr_info& module) {
    MemoryRange extent = {};
    if (has_aligned_data(module.dlpi_name) && module_extent(module, &extent.begin, &extent.end))
      data_[count_++] = extent;
    return count_ == kMost;
  });
}

bool LibraryWords::is_of_parts(std::uint64_t where) const {
  if (where % sizeof(std::uint64_t) == 0) return false;
  for (std::uint64_t i = 0; i < count_; ++i) {
    if (where - data_[i].begin < data_[i].end - data_[i].begin) return true;
  }
  return threads_->control_block_before(where, kThreadBytes) != 0;
}

bool LibraryWords::is_begin(std::uint64_t address, std::uint64_t where) const {
  const Mapping* mapping = map_->find(address);
  if (mapping == nullptr || mapping->begin != address) return false;
  ModuleMark mark = {};
  if (find_module_mark(address, &mark) && mark.begin == address)
    return where - mark.node < kModuleBytes || is_in_table(mark, where);
  // A stack begins with a page without access, and the control block is at its end. libc's first function on it has the
  // address, too.
  const Mapping* stack = (mapping->protection & PROT_READ) != 0 ? mapping : map_->find(mapping->end);
  if (stack == nullptr || threads_->control_block_before(stack->end, stack->end - stack->begin) == 0) return false;
  return where - stack->begin < stack->end - stack->begin || threads_->is_register(where) ||
         threads_->control_block_before(where, kThreadBytes) != 0;
}

}  // namespace culprit
