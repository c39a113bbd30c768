#include "interpose/causes/lost_searcher.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "interpose/base/module_name.h"
#include "interpose/causes/device_copies.h"
#include "interpose/causes/driver_records.h"
#include "interpose/causes/held_threads.h"
#include "interpose/causes/kernel_words.h"
#include "interpose/causes/process_facts.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/format/kinds.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/log.h"
#include "interpose/process/process.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/clock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/own_ranges.h"
#include "interpose/system/raw_calls.h"

namespace culprit {

using format::AllocationRecord;
using format::HolderRecord;
using format::LostSearch;
using format::Ref;

namespace {

constexpr std::uint64_t kMostImageBytes = 256 << 20;
constexpr std::uint64_t kMostImageBytesStopped = 16 << 20;  // all threads of the program wait
constexpr std::uint64_t kLongestInCopyNs = 20'000'000'000;
constexpr std::uint64_t kMostBytesToSort = 256 << 20;

// The call does nothing else for MS_ASYNC.
bool is_mapped(std::uint64_t begin, std::uint64_t end) {
  return begin >= end || system_call(SYS_msync, begin, end - begin, MS_ASYNC) != -ENOMEM;
}

// Whether all of a mapping of the process is there in its copy.
bool is_in_copy(const Mapping& mapping, const MemoryMap& map) {
  return is_mapped(mapping.begin, std::min(mapping.end, std::max(mapping.begin, map.text_begin()))) &&
         is_mapped(std::max(mapping.begin, std::min(mapping.end, map.text_end())), mapping.end);
}

}  // namespace

LostSearch LostSearcher::run(HeldThreads* held, std::uint64_t* bytes) {
  if (held != nullptr) know_threads(held->words(), held->count());
  LostSearch end = prepare();
  if (end == LostSearch::kDone) end = search();
  if (held != nullptr && !held->let_go() && end == LostSearch::kDone) end = LostSearch::kThreadsNotStopped;
  if (end == LostSearch::kDone) write_lost();
  *bytes = bytes_read();
  close();
  return end;
}

void LostSearcher::know_threads(const std::uint64_t* words, std::uint64_t count) {
  static_assert(sizeof(MemoryRange) == 2 * sizeof(words[0]));
  const std::uint64_t ranges = count == 0 || words[0] > (count - 1) / 2 ? 0 : words[0];
  roots_.leave_out(reinterpret_cast<const MemoryRange*>(words + 1), ranges);
  const std::uint64_t used = count == 0 ? 0 : 1 + 2 * ranges;
  words_ = words + used;
  word_count_ = count - used;
}

void LostSearcher::freeze(const std::uint64_t* words, std::uint64_t count, std::uint64_t deadline_ns) {
  know_threads(words, count);
  all_mappings_ = before_.read();
  snapshot_.take(process_, gpu_, &variables_, before_, &pointers_, deadline_ns);
}

LostSearch LostSearcher::prepare() {
  switch (gpu_.collect(process_)) {
    case GpuBlocks::Collected::kOthers:
      return LostSearch::kDriverObjects;
    case GpuBlocks::Collected::kNoMemory:
      return LostSearch::kGivenUp;
    case GpuBlocks::Collected::kDone:
      break;
  }
  if (gpu_.size() == 0) return LostSearch::kDone;
  const LostSearch reason = reason_not_to();
  if (reason != LostSearch::kDone) return reason;
  if (device_use_of(process_).has_run_code() &&
      !variables_.collect(process_, frozen_ ? kMostImageBytesStopped : kMostImageBytes))
    return LostSearch::kDeviceCode;
  return collect_objects() ? LostSearch::kDone : LostSearch::kGivenUp;
}

LostSearch LostSearcher::search() {
  if (gpu_.size() == 0) return LostSearch::kDone;
  // Before anything is mapped where memory may be missing.
  LostSearch reason = frozen_ ? reason_of_copy() : LostSearch::kDone;
  if (reason == LostSearch::kDone) reason = open();
  if (reason != LostSearch::kDone) return reason;
  if (!read_roots() || !follow_host()) return failure_;
  if (all_reached()) return LostSearch::kDone;
  if (frozen_) return search_devices();
  const DriverUse use;
  device_deadline_ns_ = clock_ns(CLOCK_MONOTONIC) + longest_search_ns(process_.options) / 2;
  DeviceCopies copies(process_, DeviceCopies::When::kAtExit, device_deadline_ns_);
  copies_ = &copies;
  if (!copies.all_idle()) return LostSearch::kDeviceNotRead;
  return variables_.find() ? search_devices() : LostSearch::kDeviceCode;
}

void LostSearcher::close() {
  roots_.close();
  last_.close();
  blocks_.close();
  chunks_.close();
  gpu_.close();
  reader_.close();
  snapshot_.close();
  pointers_.close();
  variables_.close();
  objects_.release();
  if (queue_ != nullptr) unmap_private(queue_, queue_bytes_);
  if (copy_ != nullptr && !copy_in_use_) unmap_private(copy_, DeviceCopies::kMostBytes);
}

LostSearch LostSearcher::search_devices() {
  if (bytes_to_copy(true) > process_.options.scan_bytes / 2) return LostSearch::kDeviceNotRead;
  if (!read_variables()) return failure_;
  while (follow_gpu()) {
  }
  if (failure_ != LostSearch::kDone || all_reached()) return failure_;
  sort_lost();
  return LostSearch::kDone;
}

LostSearch LostSearcher::reason_not_to() {
  const format::Header& header = *process_.dump.header();
  if (header.attached != format::Attached::kNo || header.stop_reason != format::StopReason::kNone ||
      header.dropped_allocations != 0 || header.dropped_others != 0 || header.handler_calls != 0 ||
      header.left_hooks != 0 || header.lock_timeouts != 0 || header.last_switch_ns != 0 || header.limited_types != 0 ||
      header.unseen_user_count != 0 || header.unknown_frees != 0 ||
      (process_.mode.load(std::memory_order_relaxed) & (kModeOff | kModeSeveralLives | kModeUserThreads)) != 0)
    return LostSearch::kNotAllRecorded;
  if (has_python(process_)) return LostSearch::kPython;
  bool shared = false;
  process_.dump.for_each_record<format::SharingRecord>(format::ChunkType::kSharings,
                                                       [&](const format::SharingRecord&) { shared = true; });
  if (shared) return LostSearch::kShared;
  if (!malloc_is_glibcs()) return LostSearch::kAllocator;
  if (!frozen_ && !destructors_come_later()) return LostSearch::kDestructors;
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

LostSearch LostSearcher::open() {
  if (!map_.read()) return LostSearch::kUnreadable;
  const LostSearch reason = words_ != nullptr ? LostSearch::kDone : reason_of_threads();
  if (reason != LostSearch::kDone) return reason;
  drivers_.add_own_data();
  if (words_ != nullptr) drivers_.add_stopped(words_, word_count_, map_);
  if (!drivers_.knows_registers()) return LostSearch::kUnreadable;
  roots_.leave_out(drivers_.begin(), drivers_.size());
  words_of_libraries_.open(drivers_, map_);
  if (!frozen_) leave_libc();
  if (!chunks_.open() || !blocks_.open(&chunks_.pages(), chunks_.key())) return LostSearch::kGivenUp;
  if (!roots_.collect(map_, frozen_ ? 0 : caller_.stack_pointer(), gpu_, &blocks_)) return LostSearch::kAllocator;
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
    filter_.add(gpu_[i].begin - GpuBlocks::kBefore, gpu_[i].end);
    numbers_.add(gpu_[i].begin, gpu_[i].end);
  }
  blocks_.for_each_range([this](std::uint64_t begin, std::uint64_t end) {
    filter_.add(begin, end);
    numbers_.add(begin, end);
  });
  numbers_.finish();
  int error = 0;
  queue_bytes_ = (std::uint64_t{blocks_.size()} + 1) * sizeof(std::uint32_t);
  queue_ = static_cast<std::uint32_t*>(map_private(queue_bytes_, &error));
  copy_ = static_cast<unsigned char*>(map_private(DeviceCopies::kMostBytes, &error));
  const bool opened = reader_.open(
      process_.options.scan_bytes,
      clock_ns(CLOCK_MONOTONIC) + (frozen_ ? kLongestInCopyNs : longest_search_ns(process_.options)),
      [](void* search, const unsigned char* copy, std::uint64_t bytes, std::uint64_t address) {
        static_cast<LostSearcher*>(search)->look_at(copy, bytes, address);
        static_cast<LostSearcher*>(search)->look_at_numbers(copy, bytes, address);
      },
      this);
  return queue_ != nullptr && copy_ != nullptr && opened ? LostSearch::kDone : LostSearch::kGivenUp;
}

LostSearch LostSearcher::reason_of_threads() {
  return other_threads(map_, &drivers_) == OtherThreads::kNone ? LostSearch::kDone : LostSearch::kThreads;
}

void LostSearcher::leave_libc() {
  PreservedRegisters outside = {};
  const auto is_in_libc = [](std::uint64_t address) {
    struct dl_phdr_info module = {};
    return find_module(address, &module) && is_of_libc(module.dlpi_name);
  };
  if (!find_function_below(is_in_libc, &outside)) return;
  const Mapping* stack = map_.find(caller_.stack_pointer());
  if (stack == nullptr || stack != map_.find(outside.stack_pointer) || outside.stack_pointer < caller_.stack_pointer())
    return;
  std::copy(outside.words, outside.words + PreservedRegisters::kCount, caller_.words);
  caller_.words[CallerState::kStackPointer] = outside.stack_pointer;
}

LostSearch LostSearcher::reason_of_copy() const {
  if (!all_mappings_) return LostSearch::kUnreadable;
  for (const Mapping& mapping : before_) {
    if (mapping.kernel || mapping.nvidia || (mapping.protection & PROT_READ) == 0 || is_in_copy(mapping, before_))
      continue;
    if (!in_own_range(mapping.begin) && !has_memory_in(mapping)) return LostSearch::kUnreadable;
  }
  return LostSearch::kDone;
}

bool LostSearcher::has_memory_in(const Mapping& mapping) const {
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
    if (gpu_[i].begin >= mapping.begin && gpu_[i].begin < mapping.end) return true;
  }
  return false;
}

template <typename Visit>
void LostSearcher::for_each_object(Visit visit) {
  process_.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (is_live_now(record) && !is_memory(record.kind)) visit(record.handle);
  });
  process_.dump.for_each_record<format::ContextRecord>(format::ChunkType::kContexts,
                                                       [&](const format::ContextRecord& record) {
                                                         if (record.state != format::ContextState::kAlive) return;
                                                         visit(record.handle);
                                                         CUmemoryPool pool = nullptr;
                                                         driver().cuDeviceGetDefaultMemPool(&pool, record.device);
                                                         if (pool != nullptr)
                                                           visit(reinterpret_cast<std::uint64_t>(pool));
                                                       });
  code_of(process_).for_each_kernel(visit);
}

bool LostSearcher::collect_objects() {
  const DriverUse use;  // for the default pools and the identities
  ask_identities(&gpu_);
  std::uint64_t count = 0;
  for_each_object([&](std::uint64_t) { ++count; });
  if (!objects_.reserve(count + 1)) return false;
  for_each_object([&](std::uint64_t handle) { objects_.add(handle, 1, 1); });
  return true;
}

void LostSearcher::look_at(const unsigned char* copy, std::uint64_t bytes, std::uint64_t address) {
  filter_.for_each(copy, bytes, [&](std::uint64_t i) {
    std::uint64_t word = 0;
    std::memcpy(&word, copy + i, sizeof(word));
    if (may_be_pointer(word, address + i)) look_at(word & kPointerBits, address + i);
  });
}

void LostSearcher::look_at_numbers(const unsigned char* copy, std::uint64_t bytes, std::uint64_t address) {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  for (std::uint64_t i = (kWord - address % kWord) % kWord; i + kWord <= bytes; i += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, copy + i, sizeof(word));
    numbers_.for_each(word, [&](std::uint64_t number) { look_at_number(number, address + i); });
  }
}

void LostSearcher::look_at_number(std::uint64_t address, std::uint64_t where) {
  gpu_.find(address, [&](std::uint32_t number) {
    if (words_of_libraries_.is_of_parts(where)) return;
    if (mark_ == kReached) gpu_[number].marks |= kElsewhere;
    reach(number, where);
  });
  if (leads_to_begin(address)) mark_block(address, where);
}

bool LostSearcher::may_be_pointer(std::uint64_t word, std::uint64_t where) const {
  if (word <= kPointerBits) return true;
  const std::uint64_t address = word & kPointerBits;
  const bool aligned = where % sizeof(word) == 0;
  if (in_large_) return aligned && leads_to_begin(address);
  // Reading the two is a call of the kernel.
  return aligned || (leads_somewhere(address) && !is_of_two(where));
}

bool LostSearcher::is_of_two(std::uint64_t where) const {
  std::uint64_t words[2] = {};
  if (os.read_own_memory(words, where / sizeof(words[0]) * sizeof(words[0]), sizeof(words)) != sizeof(words))
    return false;
  const auto is_plain = [this](std::uint64_t word) { return word >> 32 == 0 || map_.find(word) != nullptr; };
  return is_plain(words[0]) && is_plain(words[1]);
}

bool LostSearcher::leads_somewhere(std::uint64_t address) const {
  bool leads = marks_chunks_ && blocks_.find(address) != HeapBlocks::kNone;
  gpu_.find(address, [&](std::uint32_t) { leads = true; });
  return leads;
}

bool LostSearcher::leads_to_begin(std::uint64_t address) const {
  bool begins = false;
  gpu_.find(address, [&](std::uint32_t number) { begins = begins || address - gpu_[number].begin < kLowTagBits; });
  if (begins || !marks_chunks_) return begins;
  const std::uint32_t block = blocks_.find(address);
  return block != HeapBlocks::kNone && address - blocks_.begin_of(block) < kLowTagBits;
}

void LostSearcher::look_at(std::uint64_t address, std::uint64_t where) {
  gpu_.find(address, [&](std::uint32_t number) {
    if (words_of_libraries_.is_of_parts(where)) return;
    if (address == gpu_[number].end && words_of_libraries_.is_begin(address, where)) return;
    if (mark_ == kReached) note_place(number, address, where);
    reach(number, where);
  });
  mark_block(address, where);
}

void LostSearcher::mark_block(std::uint64_t address, std::uint64_t where) {
  if (!marks_chunks_) return;
  const std::uint32_t block = blocks_.find(address);
  if (block == HeapBlocks::kNone || objects_.has(address) || objects_.has(blocks_.begin_of(block))) return;
  if (words_of_libraries_.is_of_parts(where)) return;
  if (address == blocks_.end_of(block) && words_of_libraries_.is_begin(address, where)) return;
  if (blocks_.mark(block)) queue_[queued_++] = block;
}

void LostSearcher::note_place(std::uint32_t number, std::uint64_t address, std::uint64_t where) {
  if (!in_roots_ || gpu_[number].begin != address) {
    if (number != reading_) gpu_[number].marks |= kElsewhere;
  } else if (where != 0) {
    last_.note(number, where);
  }
}

void LostSearcher::reach(std::uint32_t number, std::uint64_t where) {
  GpuBlock& block = gpu_[number];
  if (number == reading_ || (block.marks & mark_) != 0) return;
  block.marks |= mark_;
  if (mark_ == kReached) log_pointer(process_.options, block.begin, where, place_);
}

bool LostSearcher::read(const RootRange& range) {
  in_large_ = range.end - range.begin > kMostBytesOfAnyTag;
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

bool LostSearcher::read_roots() {
  last_.open(frozen_, words_, word_count_);
  in_roots_ = true;
  if (!frozen_) {
    for (const std::uint64_t word : caller_.words) look_at(word & kPointerBits, 0);
  }
  place_ = "a root";
  if (!drivers_.for_each_register_list([this](std::uint64_t begin, std::uint64_t end) {
        return read({begin, end, false, true});
      }))
    return false;
  for (const RootRange& range : roots_) {
    if (!read(range)) return false;
  }
  in_roots_ = false;
  return true;
}

bool LostSearcher::follow_host() {
  while (read_ != queued_) {
    const std::uint32_t block = queue_[read_++];
    place_ = "a chunk of malloc";
    if (is_driver_record(blocks_.begin_of(block), blocks_.end_of(block), gpu_, map_)) continue;
    if (!read({blocks_.begin_of(block), blocks_.end_of(block), false, true})) return false;
  }
  return true;
}

bool LostSearcher::read_variables() {
  place_ = "a variable of device code";
  const unsigned char* content = snapshot_.content_of_variables();
  if (frozen_ && content == nullptr && device_use_of(process_).has_run_code()) failure_ = LostSearch::kDeviceNotRead;
  for (std::uint32_t i = 0; i < variables_.size() && failure_ == LostSearch::kDone; ++i) {
    const DeviceVariable& variable = variables_[i];
    const bool done =
        look_at_device(content, variable.bytes, variable.begin, [&](std::uint64_t offset, std::uint64_t bytes) {
          return copies_->read(variable.context, variable.begin + offset, bytes, copy_);
        });
    if (!done) failure_ = LostSearch::kDeviceNotRead;
    if (frozen_) content += variable.bytes;
  }
  return failure_ == LostSearch::kDone && follow_host();
}

bool LostSearcher::follow_gpu() {
  bool any = false;
  for (std::uint32_t i = 0; i < gpu_.size() && failure_ == LostSearch::kDone; ++i) {
    if ((gpu_[i].marks & (kReached | kVisited)) != kReached) continue;
    gpu_[i].marks |= kVisited;
    any = true;
    if (!read_block(i) || !follow_host()) return false;
  }
  return any && failure_ == LostSearch::kDone;
}

bool LostSearcher::read_block(std::uint32_t number) {
  const GpuBlock& block = gpu_[number];
  reading_ = number;
  place_ = "memory of the GPU";
  // Pinned memory, too: the kernel tells neither which of its pages have data nor their content (VM_PFNMAP).
  const bool done = read_on_device(block);
  reading_ = kNone;
  if (!done) failure_ = LostSearch::kDeviceNotRead;
  return done;
}

bool LostSearcher::read_on_device(const GpuBlock& block) {
  if (pointers_.knows(reading_)) {
    follow_pointers(block);
    return true;
  }
  return look_at_device(
      snapshot_.content_of(reading_), block.end - block.begin, block.begin,
      [&](std::uint64_t offset, std::uint64_t bytes) { return copies_->read(block, offset, bytes, copy_); });
}

void LostSearcher::follow_pointers(const GpuBlock& block) {
  device_bytes_ += block.end - block.begin;
  pointers_.for_each_in(
      reading_,
      [&](std::uint32_t number) {
        if (mark_ == kReached) gpu_[number].marks |= kElsewhere;
        reach(number, block.begin);
      },
      [&](std::uint64_t address, bool to_begin) {
        if (to_begin && !leads_to_begin(address)) return;
        look_at(address, block.begin);
      });
}

template <typename Copy>
bool LostSearcher::look_at_device(const unsigned char* content, std::uint64_t bytes, std::uint64_t address, Copy copy) {
  constexpr std::uint64_t kOverlap = sizeof(std::uint64_t) - 1;
  in_large_ = bytes > kMostBytesOfAnyTag;
  if (frozen_) {
    if (content == nullptr) return false;
    device_bytes_ += bytes;
    look_at(content, bytes, address);
    return true;
  }
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t part = std::min(bytes - done, DeviceCopies::kMostBytes);
    if (device_bytes_ + part > process_.options.scan_bytes / 2 || clock_ns(CLOCK_MONOTONIC) > device_deadline_ns_)
      return false;
    if (!copy(done, part)) {
      copy_in_use_ = copies_->is_stuck();
      return false;
    }
    device_bytes_ += part;
    look_at(copy_, part, address + done);
    done += done + part < bytes ? part - kOverlap : part;
  }
  return true;
}

std::uint64_t LostSearcher::bytes_to_copy(bool reached) {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  const auto count = [&] {
    bytes = blocks = 0;
    for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
      if (is_lost(i) == reached || pointers_.knows(i)) continue;
      bytes += gpu_[i].end - gpu_[i].begin;
      ++blocks;
    }
  };
  count();
  if (frozen_ || !DeviceSnapshot::takes_long(blocks, bytes) || tried_pointers_) return bytes;
  tried_pointers_ = true;
  pointers_.take(process_, gpu_, map_, true, device_deadline_ns_);
  count();
  return bytes;
}

bool LostSearcher::all_reached() const {
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
    if ((gpu_[i].marks & kReached) == 0) return false;
  }
  return true;
}

void LostSearcher::sort_lost() {
  marks_chunks_ = false;
  mark_ = kReferenced;
  if (bytes_to_copy(false) <= kMostBytesToSort && read_lost() && follow_lost()) return;
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
    if (is_lost(i)) gpu_[i].marks |= kDirectly;
  }
  failure_ = LostSearch::kDone;
}

// Reads what is lost, for what it refers to.
bool LostSearcher::read_lost() {
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
    if (is_lost(i) && !read_block(i)) return false;
  }
  bool any = false;
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) any = any || (is_lost(i) && (gpu_[i].marks & kReferenced) != 0);
  for (std::uint32_t i = 0; i < gpu_.size(); ++i) {
    if (!is_lost(i)) continue;
    if ((gpu_[i].marks & kReferenced) == 0) gpu_[i].marks |= kDirectly | (any ? 0 : kVisited);
  }
  return true;
}

bool LostSearcher::follow_lost() {
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

bool LostSearcher::follow_lost_from() {
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

void LostSearcher::write_lost() {
  for_each_lost([this](const GpuBlock& block, std::uint64_t place) {
    const Ref ref = process_.dump.allocate_records(format::ChunkType::kHolders, 1, nullptr);
    if (ref == 0) return;
    auto* record = process_.dump.at<HolderRecord>(ref);
    record->allocation = block.allocation;
    record->place = place;
    __atomic_store_n(&record->state, block.state, __ATOMIC_RELEASE);
  });
  for_each_last([this](const format::LastHolderRecord& found) {
    const Ref ref = process_.dump.allocate_records(format::ChunkType::kLastHolders, 1, nullptr);
    if (ref == 0) return;
    auto* record = process_.dump.at<format::LastHolderRecord>(ref);
    format::LastHolderRecord unseen = found;
    unseen.state = 0;
    *record = unseen;
    __atomic_store_n(&record->state, found.state, __ATOMIC_RELEASE);
  });
}

}  // namespace culprit
