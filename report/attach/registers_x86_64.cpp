#include <cpuid.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "report/attach/registers.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostVectorState = 65536;

user_regs_struct general(const ThreadRegisters& registers) {
  user_regs_struct general = {};
  std::memcpy(&general, registers.general.data(), std::min(sizeof(general), registers.general.size()));
  return general;
}

ThreadRegisters with_general(const ThreadRegisters& registers, const user_regs_struct& general) {
  ThreadRegisters result = registers;
  result.general.resize(sizeof(general));
  std::memcpy(result.general.data(), &general, sizeof(general));
  return result;
}

// Results of an interrupted system call that is to be repeated, seen only by the kernel (linux/errno.h).
constexpr long long kRestartSys = 512, kRestartNoIntr = 513, kRestartNoHandler = 514, kRestartBlock = 516;

bool is_to_be_made_again(const user_regs_struct& general) {
  const auto result = static_cast<long long>(general.rax);
  return static_cast<long long>(general.orig_rax) >= 0 && (result == -kRestartSys || result == -kRestartNoIntr ||
                                                           result == -kRestartNoHandler || result == -kRestartBlock);
}

constexpr long kEpollPwait2 = 441;  // Linux 5.11, missing in older headers

// Calls that have done nothing when they return EINTR.
bool can_be_repeated(long number) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case kEpollPwait2:
    case SYS_rt_sigtimedwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_io_getevents:
    case SYS_io_uring_enter:
    case SYS_connect:
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_accept:
    case SYS_accept4:
      return true;
    default:
      return false;
  }
}

// Read by the return from a signal handler (arch/x86/include/uapi/asm/sigcontext.h, ucontext.h).
struct SavedContext {
  std::uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  std::uint16_t cs, gs, fs, ss;
  std::uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};
static_assert(sizeof(SavedContext) == 256);
struct SavedFrame {
  std::uint64_t flags, link;
  std::uint64_t alternate_stack[3];  // size 0: the current one stays in use
  SavedContext context;
  std::uint64_t signal_mask;
};
static_assert(offsetof(SavedFrame, context) == 40 && sizeof(SavedFrame) == 304);
constexpr std::uint64_t kHasExtendedState = 1, kHasStackSegment = 2, kStrictStackSegment = 4;

// In the bytes of the extended state that the processor reserves for software.
struct SoftwareBytes {
  std::uint32_t magic, size_with_end;
  std::uint64_t features;
  std::uint32_t size, padding[7];
};
constexpr std::size_t kSoftwareBytesAt = 464, kHeaderAt = 512, kHeaderEnd = 576;
constexpr std::uint32_t kMagic = 0x46505853, kEndMagic = 0x46505845;
// Tile registers: the kernel saves them only in threads that requested them.
constexpr std::uint64_t kOnDemandFeatures = 3ULL << 17;

// The extended state in the form of a signal frame.
std::vector<unsigned char> framed_state(const std::vector<unsigned char>& state) {
  std::vector<unsigned char> result = state;
  if (state.size() < kHeaderEnd) return result;
  std::uint64_t features = 0;
  std::memcpy(&features, &state[kSoftwareBytesAt], sizeof(features));
  features &= ~kOnDemandFeatures;
  std::size_t size = kHeaderEnd;
  for (unsigned feature = 2; feature < 63; ++feature) {
    unsigned bytes = 0, offset = 0, c = 0, d = 0;
    if ((features >> feature & 1) == 0 || __get_cpuid_count(13, feature, &bytes, &offset, &c, &d) == 0) continue;
    size = std::max<std::size_t>(size, bytes + offset);
  }
  size = std::min(size, state.size());
  result.resize(size + sizeof(kEndMagic));
  std::uint64_t present = 0;
  std::memcpy(&present, &result[kHeaderAt], sizeof(present));
  present &= features;
  std::memcpy(&result[kHeaderAt], &present, sizeof(present));
  SoftwareBytes software = {};
  software.magic = kMagic;
  software.size_with_end = static_cast<std::uint32_t>(result.size());
  software.features = features;
  software.size = static_cast<std::uint32_t>(size);
  std::memcpy(&result[kSoftwareBytesAt], &software, sizeof(software));
  std::memcpy(&result[size], &kEndMagic, sizeof(kEndMagic));
  return result;
}

// As at the begin of a signal handler: no exceptions of floating-point instructions, rounding to nearest, and an empty
// stack of x87 registers. At a function call the last two hold, but the thread may be anywhere in a calculation.
void set_default_modes(std::vector<unsigned char>* state) {
  if (state->size() < kHeaderEnd) return;
  const std::uint16_t control = 0x37f;
  const std::uint32_t vector_control = 0x1f80;
  std::memcpy(&(*state)[0], &control, sizeof(control));
  (*state)[2] = (*state)[3] = 0;  // exceptions that were raised
  (*state)[4] = 0;                // registers in use
  std::memcpy(&(*state)[24], &vector_control, sizeof(vector_control));
}

template <std::size_t kCount>
std::uint64_t find_bytes(const std::vector<unsigned char>& code, const std::array<unsigned char, kCount>& wanted) {
  const auto at = std::search(code.begin(), code.end(), wanted.begin(), wanted.end());
  return at == code.end() ? 0 : static_cast<std::uint64_t>(at - code.begin()) + 1;
}

}  // namespace

bool can_inject() { return true; }

bool read_general_registers(pid_t thread, ThreadRegisters* registers) {
  registers->vector.clear();
  registers->general.resize(sizeof(user_regs_struct));
  iovec part = {registers->general.data(), registers->general.size()};
  return ::ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(NT_PRSTATUS), &part) == 0;
}

bool read_registers(pid_t thread, ThreadRegisters* registers) {
  if (!read_general_registers(thread, registers)) return false;
  registers->vector.resize(kMostVectorState);
  iovec part = {registers->vector.data(), registers->vector.size()};
  if (::ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(NT_X86_XSTATE), &part) != 0) return false;
  registers->vector.resize(part.iov_len);
  return true;
}

bool write_registers(pid_t thread, const ThreadRegisters& registers) {
  ThreadRegisters copy = registers;
  iovec part = {copy.vector.data(), copy.vector.size()};
  if (part.iov_len != 0 && ::ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(NT_X86_XSTATE), &part) != 0)
    return false;
  part = {copy.general.data(), copy.general.size()};
  return ::ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(NT_PRSTATUS), &part) == 0;
}

std::uint64_t instruction_pointer(const ThreadRegisters& registers) { return general(registers).rip; }
void set_instruction_pointer(ThreadRegisters* registers, std::uint64_t address) {
  user_regs_struct all = general(*registers);
  all.rip = address;
  *registers = with_general(*registers, all);
}
std::uint64_t stack_pointer(const ThreadRegisters& registers) { return general(registers).rsp; }
std::uint64_t thread_pointer(const ThreadRegisters& registers) { return general(registers).fs_base; }

format::StoppedThread stopped_at(const ThreadRegisters& registers) {
  const user_regs_struct all = general(registers);
  return {0, all.rip, all.rsp, all.rbp, {all.rbx, all.r12, all.r13, all.r14, all.r15}, 0};
}

void repeat_interrupted_call(ThreadRegisters* registers) {
  user_regs_struct all = general(*registers);
  if (static_cast<long long>(all.rax) != -EINTR || !can_be_repeated(static_cast<long>(all.orig_rax))) return;
  // The kernel then treats it like other calls: it repeats it, unless a signal handler runs.
  all.rax = static_cast<unsigned long long>(-kRestartNoHandler);
  *registers = with_general(*registers, all);
}

bool is_continued_by_restart(const ThreadRegisters& registers) {
  const user_regs_struct all = general(registers);
  return static_cast<long long>(all.orig_rax) >= 0 && static_cast<long long>(all.rax) == -kRestartBlock;
}

void repeat_instead_of_restart(ThreadRegisters* registers) {
  user_regs_struct all = general(*registers);
  all.rax = static_cast<unsigned long long>(-kRestartNoHandler);
  *registers = with_general(*registers, all);
}

long restart_number() { return SYS_restart_syscall; }

void find_return_code(const std::vector<unsigned char>& code, std::uint64_t address, ReturnCode* found) {
  // syscall; ret    and    mov $15, %rax; syscall    and    pop %rdi; ret (of pop %r15; ret)
  constexpr std::array<unsigned char, 3> kCall = {0x0f, 0x05, 0xc3};
  constexpr std::array<unsigned char, 9> kReturn = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
  constexpr std::array<unsigned char, 2> kPop = {0x5f, 0xc3};
  found->system_call_length = 2;
  found->signal_return_length = kReturn.size();
  const std::uint64_t call = find_bytes(code, kCall);
  const std::uint64_t end = find_bytes(code, kReturn);
  if (found->system_call == 0 && call != 0) found->system_call = address + call - 1;
  if (found->signal_return == 0 && end != 0) found->signal_return = address + end - 1;
  const std::uint64_t pop = find_bytes(code, kPop);
  if (found->pop_argument == 0 && pop != 0) found->pop_argument = address + pop - 1;
}

std::vector<unsigned char> return_frame(const ThreadRegisters& before, std::uint64_t signal_mask,
                                        const ReturnCode& code, std::uint64_t stack_end, std::uint64_t* stack_begin) {
  const std::vector<unsigned char> state = framed_state(before.vector);
  const std::uint64_t state_at = (stack_end - state.size()) & ~63ULL;
  // The return address, the address that its return goes to, and the frame that the latter expects above it. At a
  // function call the stack pointer is 8 more than a multiple of 16.
  const std::uint64_t frame_at = (state_at - sizeof(SavedFrame) - 256) & ~15ULL;
  *stack_begin = frame_at - 2 * sizeof(std::uint64_t) - 8;

  user_regs_struct all = general(before);
  if (is_to_be_made_again(all)) {
    all.rip -= 2;
    all.rax = all.orig_rax;
  }
  SavedFrame frame = {};
  frame.flags = (state.size() > kHeaderEnd ? kHasExtendedState : 0) | kHasStackSegment | kStrictStackSegment;
  frame.context = {all.r8,  all.r9,  all.r10, all.r11, all.r12, all.r13, all.r14, all.r15, all.rdi,
                   all.rsi, all.rbp, all.rbx, all.rdx, all.rax, all.rcx, all.rsp, all.rip, all.eflags};
  frame.context.cs = static_cast<std::uint16_t>(all.cs);
  frame.context.ss = static_cast<std::uint16_t>(all.ss);
  frame.context.fpstate = state_at;
  frame.signal_mask = signal_mask;

  std::vector<unsigned char> bytes(stack_end - *stack_begin);
  const auto put = [&](std::uint64_t at, const void* data, std::size_t size) {
    std::memcpy(&bytes[at - *stack_begin], data, size);
  };
  const std::uint64_t plain_return = code.system_call + code.system_call_length;
  put(*stack_begin, &plain_return, 8);
  put(*stack_begin + 8, &code.signal_return, 8);
  put(*stack_begin + 16, &frame, sizeof(frame));
  put(state_at, state.data(), state.size());
  return bytes;
}

bool is_signal_return(const ThreadRegisters& registers, const ReturnCode& code) {
  const user_regs_struct all = general(registers);
  return all.rip == code.signal_return + code.signal_return_length && all.orig_rax == SYS_rt_sigreturn;
}

ThreadRegisters call_registers(const ThreadRegisters& before, std::uint64_t function,
                               const std::vector<std::uint64_t>& arguments, std::uint64_t stack_begin, bool entering) {
  constexpr unsigned long long kDirection = 0x400, kTrap = 0x100, kAlignmentCheck = 0x40000;
  user_regs_struct all = general(before);
  unsigned long long* places[] = {&all.rdi, &all.rsi, &all.rdx, &all.rcx, &all.r8, &all.r9};
  for (std::size_t i = 0; i < arguments.size(); ++i) *places[i] = arguments[i];
  all.rip = function;
  all.rsp = stack_begin;
  all.rbp = 0;
  all.rax = 0;
  all.orig_rax = entering ? static_cast<unsigned long long>(idle_number()) : ~0ULL;
  all.eflags &= ~(kDirection | kTrap | kAlignmentCheck);
  ThreadRegisters result = with_general(before, all);
  set_default_modes(&result.vector);
  return result;
}

std::vector<unsigned char> call_context(std::uint64_t place, std::uint64_t function,
                                        const std::vector<std::uint64_t>& arguments, std::uint64_t stack,
                                        std::uint64_t signal_mask) {
  ucontext_t context = {};
  auto* general = context.uc_mcontext.gregs;
  constexpr int kArguments[] = {REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9};
  for (std::size_t i = 0; i < arguments.size(); ++i) general[kArguments[i]] = static_cast<greg_t>(arguments[i]);
  general[REG_RSP] = static_cast<greg_t>(stack);
  general[REG_RIP] = static_cast<greg_t>(function);
  // setcontext() reads the processor's modes from here, in the form of the instruction FNSTENV: those of a process that
  // has just begun, with empty registers.
  const std::uint32_t modes[] = {0x37f, 0, 0xffff};
  std::memcpy(&context.__fpregs_mem, modes, sizeof(modes));
  context.__fpregs_mem.mxcsr = 0x1f80;
  std::memcpy(&context.uc_sigmask, &signal_mask, sizeof(signal_mask));
  std::vector<unsigned char> bytes(sizeof(context));
  std::memcpy(bytes.data(), &context, sizeof(context));
  const std::uint64_t modes_at = place + offsetof(ucontext_t, __fpregs_mem);
  std::memcpy(&bytes[offsetof(ucontext_t, uc_mcontext.fpregs)], &modes_at, sizeof(modes_at));
  return bytes;
}

ThreadRegisters system_call_registers(const ThreadRegisters& before, const ReturnCode& code, long number,
                                      const std::vector<std::uint64_t>& arguments, std::uint64_t stack, bool entering) {
  user_regs_struct all = general(before);
  unsigned long long* places[] = {&all.rdi, &all.rsi, &all.rdx, &all.r10, &all.r8, &all.r9};
  for (std::size_t i = 0; i < arguments.size(); ++i) *places[i] = arguments[i];
  all.rax = static_cast<unsigned long long>(number);
  all.orig_rax = entering ? static_cast<unsigned long long>(number) : ~0ULL;
  all.rip = code.system_call + (entering ? code.system_call_length : 0);
  all.rsp = stack;
  return with_general(before, all);
}

std::uint64_t entered_system_call(const ThreadRegisters& registers) { return general(registers).orig_rax; }
std::int64_t system_call_result(const ThreadRegisters& registers) {
  return static_cast<std::int64_t>(general(registers).rax);
}

bool entered_call(const ThreadRegisters& registers, ThreadCall* call) {
  const user_regs_struct all = general(registers);
  if (static_cast<long long>(all.orig_rax) < 0) return false;
  *call = {};
  call->number = static_cast<long>(all.orig_rax);
  const unsigned long long arguments[] = {all.rdi, all.rsi, all.rdx, all.r10, all.r8, all.r9};
  std::copy(std::begin(arguments), std::end(arguments), std::begin(call->arguments));
  call->stack_pointer = all.rsp;
  call->instruction_pointer = all.rip;
  return true;
}

void set_entered_call(ThreadRegisters* registers, long number) {
  user_regs_struct all = general(*registers);
  all.orig_rax = static_cast<unsigned long long>(number);
  *registers = with_general(*registers, all);
}

bool is_to_be_restarted(const ThreadRegisters& registers) { return is_to_be_made_again(general(registers)); }

bool is_waiting_for_lock(const ThreadRegisters& registers, std::uint64_t* lock) {
  const user_regs_struct all = general(registers);
  *lock = all.rdi;
  return all.orig_rax == SYS_futex && is_to_be_made_again(all);
}

long mmap_number() { return SYS_mmap; }
long munmap_number() { return SYS_munmap; }
long idle_number() { return SYS_getpid; }
long mask_number() { return SYS_rt_sigprocmask; }
long wait_number() { return SYS_ppoll; }
long clock_number() { return SYS_clock_gettime; }
long lock_number() { return SYS_futex; }

}  // namespace culprit::report
