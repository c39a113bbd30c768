#include "report/attach/other_threads.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "interpose/format/exit_stops.h"
#include "report/attach/borrowed_thread.h"
#include "report/attach/registers.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{20};    // for one thread to stop, and for all
constexpr std::uint64_t kRedZone = 128;  // below the stack pointer, in use

void append(const std::vector<unsigned char>& bytes, std::vector<std::uint64_t>* words) {
  const std::size_t before = words->size();
  words->resize(before + (bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (!bytes.empty()) std::memcpy(words->data() + before, bytes.data(), bytes.size());
}

}  // namespace

OtherThreads::OtherThreads(const TracedProcess& process, pid_t beside, SafePointFinder* finder, StopWaiter* waiter)
    : process_(process),
      beside_(beside),
      finder_(*finder),
      waiter_(waiter),
      first_(first_stack(process)),
      calls_(process) {
  for (const MappedRange& range : process.mappings()) {
    const bool is_libc = range.file_begins_with("libc.so.6") || range.file_begins_with("libc-2");
    if (range.executable && is_libc) libc_.push_back(range);
  }
}

void OtherThreads::note_borrowed(const BorrowedThread& borrowed, std::uint64_t stack_floor) {
  const BorrowedThread::Memory memory = borrowed.call_memory();
  ranges_.push_back(memory.begin);
  ranges_.push_back(memory.begin + memory.size);
  note_stack(stack_floor, stack_pointer(borrowed.own_registers()));
  note_registers(borrowed.thread(), borrowed.own_registers());
}

OtherThreads::~OtherThreads() {
  for (const pid_t thread : stopped_) BorrowedThread::release(thread);
}

std::uint64_t OtherThreads::most_words(const TracedProcess& process) {
  return (process.threads().size() + 8) * format::kWordsOfStoppedThread;
}

void OtherThreads::note_stack(std::uint64_t floor, std::uint64_t pointer) {
  const std::uint64_t end = (pointer - kRedZone) / sizeof(std::uint64_t) * sizeof(std::uint64_t);
  if (floor == 0 || pointer < kRedZone || end <= floor) return;
  ranges_.push_back(floor);
  ranges_.push_back(end);
}

// No vector register outlives a call, by the ABI: what they have in a system call of libc is left of work before it.
void OtherThreads::note_registers(pid_t thread, const ThreadRegisters& registers) {
  const std::size_t before = registers_.size();
  append(registers.general, &registers_);
  if (!is_in_call_of_libc(registers)) append(registers.vector, &registers_);
  format::StoppedThread stopped = stopped_at(registers);
  stopped.register_words = registers_.size() - before;
  stopped.thread = innermost_number(process_.thread(thread));
  std::vector<unsigned char> bytes(sizeof(stopped));
  std::memcpy(bytes.data(), &stopped, sizeof(stopped));
  append(bytes, &threads_);
}

bool OtherThreads::would_be_cut(pid_t thread, const ThreadCall& call) {
  if (call.running || !BlockingCalls::moves_parts(call.number) || calls_.effect(call) != StopEffect::kSeen)
    return false;
  where_ = "thread " + std::to_string(thread) + " in " + BlockingCalls::name(call.number) + ", which a stop would cut";
  return true;
}

// Calls with a time-out that the kernel does not continue are made again, with all of it.
OtherThreads::Stopped OtherThreads::stop(pid_t thread) {
  ThreadCall call = process_.thread(thread).current_call();
  if (!call.running && call.number >= 0) call.number = calls_.number(call);
  if (would_be_cut(thread, call)) return Stopped::kNotNow;
  const KeptRemainder remainder(process_, call.running ? 0 : calls_.remainder_at(call));
  switch (BorrowedThread::stop(process_, thread, waiter_, after(kPatience))) {
    case BorrowedThread::Stop::kGone:
      return Stopped::kDone;
    case BorrowedThread::Stop::kBusy:
      where_ = "thread " + std::to_string(thread) + " in the kernel, which does not let it stop";
      return Stopped::kNotAtAll;
    case BorrowedThread::Stop::kGroupStopped:
      BorrowedThread::release(thread);
      throw AttachError(process_.name() + " was stopped meanwhile: continue it first (kill -CONT " +
                        std::to_string(process_.pid()) + ")");
    case BorrowedThread::Stop::kStopped:
      break;
  }
  remainder.put_back(process_);
  StackWalk walk;
  ThreadRegisters registers;
  if (!is_safe(thread, &walk) || !read_registers(thread, &registers)) {
    BorrowedThread::release(thread);
    return Stopped::kNotNow;
  }
  stopped_.push_back(thread);
  const std::uint64_t pointer = stack_pointer(registers);
  note_stack(stack_floor(process_, thread_pointer(registers), pointer, walk, first_).value_or(0), pointer);
  note_registers(thread, registers);
  return Stopped::kDone;
}

bool OtherThreads::is_in_call_of_libc(const ThreadRegisters& registers) const {
  ThreadCall call;
  if (!entered_call(registers, &call)) return false;
  return std::any_of(libc_.begin(), libc_.end(),
                     [&](const MappedRange& range) { return range.contains(call.instruction_pointer); });
}

// A stack whose outer frames are not known is safe if an inner one was looked at: malloc and the driver are innermost.
bool OtherThreads::is_safe(pid_t thread, StackWalk* walk) {
  std::string found;
  const SafePoint point = finder_.look_at(thread, &found, walk);
  if (point == SafePoint::kSafe || (point == SafePoint::kUnknown && walk->outermost != 0)) return true;
  if (point == SafePoint::kUnsafe && finder_.is_drivers_own(thread)) return true;
  where_ = "thread " + std::to_string(thread) + " in " + (found.empty() ? "a place that is not known" : found);
  return false;
}

bool OtherThreads::stop_all() {
  const Deadline end = after(kPatience);
  // A thread that runs may start others.
  for (bool any = true; any;) {
    any = false;
    for (const pid_t thread : process_.threads()) {
      if (thread == beside_ || std::find(stopped_.begin(), stopped_.end(), thread) != stopped_.end()) continue;
      const std::size_t before = stopped_.size();
      // One that is in malloc leaves it soon: the others, which are stopped, hold no lock that it waits for.
      for (Stopped result = stop(thread); result != Stopped::kDone; result = stop(thread)) {
        if (result == Stopped::kNotAtAll || std::chrono::steady_clock::now() > end) return false;
        waiter_->pause(milliseconds(0));
      }
      any = any || stopped_.size() != before;
    }
  }
  return true;
}

std::vector<std::uint64_t> OtherThreads::words() const {
  std::vector<std::uint64_t> all = {ranges_.size() / 2};
  all.insert(all.end(), ranges_.begin(), ranges_.end());
  all.push_back(threads_.size() * sizeof(threads_[0]) / sizeof(format::StoppedThread));
  all.insert(all.end(), threads_.begin(), threads_.end());
  all.insert(all.end(), registers_.begin(), registers_.end());
  return all;
}

}  // namespace culprit::report
