#include "interpose/causes/lost_search.h"

#include <cstring>
#include <new>

#include "interpose/base/store_release.h"
#include "interpose/causes/device_copies.h"
#include "interpose/causes/gpu_blocks.h"
#include "interpose/causes/handle_set.h"
#include "interpose/causes/heap_blocks.h"
#include "interpose/causes/process_facts.h"
#include "interpose/causes/root_ranges.h"
#include "interpose/causes/whole_reader.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/format/kinds.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/log.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::AllocationRecord;
using format::HolderRecord;
using format::LostSearch;
using format::Ref;

namespace {

constexpr std::uint64_t kMostBytes = 4ULL << 30;
constexpr std::uint64_t kMostDeviceBytes = 2ULL << 30;
constexpr std::uint64_t kLongestNs = 2'000'000'000;
constexpr std::uint64_t kLongestOnDeviceNs = 1'000'000'000;
constexpr std::uint64_t kAddressBits = (1ULL << 48) - 1;

enum Marks : std::uint8_t {
  kReached = 1,     // the program's memory leads to it
  kReferenced = 2,  // memory that is lost too leads to it
  kVisited = 4,     // counted as lost, directly or indirectly
  kDirectly = 8,
};

class LostSearcher {
 public:
  LostSearcher(Process& process, const CallerState& caller) : process_(process), caller_(caller) {}

  LostSearch run(std::uint64_t* bytes) {
    const LostSearch end = find();
    *bytes = reader_.bytes_read() + device_bytes_;
    close();
    return end;
  }

 private:
  LostSearch find() {
    switch (gpu_.collect(process_)) {
      case GpuBlocks::Collected::kOthers:
        return LostSearch::kDriverObjects;
      case GpuBlocks::Collected::kNoMemory:
        return LostSearch::kGivenUp;
      case GpuBlocks::Collected::kDone:
        break;
    }
    if (gpu_.size() == 0) return LostSearch::kDone;
    LostSearch reason = reason_not_to();
    if (reason != LostSearch::kDone) return reason;
    reason = open();
    if (reason != LostSearch::kDone) return reason;
    if (!read_roots() || !follow_host()) return failure_;
    if (all_reached()) return LostSearch::kDone;
    const DriverUse use;
    DeviceCopies copies(process_, clock_ns(CLOCK_MONOTONIC) + kLongestOnDeviceNs);
    copies_ = &copies;
    if (!copies.all_idle()) return LostSearch::kDeviceNotRead;
    while (follow_gpu()) {
    }
    if (failure_ != LostSearch::kDone || all_reached()) return failure_;
    if (!sort_lost()) return failure_;
    write_lost();
    return LostSearch::kDone;
  }

  // The reason not to search; kDone: there is none.
  LostSearch reason_not_to() {
    const format::Header& header = *process_.dump.header();
    if (header.attached != format::Attached::kNo || header.stop_reason != format::StopReason::kNone ||
        header.dropped_allocations != 0 || header.dropped_others != 0 || header.handler_calls != 0 ||
        header.left_hooks != 0 || header.lock_timeouts != 0 || header.last_switch_ns != 0 ||
        header.limited_types != 0 || header.unseen_user_count != 0 || header.unknown_frees != 0 ||
        (process_.mode.load(std::memory_order_relaxed) & (kModeOff | kModeSeveralLives | kModeUserThreads)) != 0)
      return LostSearch::kNotAllRecorded;
    if (header.python_version != 0) return LostSearch::kPython;
    if (device_use_of(process_).has_run_code()) return LostSearch::kDeviceCode;
    bool shared = false;
    process_.dump.for_each_record<format::SharingRecord>(format::ChunkType::kSharings,
                                                         [&](const format::SharingRecord&) { shared = true; });
    if (shared) return LostSearch::kShared;
    if (!malloc_is_glibcs()) return LostSearch::kAllocator;
    if (!destructors_come_later()) return LostSearch::kDestructors;
    switch (kernel_holds()) {
      case KernelHolds::kPointers:
        return LostSearch::kKernelHolds;
      case KernelHolds::kUnknown:
        return LostSearch::kUnreadable;
      case KernelHolds::kNothing:
        break;
    }
    return LostSearch::kDone;
  }

  LostSearch open() {
    if (!map_.read()) return LostSearch::kUnreadable;
    switch (other_threads(map_)) {
      case OtherThreads::kProgram:
        return LostSearch::kThreads;
      case OtherThreads::kUnknown:
        return LostSearch::kUnreadable;
      case OtherThreads::kNone:
        break;
    }
    if (!chunks_.open() || !blocks_.open(&chunks_.pages(), chunks_.key()) || !collect_objects())
      return LostSearch::kGivenUp;
    if (!roots_.collect(map_, caller_.words[6], gpu_, &blocks_)) return LostSearch::kAllocator;
    int error = 0;
    queue_bytes_ = (std::uint64_t{blocks_.size()} + 1) * sizeof(std::uint32_t);
    queue_ = static_cast<std::uint32_t*>(map_private(queue_bytes_, &error));
    copy_ = static_cast<unsigned char*>(map_private(DeviceCopies::kMostBytes, &error));
    const bool opened = reader_.open(
        kMostBytes, clock_ns(CLOCK_MONOTONIC) + kLongestNs,
        [](void* search, const unsigned char* copy, std::uint64_t bytes, std::uint64_t address) {
          static_cast<LostSearcher*>(search)->look_at(copy, bytes, address);
        },
        this);
    return queue_ != nullptr && copy_ != nullptr && opened ? LostSearch::kDone : LostSearch::kGivenUp;
  }

  void close() {
    roots_.close();
    blocks_.close();
    chunks_.close();
    gpu_.close();
    reader_.close();
    objects_.release();
    if (queue_ != nullptr) unmap_private(queue_, queue_bytes_);
    if (copy_ != nullptr && !copy_in_use_) unmap_private(copy_, DeviceCopies::kMostBytes);
  }

  // The handles of the driver's own objects: its memory, which leads to all of its bookkeeping.
  bool collect_objects() {
    std::uint64_t count = 0;
    for_each_object([&](std::uint64_t) { ++count; });
    if (!objects_.reserve(count + 1)) return false;
    for_each_object([&](std::uint64_t handle) { objects_.add(handle, 1, 1); });
    return true;
  }

  // Only of those that exist: the memory of others may be the program's by now.
  template <typename Visit>
  void for_each_object(Visit visit) {
    process_.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations,
                                                    [&](const AllocationRecord& record) {
                                                      if (is_live_now(record) && !is_memory(record.kind))
                                                        visit(record.handle);
                                                    });
    process_.dump.for_each_record<format::ContextRecord>(format::ChunkType::kContexts,
                                                         [&](const format::ContextRecord& record) {
                                                           if (record.state == format::ContextState::kAlive)
                                                             visit(record.handle);
                                                         });
  }

  // Marks the memory that a copy refers to.
  void look_at(const unsigned char* copy, std::uint64_t bytes, std::uint64_t address) {
    for (std::uint64_t i = 0; i + sizeof(std::uint64_t) <= bytes; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, copy + i, sizeof(word));
      look_at(word & kAddressBits, address + i);
    }
  }

  void look_at(std::uint64_t address, std::uint64_t where) {
    gpu_.find(address, [this, where](std::uint32_t number) { reach(number, where); });
    if (!marks_chunks_) return;
    const std::uint32_t block = blocks_.find(address);
    if (block == HeapBlocks::kNone || objects_.has(address) || objects_.has(blocks_.begin_of(block))) return;
    if (blocks_.mark(block)) queue_[queued_++] = block;
  }

  void reach(std::uint32_t number, std::uint64_t where) {
    GpuBlock& block = gpu_[number];
    if (number == reading_ || (block.marks & mark_) != 0) return;
    block.marks |= mark_;
    if (mark_ == kReached) log_pointer(process_.options, block.begin, where, place_);
  }

  bool read(const RootRange& range) {
    switch (reader_.read(range)) {
      case WholeRead::kDone:
        return true;
      case WholeRead::kUnreadable:
        failure_ = LostSearch::kUnreadable;
        return false;
      case WholeRead::kGivenUp:
        failure_ = LostSearch::kGivenUp;
        return false;
    }
    return false;
  }

  bool read_roots() {
    for (const std::uint64_t word : caller_.words) look_at(word & kAddressBits, 0);
    place_ = "a root";
    for (const RootRange& range : roots_) {
      if (!read(range)) return false;
    }
    return true;
  }

  bool follow_host() {
    while (read_ != queued_) {
      const std::uint32_t block = queue_[read_++];
      place_ = "a chunk of malloc";
      if (!read({blocks_.begin_of(block), blocks_.end_of(block), false, true})) return false;
    }
    return true;
  }

  // Reads the memory of the GPU that was reached, and what it leads to. Returns whether there was any.
  bool follow_gpu() {
    bool any = false;
    for (std::uint32_t i = 0; i < gpu_.size() && failure_ == LostSearch::kDone; ++i) {
      if ((gpu_[i].marks & (kReached | kVisited)) != kReached) continue;
      gpu_[i].marks |= kVisited;
      any = true;
      if (!read_block(i) || !follow_host()) return false;
    }
    return any && failure_ == LostSearch::kDone;
  }

  bool read_block(std::uint32_t number) {
    const GpuBlock& block = gpu_[number];
    reading_ = number;
    place_ = "memory of the GPU";
    bool done = false;
    if (block.is_in_host_memory()) {
      done = reader_.read({block.begin, block.end, false, true}) == WholeRead::kDone || read_on_device(block);
    } else {
      done = read_on_device(block);
    }
    reading_ = kNone;
    if (!done) failure_ = LostSearch::kDeviceNotRead;
    return done;
  }

  bool read_on_device(const GpuBlock& block) {
    constexpr std::uint64_t kOverlap = sizeof(std::uint64_t) - 1;
    const std::uint64_t bytes = block.end - block.begin;
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t part = bytes - done < DeviceCopies::kMostBytes ? bytes - done : DeviceCopies::kMostBytes;
      if (device_bytes_ + part > kMostDeviceBytes) return false;
      if (!copies_->read(block, done, part, copy_)) {
        copy_in_use_ = copies_->is_stuck();
        return false;
      }
      device_bytes_ += part;
      look_at(copy_, part, block.begin + done);
      done += done + part < bytes ? part - kOverlap : part;
    }
    return true;
  }

  bool all_reached() const {
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
      if ((gpu_[i].marks & kReached) == 0) return false;
    }
    return true;
  }

  bool is_lost(std::uint32_t number) const { return (gpu_[number].marks & kReached) == 0; }

  // Divides lost memory into what nothing refers to, and what only lost memory refers to. Of memory that refers to one
  // another in a circle the first one counts as lost directly.
  bool sort_lost() {
    marks_chunks_ = false;
    mark_ = kReferenced;
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
      if (is_lost(i) && !read_block(i)) return false;
    }
    bool any = false;
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) any = any || (is_lost(i) && (gpu_[i].marks & kReferenced) != 0);
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
      if (!is_lost(i)) continue;
      if ((gpu_[i].marks & kReferenced) == 0) gpu_[i].marks |= kDirectly | (any ? 0 : kVisited);
    }
    return !any || follow_lost();
  }

  bool follow_lost() {
    mark_ = kFollowed;
    for (bool circles : {false, true}) {
      for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
        if (!is_lost(i) || (gpu_[i].marks & kVisited) != 0) continue;
        if (!circles && (gpu_[i].marks & kDirectly) == 0) continue;
        gpu_[i].marks |= kDirectly | kFollowed;
        if (!follow_lost_from()) return false;
      }
    }
    return true;
  }

  // Reads all that is followed and was not read.
  bool follow_lost_from() {
    for (bool again = true; again;) {
      again = false;
      for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
        if (!is_lost(i) || (gpu_[i].marks & (kFollowed | kVisited)) != kFollowed) continue;
        gpu_[i].marks |= kVisited;
        again = true;
        if (!read_block(i)) return false;
      }
    }
    return true;
  }

  void write_lost() {
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
      if (!is_lost(i)) continue;
      const Ref ref = process_.dump.allocate_records(format::ChunkType::kHolders, 1, nullptr);
      if (ref == 0) return;
      auto* record = process_.dump.at<HolderRecord>(ref);
      record->allocation = gpu_[i].allocation;
      record->place = (gpu_[i].marks & kDirectly) != 0 ? format::kNoPointerLeft : format::kOnlyLostPointerLeft;
      __atomic_store_n(&record->state, gpu_[i].state, __ATOMIC_RELEASE);
    }
  }

  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint8_t kFollowed = 16;

  Process& process_;
  const CallerState& caller_;
  GpuBlocks gpu_;
  MemoryMap map_;
  HeapChunks chunks_;
  HeapBlocks blocks_;
  RootRanges roots_;
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
  std::uint32_t reading_ = kNone;  // the block whose content is looked at
  std::uint8_t mark_ = kReached;
  bool marks_chunks_ = true;
  const char* place_ = "a register";  // where pointers are looked for
  LostSearch failure_ = LostSearch::kDone;
};

}  // namespace

void search_lost(Process& process, const CallerState& caller) {
  format::Header* header = process.dump.header();
  if (header->lost_search != LostSearch::kNotRun) return;
  if (!process.options.search_lost) return;
  const std::uint64_t start = clock_ns(CLOCK_MONOTONIC);
  LostSearch end = LostSearch::kGivenUp;
  std::uint64_t bytes = 0;
  int error = 0;
  if (void* memory = map_private(sizeof(LostSearcher), &error)) {
    auto* search = new (memory) LostSearcher(process, caller);
    end = search->run(&bytes);
    search->~LostSearcher();
    unmap_private(memory, sizeof(LostSearcher));
  }
  header->lost_search_bytes = bytes;
  header->lost_search_ns = clock_ns(CLOCK_MONOTONIC) - start;
  store_release(&header->lost_search, process.dump.stopped() ? LostSearch::kGivenUp : end);
}

}  // namespace culprit
