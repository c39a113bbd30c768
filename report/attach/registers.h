// The parts of the injection that depend on the processor: a thread's registers, calling conventions, restarting an
// interrupted system call. One implementation per processor; registers_none.cpp stands for unsupported ones.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "interpose/format/scan_state.h"
#include "report/proc/process_folder.h"

namespace culprit::report {

// All registers of a stopped thread that a call changes. `general` is struct user_regs_struct, `vector` the extended
// state as ptrace gives it.
struct ThreadRegisters {
  std::vector<unsigned char> general;
  std::vector<unsigned char> vector;
};

// Whether this processor is supported at all.
bool can_inject();

// For a thread in a ptrace stop. On failure they return false and set errno. read_general_registers() leaves the
// extended state empty; an empty one is not written back.
bool read_registers(pid_t thread, ThreadRegisters* registers);
bool read_general_registers(pid_t thread, ThreadRegisters* registers);
bool write_registers(pid_t thread, const ThreadRegisters& registers);

std::uint64_t instruction_pointer(const ThreadRegisters& registers);
void set_instruction_pointer(ThreadRegisters* registers, std::uint64_t address);
std::uint64_t stack_pointer(const ThreadRegisters& registers);
// The address of the thread's control block, which libc puts at the top of the stack that it allocates for the thread.
std::uint64_t thread_pointer(const ThreadRegisters& registers);

// The registers that unwinding needs, without the number of the thread.
format::StoppedThread stopped_at(const ThreadRegisters& registers);

// For a thread stopped inside a system call that returns EINTR after any interruption, even one that the program cannot
// see: changes `registers` so that the call is repeated. Use it only when no signal is pending for the thread.
void repeat_interrupted_call(ThreadRegisters* registers);

// Whether the kernel continues the interrupted system call by another one, restart_syscall(2), which keeps what is left
// of its time; and changes `registers` so that it makes the same call again, with all of its time.
bool is_continued_by_restart(const ThreadRegisters& registers);
void repeat_instead_of_restart(ThreadRegisters* registers);
long restart_number();

// Pieces of the target's libc that a call returns through.
struct ReturnCode {
  std::uint64_t system_call = 0;  // a system call instruction, followed by a return
  std::uint64_t system_call_length = 0;
  std::uint64_t signal_return = 0;  // code that returns from a signal handler
  std::uint64_t signal_return_length = 0;
  std::uint64_t pop_argument = 0;  // takes a function's first argument from the stack, and returns; 0: there is none
};

// Searches `code`, which lies at `address` in the target. Pieces already found are kept.
void find_return_code(const std::vector<unsigned char>& code, std::uint64_t address, ReturnCode* found);

// The content of the top of a stack that ends at `stack_end`, laid out so that a function called on it returns through
// two addresses. The second is code.signal_return, which restores all registers of `before` and `signal_mask`, as if a
// signal handler had returned, and repeats an interrupted system call. `stack_begin` receives the address of the
// content. Its first word, the first return address, is the return instruction behind code.system_call; the caller may
// replace it by code.system_call itself.
std::vector<unsigned char> return_frame(const ThreadRegisters& before, std::uint64_t signal_mask,
                                        const ReturnCode& code, std::uint64_t stack_end, std::uint64_t* stack_begin);

// At a stop at the entry of a system call: whether that call returns from the signal frame.
bool is_signal_return(const ThreadRegisters& registers, const ReturnCode& code);

// Registers to call `function` on such a stack. `entering`: the thread is at the entry of a system call, which is
// replaced.
ThreadRegisters call_registers(const ThreadRegisters& before, std::uint64_t function,
                               const std::vector<std::uint64_t>& arguments, std::uint64_t stack_begin, bool entering);

// The content of a ucontext_t at `place`, with which setcontext() calls `function` on the stack at `stack`, with the
// signal mask `signal_mask`. Unlike a return from a signal handler, setcontext() leaves an interrupted system call of
// the thread to be continued.
std::vector<unsigned char> call_context(std::uint64_t place, std::uint64_t function,
                                        const std::vector<std::uint64_t>& arguments, std::uint64_t stack,
                                        std::uint64_t signal_mask);

// Registers to make a system call with the instruction at code.system_call. `entering`: the thread is at the entry of a
// system call, which is replaced. The call returns to the address stored at `stack`.
ThreadRegisters system_call_registers(const ThreadRegisters& before, const ReturnCode& code, long number,
                                      const std::vector<std::uint64_t>& arguments, std::uint64_t stack, bool entering);

// At a stop at the entry of a system call: its number. If instruction_pointer() is behind code.system_call, that number
// is the result of an injected function. system_call_result() is for a stop at the exit.
std::uint64_t entered_system_call(const ThreadRegisters& registers);
std::int64_t system_call_result(const ThreadRegisters& registers);

// Whether the thread sleeps until another thread releases a lock; `lock` receives the lock's address.
bool is_waiting_for_lock(const ThreadRegisters& registers, std::uint64_t* lock);

// Numbers of the injected system calls. idle_number() is a call without effect, which every sandbox allows.
// mask_number() is the one that stores the signal mask, wait_number() one that waits and leaves nothing in the thread
// for restart_syscall(2), clock_number() one that stores the time of a clock.
long mmap_number();
long munmap_number();
long idle_number();
long mask_number();
long wait_number();
long clock_number();
// The system call in which a thread waits for a lock.
long lock_number();

// At any other stop: the system call that the thread is in, also one that has just ended. False: it runs its own code.
bool entered_call(const ThreadRegisters& registers, ThreadCall* call);
// Enters the number under which the program made it, so that return_frame() makes the same call again.
void set_entered_call(ThreadRegisters* registers, long number);
// Whether that call was interrupted, and will be made again or continued.
bool is_to_be_restarted(const ThreadRegisters& registers);

}  // namespace culprit::report
