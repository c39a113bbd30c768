// What of the injection depends on the processor: a thread's registers, how a function is called, how a system call
// that was interrupted goes on. One implementation a processor; registers_none.cpp says that there is none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace culprit {

// Everything of a stopped thread that a call changes. `general` is struct user_regs_struct, `vector` the extended state
// as ptrace gives it.
struct ThreadRegisters {
  std::vector<unsigned char> general;
  std::vector<unsigned char> vector;
};

// Whether this processor is supported at all.
bool can_inject();

// Of a thread in a ptrace stop. False with errno. read_general_registers() leaves the extended state empty, and what is
// empty is not written.
bool read_registers(pid_t thread, ThreadRegisters* registers);
bool read_general_registers(pid_t thread, ThreadRegisters* registers);
bool write_registers(pid_t thread, const ThreadRegisters& registers);

std::uint64_t instruction_pointer(const ThreadRegisters& registers);
std::uint64_t stack_pointer(const ThreadRegisters& registers);
// Where the thread's control block lies, which libc puts at the top of the stack that it gave the thread.
std::uint64_t thread_pointer(const ThreadRegisters& registers);

// The thread was stopped inside a system call that returns EINTR after any interruption, even after one that the
// program cannot see: sets `registers` so that it is made again. Only when no signal waits for the thread.
void repeat_interrupted_call(ThreadRegisters* registers);

// Pieces of the target's libc that a call returns through.
struct ReturnCode {
  std::uint64_t system_call = 0;  // an instruction for a system call, followed by a return
  std::uint64_t system_call_length = 0;
  std::uint64_t signal_return = 0;  // code that ends a signal handler
  std::uint64_t signal_return_length = 0;
};

// Finds them in `code`, which lies at `address` in the target. What is found already stays.
void find_return_code(const std::vector<unsigned char>& code, std::uint64_t address, ReturnCode* found);

// Bytes for the top of a stack that ends at `stack_end`, such that a function that is called there returns by way of
// two addresses, the second of which is code.signal_return, and from there to where `before` stood, with all its
// registers and with `signal_mask`: as if a signal handler had ended. A system call that was under way is then made
// again. `stack_begin` receives where the bytes belong; the first of them is the return address: that of the return
// behind code.system_call, or, once somebody stores that there, code.system_call itself.
std::vector<unsigned char> return_frame(const ThreadRegisters& before, std::uint64_t signal_mask,
                                        const ReturnCode& code, std::uint64_t stack_end, std::uint64_t* stack_begin);

// At a stop at the entry of a system call: whether that call is the one by which the thread goes back.
bool is_signal_return(const ThreadRegisters& registers, const ReturnCode& code);

// Registers to call `function` with on such a stack. `entering`: in place of the system call that is being entered.
ThreadRegisters call_registers(const ThreadRegisters& before, std::uint64_t function,
                               const std::vector<std::uint64_t>& arguments, std::uint64_t stack_begin, bool entering);

// Registers to make a system call with the instruction at code.system_call; in place of one that is just being entered
// (`entering`), or else from anywhere. It returns to the address that lies at `stack`.
ThreadRegisters system_call_registers(const ThreadRegisters& before, const ReturnCode& code, long number,
                                      const std::vector<std::uint64_t>& arguments, std::uint64_t stack, bool entering);

// At a stop at the entry of a system call: its number, which is what an injected function returned when
// instruction_pointer() is behind code.system_call. At the exit: the result.
std::uint64_t entered_system_call(const ThreadRegisters& registers);
std::int64_t system_call_result(const ThreadRegisters& registers);

// Whether the thread sleeps until another one gives a lock free; `lock` receives its address.
bool is_waiting_for_lock(const ThreadRegisters& registers, std::uint64_t* lock);

// Numbers of the system calls that are injected. The last does nothing, and no sandbox forbids it.
long mmap_number();
long munmap_number();
long idle_number();

// Whether system call `number` returns early, with an error that the program sees, when its thread is stopped in it,
// and repeat_interrupted_call() has to put that right.
bool is_seen_when_stopped(long number);

}  // namespace culprit
