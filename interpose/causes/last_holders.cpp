#include "interpose/causes/last_holders.h"

#include <sys/syscall.h>

#include <algorithm>
#include <iterator>

#include "interpose/causes/stopped_threads.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/raw_calls.h"

namespace culprit {

using format::AllocationRecord;
using format::LastHolderRecord;
using format::StackRecord;

namespace {

#if defined(__x86_64__)
ucontext_t context_of(const format::StoppedThread& thread) {
  ucontext_t context = {};
  const auto set = [&](int number, std::uint64_t value) {
    context.uc_mcontext.gregs[number] = static_cast<greg_t>(value);
  };
  set(REG_RIP, thread.instruction_pointer);
  set(REG_RSP, thread.stack_pointer);
  set(REG_RBP, thread.frame_pointer);
  constexpr int kPreserved[] = {REG_RBX, REG_R12, REG_R13, REG_R14, REG_R15};
  for (std::size_t i = 0; i < std::size(kPreserved); ++i) set(kPreserved[i], thread.preserved[i]);
  return context;
}
#else
ucontext_t context_of(const format::StoppedThread&) { return {}; }  // processes are not stopped there
#endif

bool is_in_data(std::uint64_t address) {
  struct dl_phdr_info module;
  if (!find_module(address, &module)) return false;
  bool found = false;
  for_each_data_range(
      module, [&](std::uint64_t begin, std::uint64_t end) { found = found || (address >= begin && address < end); });
  return found;
}

}  // namespace

void LastHolders::open(bool in_copy, const std::uint64_t* words, std::uint64_t count) {
  in_copy_ = in_copy;
  if (words != nullptr)
    registers_ = {reinterpret_cast<std::uint64_t>(words), reinterpret_cast<std::uint64_t>(words + count)};
  const StoppedThreads stopped(words, words != nullptr ? count : 0);
  notes_ = map_items<Note>(kMostNotes);
  frames_ = map_items<WalkedFrame>(kMostFrames);
  threads_bytes_ = (stopped.size() + 1) * sizeof(Thread);
  threads_ = map_items<Thread>(stopped.size() + 1);
  if (notes_ == nullptr || frames_ == nullptr || threads_ == nullptr) return;
  if (!in_copy_) walk(static_cast<std::uint32_t>(system_call(SYS_gettid)), nullptr);
  for (std::uint64_t i = 0; i < stopped.size(); ++i) {
    const format::StoppedThread thread = stopped[i];
    ucontext_t context = context_of(thread);
    walk(static_cast<std::uint32_t>(thread.thread), &context);
  }
}

void LastHolders::close() {
  if (notes_ != nullptr) unmap_private(notes_, kMostNotes * sizeof(Note));
  if (frames_ != nullptr) unmap_private(frames_, kMostFrames * sizeof(WalkedFrame));
  if (threads_ != nullptr) unmap_private(threads_, threads_bytes_);
  if (lines_ != nullptr) unmap_private(lines_, lines_bytes_);
  notes_ = nullptr;
  frames_ = nullptr;
  threads_ = nullptr;
  lines_ = nullptr;
}

void LastHolders::walk(std::uint32_t number, ucontext_t* registers) {
  const int count = walk_frames(registers, frames_ + frame_count_, kMostFrames - frame_count_);
  threads_[thread_count_++] = {number, frame_count_, count};
  frame_count_ += count;
}

void LastHolders::note(std::uint32_t number, std::uint64_t where) {
  if (notes_ == nullptr) return;
  if (note_count_ == kMostNotes) {
    is_full_ = true;
  } else {
    notes_[note_count_++] = {where, number};
  }
}

bool LastHolders::open_lines(std::uint64_t count) {
  lines_bytes_ = (count + 1) * sizeof(Line);
  lines_ = map_items<Line>(count + 1);
  return lines_ != nullptr;
}

format::Ref LastHolders::stack_of(const GpuBlock& block) const {
  return process_.dump.at<AllocationRecord>(block.allocation)->stack;
}

void LastHolders::add_lost(const GpuBlock& block) {
  const format::Ref stack = stack_of(block);
  if (stack != 0) lines_[line_count_++] = {stack, 0, 0};
}

void LastHolders::sort_lines() {
  std::sort(lines_, lines_ + line_count_, [](const Line& one, const Line& other) { return one.stack < other.stack; });
  const Line* end = std::unique(lines_, lines_ + line_count_,
                                [](const Line& one, const Line& other) { return one.stack == other.stack; });
  line_count_ = static_cast<std::uint32_t>(end - lines_);
}

void LastHolders::sort_notes() {
  std::sort(notes_, notes_ + note_count_, [](const Note& one, const Note& other) {
    return one.block != other.block ? one.block < other.block : one.where < other.where;
  });
}

const LastHolders::Note* LastHolders::first_note(std::uint32_t block) const {
  return std::lower_bound(notes_, notes_ + note_count_, block,
                          [](const Note& one, std::uint32_t wanted) { return one.block < wanted; });
}

void LastHolders::add_left(const GpuBlock& block, std::uint32_t number) {
  const format::Ref stack = stack_of(block);
  Line* line = std::lower_bound(lines_, lines_ + line_count_, stack,
                                [](const Line& one, format::Ref wanted) { return one.stack < wanted; });
  if (line == lines_ + line_count_ || line->stack != stack) return;
  ++line->left;
  line->last = number;
}

LastHolders::Place LastHolders::place_of(std::uint64_t where, const GpuBlock& block, LastHolderRecord* found) {
  // The registers of the other threads: what they have lies in a variable, too, or is a copy.
  if (where >= registers_.begin && where < registers_.end) return Place::kCopy;
  int frame = 0;
  if (const Thread* thread = find_frame_at(where, &frame)) {
    const WalkedFrame& one = frames_[thread->first + frame];
    if (!is_in_stack_of(block, *thread, frame, &found->depth)) return Place::kCopy;
    found->place = in_copy_ ? one.address : process_.stacks.modules.frame_of(one.address);
    found->offset = static_cast<std::int64_t>(where - one.cfa);
    return Place::kFrame;
  }
  if (!is_in_data(where)) return Place::kElsewhere;
  if (!in_copy_) return Place::kElsewhere;
  found->place = where;
  return Place::kData;
}

// The smallest frame there: one whose caller is on another stack spans everything between the two.
const LastHolders::Thread* LastHolders::find_frame_at(std::uint64_t where, int* frame) const {
  const Thread* found = nullptr;
  std::uint64_t smallest = ~std::uint64_t{0};
  for (const Thread* thread = threads_; thread != threads_ + thread_count_; ++thread) {
    for (int i = 0; i < thread->count; ++i) {
      const WalkedFrame& one = frames_[thread->first + i];
      if (where < one.stack_pointer || where >= one.cfa || one.cfa - one.stack_pointer >= smallest) continue;
      smallest = one.cfa - one.stack_pointer;
      found = thread;
      *frame = i;
    }
  }
  return found;
}

// Whether the function of a frame made the call, perhaps by others, that allocated the block: all outer frames are the
// same. That it is the same function is for the reader to find out.
bool LastHolders::is_in_stack_of(const GpuBlock& block, const Thread& thread, int frame, std::uint32_t* depth) const {
  const auto* record = process_.dump.at<AllocationRecord>(block.allocation);
  const format::ThreadRecord* maker = process_.tables.threads.record(record->thread, process_.dump);
  if (maker == nullptr || maker->tid != thread.number || record->stack == 0) return false;
  const auto* stack = process_.dump.at<StackRecord>(record->stack);
  const auto* frames = reinterpret_cast<const std::uint64_t*>(stack + 1);
  if ((stack->flags & (format::kStackTruncated | format::kStackMerged)) != 0) return false;
  std::uint32_t left = stack->frame_count;
  for (int outer = thread.count - 1; outer >= frame; --outer) {
    // Python frames are not those of functions.
    while (left != 0 &&
           (frames[left - 1] >> format::kFrameModuleShift & format::kFrameModuleMask) == format::kPythonModule)
      --left;
    if (left == 0) return false;
    const std::uint64_t called = frames[--left];
    if (outer == frame) break;
    if ((called & format::kFrameExact) != 0 ||
        process_.stacks.modules.address_of(called) != frames_[thread.first + outer].address)
      return false;
  }
  *depth = static_cast<std::uint32_t>(thread.count - frame);
  return true;
}

}  // namespace culprit
