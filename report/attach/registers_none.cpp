// For processors without an implementation: callers check can_inject() before anything else.
#include "report/attach/registers.h"

namespace culprit::report {

bool can_inject() { return false; }
bool read_registers(pid_t, ThreadRegisters*) { return false; }
bool read_general_registers(pid_t, ThreadRegisters*) { return false; }
bool write_registers(pid_t, const ThreadRegisters&) { return false; }
std::uint64_t instruction_pointer(const ThreadRegisters&) { return 0; }
void set_instruction_pointer(ThreadRegisters*, std::uint64_t) {}
std::uint64_t stack_pointer(const ThreadRegisters&) { return 0; }
std::uint64_t thread_pointer(const ThreadRegisters&) { return 0; }
format::StoppedThread stopped_at(const ThreadRegisters&) { return {}; }
void repeat_interrupted_call(ThreadRegisters*) {}
bool is_continued_by_restart(const ThreadRegisters&) { return false; }
void repeat_instead_of_restart(ThreadRegisters*) {}
long restart_number() { return -1; }
void find_return_code(const std::vector<unsigned char>&, std::uint64_t, ReturnCode*) {}
std::vector<unsigned char> return_frame(const ThreadRegisters&, std::uint64_t, const ReturnCode&, std::uint64_t,
                                        std::uint64_t*) {
  return {};
}
bool is_signal_return(const ThreadRegisters&, const ReturnCode&) { return false; }
ThreadRegisters call_registers(const ThreadRegisters& before, std::uint64_t, const std::vector<std::uint64_t>&,
                               std::uint64_t, bool) {
  return before;
}
ThreadRegisters system_call_registers(const ThreadRegisters& before, const ReturnCode&, long,
                                      const std::vector<std::uint64_t>&, std::uint64_t, bool) {
  return before;
}
std::vector<unsigned char> call_context(std::uint64_t, std::uint64_t, const std::vector<std::uint64_t>&, std::uint64_t,
                                        std::uint64_t) {
  return {};
}
std::uint64_t entered_system_call(const ThreadRegisters&) { return 0; }
std::int64_t system_call_result(const ThreadRegisters&) { return 0; }
bool is_waiting_for_lock(const ThreadRegisters&, std::uint64_t*) { return false; }
long mmap_number() { return -1; }
long munmap_number() { return -1; }
long idle_number() { return -1; }
long mask_number() { return -1; }
long wait_number() { return -1; }
long clock_number() { return -1; }
long lock_number() { return -1; }
bool entered_call(const ThreadRegisters&, ThreadCall*) { return false; }
void set_entered_call(ThreadRegisters*, long) {}
bool is_to_be_restarted(const ThreadRegisters&) { return false; }

}  // namespace culprit::report
