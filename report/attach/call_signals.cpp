#include "report/attach/call_signals.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "interpose/format/signal_names.h"

namespace culprit::report {
namespace {

// Values of linux/siginfo.h that older headers lack.
constexpr int kSystemCallSeccomp = 1, kSystemCallDispatched = 2;  // si_code of SIGSYS
constexpr int kTrapBreakpoint = 1;                                // of SIGTRAP
constexpr int kBusHardwareLater = 5;                              // of SIGBUS: memory that is not in use now
constexpr unsigned char kBreakpoint = 0xcc;                       // int3

bool is_accessible(const TracedProcess& process, std::uint64_t address) {
  for (const MappedRange& range : process.mappings()) {
    if (range.contains(address)) return range.readable && range.writable;
  }
  return false;
}

bool breakpoint_before(const TracedProcess& process, std::uint64_t address) {
  unsigned char byte = 0;
  return process.read_memory(address - 1, &byte, 1) && byte == kBreakpoint;
}

}  // namespace

bool is_of_instruction(int signal_number) {
  return std::find(std::begin(kOfInstructions), std::end(kOfInstructions), signal_number) != std::end(kOfInstructions);
}

SignalOrigin origin_of(const TracedProcess& process, const siginfo_t& info, const ThreadRegisters& registers) {
  if (info.si_code <= 0) return SignalOrigin::kSent;  // kill(), sigqueue(), timers, messages
  const auto address = reinterpret_cast<std::uint64_t>(info.si_addr);
  const std::uint64_t instruction = instruction_pointer(registers);
  bool fault = false;
  switch (info.si_signo) {
    case SIGSEGV:
      // A general protection fault has no address.
      fault = info.si_code == SI_KERNEL || !is_accessible(process, address);
      break;
    case SIGBUS:
      fault = info.si_code != kBusHardwareLater;
      break;
    case SIGILL:
    case SIGFPE:
      fault = address == instruction;
      break;
    case SIGTRAP:
      // Not one of the program's own watchpoints and events, whose handler sees the call pass by.
      fault = (info.si_code == SI_KERNEL || info.si_code == kTrapBreakpoint) && breakpoint_before(process, instruction);
      break;
    case SIGSYS:
      if ((info.si_code == kSystemCallSeccomp || info.si_code == kSystemCallDispatched) &&
          reinterpret_cast<std::uint64_t>(info.si_call_addr) == instruction)
        return SignalOrigin::kTrapped;
      break;
    default:
      break;
  }
  return fault ? SignalOrigin::kFault : SignalOrigin::kSent;
}

std::string describe_fault(const TracedProcess& process, const siginfo_t& info, const ThreadRegisters& registers) {
  const std::uint64_t instruction = instruction_pointer(registers);
  const char* name = signal_name(info.si_signo);
  std::string text = "SIG" + (name != nullptr ? name : std::to_string(info.si_signo));
  char number[32];
  if ((info.si_signo == SIGSEGV || info.si_signo == SIGBUS) && info.si_code != SI_KERNEL) {
    std::snprintf(number, sizeof(number), " at 0x%" PRIx64, reinterpret_cast<std::uint64_t>(info.si_addr));
    text += number;
  }
  std::string file;
  std::uint64_t begin = 0;
  for (const MappedRange& range : process.mappings()) {
    if (range.offset == 0 || range.path.empty()) begin = range.begin;
    if (!range.contains(instruction)) continue;
    file = range.file_name();
    break;
  }
  if (file.empty()) return text;
  std::snprintf(number, sizeof(number), "+0x%" PRIx64, instruction - begin);
  return text + " in " + file + number;
}

}  // namespace culprit::report
