// The state and the steps of a search for lost memory: at exit (lost_search.h), or in a frozen copy of a process that
// runs (lost_scan.h).
//
// Lies in memory of its own, never malloc's. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/address_filter.h"
#include "interpose/causes/caller_state.h"
#include "interpose/causes/device_pointers.h"
#include "interpose/causes/device_snapshot.h"
#include "interpose/causes/device_variables.h"
#include "interpose/causes/driver_threads.h"
#include "interpose/causes/encoded_numbers.h"
#include "interpose/causes/gpu_blocks.h"
#include "interpose/causes/handle_set.h"
#include "interpose/causes/heap_blocks.h"
#include "interpose/causes/heap_chunks.h"
#include "interpose/causes/last_holders.h"
#include "interpose/causes/library_words.h"
#include "interpose/causes/root_ranges.h"
#include "interpose/causes/whole_reader.h"
#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"
#include "interpose/system/memory_map.h"

namespace culprit {

class DeviceCopies;
class HeldThreads;
struct Process;

class LostSearcher {
 public:
  // `frozen`: the search runs in a copy of the process.
  LostSearcher(Process& process, const CallerState& caller, bool frozen = false)
      : process_(process), caller_(caller), frozen_(frozen), last_(process) {}

  // All of it, at exit. `held`: the other threads, if they were stopped; they are let go. Writes what is lost into the
  // dump.
  format::LostSearch run(HeldThreads* held, std::uint64_t* bytes);

  // In the process, between prepare() and search(): what a copy of it cannot know. `words`: see format/scan_state.h.
  void freeze(const std::uint64_t* words, std::uint64_t count, std::uint64_t deadline_ns);

  std::uint64_t bytes_read() const { return reader_.bytes_read() + device_bytes_; }
  const GpuBlocks& memory() const { return gpu_; }

  // In the process: collects the memory to look for, and reasons not to.
  format::LostSearch prepare();

  // In the process, or in a frozen copy of it: marks all memory that something refers to.
  format::LostSearch search();

  // Calls visit(block, place) for all memory that is lost.
  template <typename Visit>
  void for_each_lost(Visit visit) const {
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
      if (!is_lost(i)) continue;
      visit(gpu_[i], (gpu_[i].marks & kDirectly) != 0 ? format::kNoPointerLeft : format::kOnlyLostPointerLeft);
    }
  }

  // Calls visit(LastHolderRecord): see last_holders.h. After for_each_lost().
  template <typename Visit>
  void for_each_last(Visit visit) {
    last_.for_each(
        gpu_, [this](std::uint32_t number) { return is_lost(number); },
        [this](std::uint32_t number) { return (gpu_[number].marks & kElsewhere) != 0; }, visit);
  }

  void close();

 private:
  enum Marks : std::uint8_t {
    kReached = 1,     // the program's memory leads to it
    kReferenced = 2,  // memory that is lost too leads to it
    kVisited = 4,     // counted as lost, directly or indirectly
    kDirectly = 8,
    kFollowed = 16,
    kElsewhere = 32,  // the heap or memory of the GPU refers to it, or a root to its middle
  };
  // Takes the words about stopped threads: format/scan_state.h.
  void know_threads(const std::uint64_t* words, std::uint64_t count);
  format::LostSearch search_devices();

  // The reason not to search; kDone: there is none.
  format::LostSearch reason_not_to();
  format::LostSearch open();
  format::LostSearch reason_of_threads();

  // Leaves out libc's part of the stack, from exit() on, or from the function that called main(): in its frames lie old
  // words of the program's functions.
  void leave_libc();

  // Memory that the program keeps out of its children (MADV_DONTFORK) is not in the copy.
  format::LostSearch reason_of_copy() const;
  bool has_memory_in(const Mapping& mapping) const;

  // The handles of the driver's own objects, kernels included: its memory, which leads to all of its bookkeeping. A
  // CUDA runtime that is linked statically keeps them in the program's heap.
  bool collect_objects();

  // Only of those that exist: the memory of others may be the program's by now.
  template <typename Visit>
  void for_each_object(Visit visit);

  // Marks the memory that a copy refers to.
  void look_at(const unsigned char* copy, std::uint64_t bytes, std::uint64_t address);
  // Marks the memory whose address a copy has as a number of another language; chunks by their begins alone.
  void look_at_numbers(const unsigned char* copy, std::uint64_t bytes, std::uint64_t address);
  void look_at_number(std::uint64_t address, std::uint64_t where);
  // Whether a word may be a pointer with a tag above its 48 bits. Numbers in large arrays look like one, and so do
  // parts of two words that stand one after the other: they would hide losses.
  bool may_be_pointer(std::uint64_t word, std::uint64_t where) const;
  // Whether the word at `where`, which is not aligned, lies across two that are addresses or small numbers.
  bool is_of_two(std::uint64_t where) const;
  bool leads_somewhere(std::uint64_t address) const;
  bool leads_to_begin(std::uint64_t address) const;
  void look_at(std::uint64_t address, std::uint64_t where);
  // The chunk of malloc that the address lies in, to be read.
  void mark_block(std::uint64_t address, std::uint64_t where);
  void reach(std::uint32_t number, std::uint64_t where);
  void note_place(std::uint32_t number, std::uint64_t address, std::uint64_t where);
  bool read(const RootRange& range);
  bool read_roots();
  bool follow_host();

  // Reads the memory of the GPU that was reached, and what it leads to. Returns whether there was any.
  bool follow_gpu();
  bool read_block(std::uint32_t number);
  bool read_on_device(const GpuBlock& block);
  // Instead of reading it: what is known of the block that is read.
  void follow_pointers(const GpuBlock& block);
  // Looks at memory of the GPU at `address`: in a frozen copy at its `content`, else by copy(offset, bytes) in parts.
  template <typename Copy>
  bool look_at_device(const unsigned char* content, std::uint64_t bytes, std::uint64_t address, Copy copy);
  // Reads the variables of device code, and all that they lead to.
  bool read_variables();
  // Bytes of memory of the GPU that was reached, or that is lost, which have to be copied to be read. In the process
  // the kernel is tried first if they are many.
  std::uint64_t bytes_to_copy(bool reached);
  bool all_reached() const;
  bool is_lost(std::uint32_t number) const { return (gpu_[number].marks & kReached) == 0; }

  // Divides lost memory into what nothing refers to, and what only lost memory refers to. Of memory that refers to one
  // another in a circle the first one counts as lost directly.
  // Where that would take long, or part of it cannot be read, all of it counts as lost directly.
  void sort_lost();
  bool read_lost();
  bool follow_lost();

  // Reads all that is followed and was not read.
  bool follow_lost_from();
  void write_lost();

  static constexpr std::uint32_t kNone = 0xffffffff;

  Process& process_;
  CallerState caller_;
  const bool frozen_;
  GpuBlocks gpu_;
  MemoryMap map_;
  MemoryMap before_;  // of the process, when the copy was made
  bool all_mappings_ = false;
  DeviceSnapshot snapshot_;
  DevicePointers pointers_;
  bool tried_pointers_ = false;
  DeviceVariables variables_;
  HeapChunks chunks_;
  HeapBlocks blocks_;
  AddressFilter filter_;    // of the memory of the GPU and of the blocks
  EncodedNumbers numbers_;  // of the same
  RootRanges roots_;
  DriverThreads drivers_;
  LibraryWords words_of_libraries_;
  LastHolders last_;
  const std::uint64_t* words_ = nullptr;  // of the command
  std::uint64_t word_count_ = 0;
  bool in_roots_ = false;
  bool in_large_ = false;  // the memory that is looked at has more than 64 KiB
  WholeReader reader_;
  HandleSet objects_ = {};
  DeviceCopies* copies_ = nullptr;
  std::uint32_t* queue_ = nullptr;
  std::uint64_t queue_bytes_ = 0;
  std::uint32_t queued_ = 0;
  std::uint32_t read_ = 0;
  unsigned char* copy_ = nullptr;
  bool copy_in_use_ = false;  // the driver may still write to it
  std::uint64_t device_bytes_ = 0;
  std::uint64_t device_deadline_ns_ = ~std::uint64_t{0};
  std::uint32_t reading_ = kNone;  // the block whose content is looked at
  std::uint8_t mark_ = kReached;
  bool marks_chunks_ = true;
  const char* place_ = "a register";  // where pointers are looked for
  format::LostSearch failure_ = format::LostSearch::kDone;
};

}  // namespace culprit
