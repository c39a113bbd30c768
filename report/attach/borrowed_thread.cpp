#include "report/attach/borrowed_thread.h"

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "report/attach/ptrace_stops.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kStackBytes = 512 * 1024;
constexpr std::uint64_t kRedZone = 128;       // below the stack pointer; functions may use it
constexpr std::uint64_t kLeftOfStack = 4096;  // must remain at least, below the frame on the thread's own stack

// PTRACE_GET_RSEQ_CONFIGURATION (Linux 5.13), missing in the headers of older libcs.
constexpr int kGetRseqConfiguration = 0x420f;
struct RseqConfiguration {
  std::uint64_t place;
  std::uint32_t size, signature, flags, padding;
};

// PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG (Linux 6.4).
constexpr int kGetDispatchConfiguration = 0x4211;
struct DispatchConfiguration {
  std::uint64_t mode;      // 0: there is no dispatch
  std::uint64_t selector;  // the address of a byte; 0: none
  std::uint64_t begin, size;
};
constexpr unsigned char kSelectorAllows = 0;

std::string why_no_memory(std::int64_t error) {
  if (error <= 0) return " did not make the call for memory that was put into it";
  const std::string text =
      " gave no memory for the injection (" + std::string(std::strerror(static_cast<int>(error))) + ")";
  if (error == EAGAIN) return text + ": it locks its memory, and may not lock more (ulimit -l)";
  if (error == ENOMEM) return text + ": its addresses, its mappings or the machine's memory are used up";
  return text;
}

}  // namespace

BorrowedThread::Stop BorrowedThread::stop(const TracedProcess& process, pid_t thread, StopWaiter* waiter,
                                          Deadline deadline) {
  // For a thread that is ending, the error is the same as for one that must not be traced, and for a moment it is still
  // listed. So try again for a while.
  for (int tries = 0; trace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) != 0; ++tries) {
    const int error = errno;
    // The number of a thread of ours that has become another one's: of the thread that called exec.
    if (process.tracer_of(thread) == ::getpid()) break;
    const std::vector<pid_t> alive = process.threads();
    if (error == ESRCH || std::find(alive.begin(), alive.end(), thread) == alive.end()) return Stop::kGone;
    if (tries == 50) process.explain_refusal(error);
    waiter->pause(std::chrono::milliseconds(2));
  }
  return stop_seized(process, thread, waiter, deadline);
}

BorrowedThread::Stop BorrowedThread::stop_seized(const TracedProcess& process, pid_t thread, StopWaiter* waiter,
                                                 Deadline deadline) {
  trace(PTRACE_INTERRUPT, thread, 0, 0);
  while (true) {
    int status = 0;
    switch (waiter->wait(thread, deadline, &status)) {
      case StopWaiter::Event::kGone:
        return Stop::kGone;
      case StopWaiter::Event::kTimeout:
        waiter->let_go_later(thread);
        return Stop::kBusy;
      case StopWaiter::Event::kStopped:
        break;
    }
    if (is_group_stop(status)) return Stop::kGroupStopped;
    if (is_trap_of_ours(status)) break;
    // Another signal came first: pass it on to the program.
    trace(PTRACE_CONT, thread, 0, static_cast<std::uint64_t>(WSTOPSIG(status)));
  }
  repeat_call(process, thread);
  return Stop::kStopped;
}

void BorrowedThread::release(pid_t thread) { trace(PTRACE_DETACH, thread, 0, 0); }

bool BorrowedThread::in_restartable_sequence(const TracedProcess& process, pid_t thread) {
  RseqConfiguration found = {};
  if (trace(kGetRseqConfiguration, thread, sizeof(found), reinterpret_cast<std::uint64_t>(&found)) <= 0 ||
      found.place == 0)
    return false;
  std::uint64_t sequence = 0;  // field rseq_cs of struct rseq
  return process.read_memory(found.place + 8, &sequence, sizeof(sequence)) && sequence != 0;
}

bool BorrowedThread::dispatches_calls(const TracedProcess& process, pid_t thread) {
  DispatchConfiguration found = {};
  if (trace(kGetDispatchConfiguration, thread, sizeof(found), reinterpret_cast<std::uint64_t>(&found)) != 0 ||
      found.mode == 0)
    return false;
  unsigned char selector = kSelectorAllows;
  return found.selector == 0 || !process.read_memory(found.selector, &selector, sizeof(selector)) ||
         selector != kSelectorAllows;
}

BorrowedThread::BorrowedThread(const TracedProcess& process, pid_t thread, const ReturnCode& code, StopWaiter* waiter)
    : process_(process), thread_(thread), code_(code), waiter_(waiter) {
  if (!read_registers(thread, &before_) ||
      trace(PTRACE_GETSIGMASK, thread, sizeof(signal_mask_), reinterpret_cast<std::uint64_t>(&signal_mask_)) != 0) {
    const int error = errno;
    release(thread);
    throw AttachError("the registers of thread " + std::to_string(thread) + " cannot be read: " + std::strerror(error));
  }
}

bool BorrowedThread::resume(std::uint64_t signal_number) {
  return trace(follows_calls_ ? PTRACE_SYSCALL : PTRACE_CONT, thread_, 0, signal_number) == 0;
}

// Puts the return frame on the thread's own stack, if its bounds are known and there is room.
void BorrowedThread::find_own_stack() {
  const std::uint64_t top = stack_pointer(before_) - kRedZone;
  std::uint64_t begin = 0;
  const std::vector<unsigned char> frame = return_frame(before_, signal_mask_, code_, top, &begin);
  if (stack_floor_ == 0 || begin < stack_floor_ + kLeftOfStack) return;
  own_bytes_.resize(frame.size());
  if (!read(begin, own_bytes_.data(), own_bytes_.size()) || !process_.write_memory(begin, frame.data(), frame.size()))
    return;
  own_bytes_at_ = begin;
  own_stack_ = begin + sizeof(std::uint64_t);  // the system call instruction is followed by a return
}

// The next stop other than a stop or continuation of the whole process. False: out of time, or the thread is gone.
bool BorrowedThread::next_stop(Deadline deadline, int* status) {
  while (true) {
    switch (waiter_->wait(thread_, deadline, status)) {
      case StopWaiter::Event::kGone:
        gone_ = has_ended_ = true;
        return false;
      case StopWaiter::Event::kTimeout:
        return false;
      case StopWaiter::Event::kStopped:
        break;
    }
    if (!is_group_stop(*status)) return true;
    if (!resume()) return false;
  }
}

bool BorrowedThread::inject_system_call(long number, const std::vector<std::uint64_t>& arguments, Deadline deadline,
                                        std::int64_t* result) {
  ThreadRegisters registers;
  int status = 0;
  if (!read_general_registers(thread_, &registers)) return false;
  const bool entering = at_ == At::kEntry;
  registers = system_call_registers(entering ? registers : before_, code_, number, arguments,
                                    own_stack_ != 0 ? own_stack_ : stack_pointer(before_), entering);
  if (!write_registers(thread_, registers)) return false;
  set_mask(mask_in_call() | bit_of(kOfUsers));
  if (!resume()) return false;
  at_ = At::kNowhere;  // until it has stopped again: after a timeout it runs, and restore() has to stop it first
  for (int stops = entering ? 1 : 2; stops > 0; --stops) {
    while (true) {
      if (!next_stop(deadline, &status)) return false;
      if (is_system_call(status)) break;
      const SignalOrigin origin = origin_of_signal(status, &crash_);
      if (origin == SignalOrigin::kFault) return at_ = At::kStart, false;
      if (!resume(signal_to_resume_with(status, origin))) return false;
    }
    if (stops > 1 && !resume()) return false;
  }
  at_ = At::kExit;
  if (!read_general_registers(thread_, &registers)) return false;
  *result = system_call_result(registers);
  return true;
}

// Keeps handlers of the program from running in the middle of a call.
std::uint64_t BorrowedThread::mask_in_call() const {
  std::uint64_t mask = ~bit_of(kOfUsers) | signal_mask_;
  for (const int number : kOfInstructions) mask &= ~bit_of(number) | signal_mask_;
  return mask;
}

std::uint64_t BorrowedThread::mask() const {
  std::uint64_t mask = signal_mask_;
  trace(PTRACE_GETSIGMASK, thread_, sizeof(mask), reinterpret_cast<std::uint64_t>(&mask));
  return mask;
}

void BorrowedThread::set_mask(std::uint64_t mask) {
  trace(PTRACE_SETSIGMASK, thread_, sizeof(mask), reinterpret_cast<std::uint64_t>(&mask));
}

// For a stop for a signal of instructions. `fault` receives the description of a fault.
SignalOrigin BorrowedThread::origin_of_signal(int status, std::string* fault) const {
  if (!is_signal(status) || !is_of_instruction(WSTOPSIG(status))) return SignalOrigin::kSent;
  siginfo_t info = {};
  ThreadRegisters registers;
  if (trace(PTRACE_GETSIGINFO, thread_, 0, reinterpret_cast<std::uint64_t>(&info)) != 0 ||
      !read_general_registers(thread_, &registers))
    return SignalOrigin::kSent;
  if (goes_on_behind(info, &registers)) return SignalOrigin::kPassed;
  const SignalOrigin origin = origin_of(process_, info, registers);
  if (origin == SignalOrigin::kFault) *fault = describe_fault(process_, info, registers);
  return origin;
}

// Whether the call has stored into memory that is not there any more, and knows how to go on.
bool BorrowedThread::goes_on_behind(const siginfo_t& info, ThreadRegisters* registers) const {
  if (info.si_code <= 0 || (info.si_signo != SIGSEGV && info.si_signo != SIGBUS)) return false;
  const std::uint64_t instruction = instruction_pointer(*registers);
  const auto found = std::find_if(fault_table_.begin(), fault_table_.end(),
                                  [&](const format::FaultEntry& entry) { return entry.instruction == instruction; });
  if (found == fault_table_.end()) return false;
  set_instruction_pointer(registers, found->next);
  return write_registers(thread_, *registers);
}

// Whether a thread that runs without stops has ended its call.
bool BorrowedThread::has_finished() const {
  std::uint32_t done = 0;
  return finished_at_ != 0 && read(finished_at_, &done, sizeof(done)) && done != 0;
}

// ... has then waited in vain, and resumed its own work.
bool BorrowedThread::is_in_own_work() const {
  ThreadRegisters registers;
  return has_finished() && read_general_registers(thread_, &registers) &&
         stack_pointer(registers) - memory_ >= memory_size_;
}

// At a stop for a signal that is no fault, the signal to resume with. SIGSTOP must reach the process. A signal that
// was sent waits until the call has ended: once it is blocked, the kernel queues it again as it was. So it is delivered
// even if this process is killed meanwhile. The handler of a trapped system call must run, because it makes the call.
std::uint64_t BorrowedThread::signal_to_resume_with(int status, SignalOrigin origin) {
  if (!is_signal(status) || origin == SignalOrigin::kPassed) return 0;
  const int number = WSTOPSIG(status);
  if (number == SIGSTOP || number == kOfUsers || is_in_own_work()) return static_cast<std::uint64_t>(number);
  if (!is_of_instruction(number)) return 0;
  if (origin != SignalOrigin::kTrapped) set_mask(mask() | bit_of(number));
  return static_cast<std::uint64_t>(number);
}

void BorrowedThread::map_memory(std::uint64_t size, Deadline deadline) {
  find_own_stack();
  // The choice of the thread may have used up the time.
  deadline = std::max(deadline, after(kShort));
  const std::uint64_t total = (size + kStackBytes + 4095) & ~std::uint64_t{4095};
  std::int64_t result = 0;
  if (!inject_system_call(mmap_number(),
                          {0, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~std::uint64_t{0}, 0},
                          deadline, &result) ||
      (result < 0 && result > -4096)) {
    const bool gone = gone_;
    restore();
    throw AttachError(gone ? process_.name() + " has ended" : process_.name() + why_no_memory(-result));
  }
  memory_ = static_cast<std::uint64_t>(result);
  memory_size_ = total;
  const std::vector<unsigned char> frame =
      return_frame(before_, signal_mask_, code_, memory_ + memory_size_, &stack_begin_);
  write(stack_begin_, frame.data(), frame.size());
}

void BorrowedThread::write(std::uint64_t address, const void* data, std::size_t size) {
  if (!process_.write_memory(address, data, size))
    throw AttachError("the memory of " + process_.name() + " cannot be written: " + std::strerror(errno));
}

bool BorrowedThread::read(std::uint64_t address, void* data, std::size_t size) const {
  return process_.read_memory(address, data, size);
}

std::string BorrowedThread::read_text(std::uint64_t address) const {
  std::string text;
  char c = 0;
  while (text.size() < 4096 && read(address + text.size(), &c, 1) && c != '\0') text += c;
  return text;
}

void BorrowedThread::keep_errno(std::uint64_t address) {
  if (read(address, &errno_before_, sizeof(errno_before_))) errno_at_ = address;
}

// The thread is in a stop at which the kernel handles signals. After each step it could still resume by itself. The
// mask comes first, because the return from the frame sets the same mask.
void BorrowedThread::restore_stopped() {
  if (errno_at_ != 0) process_.write_memory(errno_at_, &errno_before_, sizeof(errno_before_));
  set_mask(signal_mask_);
  write_registers(thread_, before_);
  if (own_stack_ != 0) process_.write_memory(own_bytes_at_, own_bytes_.data(), own_bytes_.size());
  trace(PTRACE_DETACH, thread_, 0, 0);
}

bool BorrowedThread::restore() {
  if (gone_) return false;
  gone_ = true;  // in any case, so that it is not done twice
  std::int64_t result = 0;
  if (left_by_other_.size != 0)
    inject_system_call(munmap_number(), {left_by_other_.begin, left_by_other_.size}, after(kLong), &result);
  if (memory_ != 0) inject_system_call(munmap_number(), {memory_, memory_size_}, after(kLong), &result);
  if (at_ != At::kStart) {
    // From a stop at a system call to one at which the kernel handles signals. There an interrupted system call can be
    // continued with all its state in the kernel.
    trace(PTRACE_INTERRUPT, thread_, 0, 0);
    trace(PTRACE_CONT, thread_, 0, 0);
    int status = 0;
    do {
      const StopWaiter::Event event = waiter_->wait(thread_, after(kLong), &status);
      if (event == StopWaiter::Event::kTimeout) waiter_->let_go_later(thread_);
      if (event != StopWaiter::Event::kStopped) return false;
      if (!is_trap_of_ours(status))
        trace(PTRACE_CONT, thread_, 0, signal_to_resume_with(status, origin_of_signal(status, &crash_)));
    } while (!is_trap_of_ours(status));
  }
  restore_stopped();
  return true;
}

}  // namespace culprit::report
