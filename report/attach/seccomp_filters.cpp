#include "report/attach/seccomp_filters.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "report/proc/process_folder.h"

// Linux 5.0; missing in older headers.
#ifndef SECCOMP_RET_USER_NOTIF
#define SECCOMP_RET_USER_NOTIF 0x7fc00000U
#endif

namespace culprit::report {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
constexpr int kGetFilter = 0x420c;      // PTRACE_SECCOMP_GET_FILTER
constexpr int kMostSteps = 200000;      // systemd's longest filters have a hundred instructions for each call
constexpr int kCapabilityToAdmin = 21;  // CAP_SYS_ADMIN
constexpr std::size_t kMostNames = 4;
constexpr std::size_t kMostFilters = 1024;

using Word = std::optional<std::uint32_t>;  // empty: not known beforehand

// A way through the program.
struct Way {
  std::size_t at = 0;
  Word accumulator = 0;
  Word index = 0;
  std::array<Word, BPF_MEMWORDS> memory = {};
};

FilterAnswer answer_of(Word action) {
  if (!action) return FilterAnswer::kUnknown;
  switch (*action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
      return FilterAnswer::kAllowed;
    case SECCOMP_RET_ERRNO:
    case SECCOMP_RET_TRACE:  // no tracer asks for it: the call fails
      return FilterAnswer::kError;
    case SECCOMP_RET_USER_NOTIF:
      return FilterAnswer::kSupervised;
    case SECCOMP_RET_TRAP:
      return FilterAnswer::kTrapped;
    default:  // the kernel kills for unknown actions too
      return FilterAnswer::kKilled;
  }
}

Word load(std::uint32_t offset, long call) {
  if (offset == offsetof(seccomp_data, nr)) return static_cast<std::uint32_t>(call);
  if (offset == offsetof(seccomp_data, arch)) return kArchitecture;
  return std::nullopt;
}

Word calculate(std::uint16_t operation, Word left, Word right) {
  if (!left || !right) return std::nullopt;
  switch (operation) {
    case BPF_ADD:
      return *left + *right;
    case BPF_SUB:
      return *left - *right;
    case BPF_MUL:
      return *left * *right;
    case BPF_DIV:
      return *right == 0 ? Word(0) : Word(*left / *right);
    case BPF_OR:
      return *left | *right;
    case BPF_AND:
      return *left & *right;
    case BPF_XOR:
      return *left ^ *right;
    case BPF_LSH:
      return *right > 31 ? Word(0) : Word(*left << *right);
    case BPF_RSH:
      return *right > 31 ? Word(0) : Word(*left >> *right);
    case BPF_NEG:
      return 0U - *left;
    default:
      return std::nullopt;
  }
}

bool holds(std::uint16_t operation, std::uint32_t left, std::uint32_t right) {
  switch (operation) {
    case BPF_JEQ:
      return left == right;
    case BPF_JGT:
      return left > right;
    case BPF_JGE:
      return left >= right;
    default:  // BPF_JSET
      return (left & right) != 0;
  }
}

// Runs one program along all ways.
class FilterRun {
 public:
  FilterRun(const FilterProgram& program, long call) : program_(program), call_(call) {}

  FilterAnswer run() {
    ways_.emplace_back();
    for (int steps = 0; !ways_.empty() && worst_ != FilterAnswer::kKilled; ++steps) {
      if (steps == kMostSteps) return std::max(worst_, FilterAnswer::kUnknown);
      Way state = ways_.back();
      ways_.pop_back();
      if (state.at >= program_.size()) {
        worst_ = std::max(worst_, FilterAnswer::kUnknown);
      } else {
        step(&state, program_[state.at]);
      }
    }
    return worst_;
  }

 private:
  void go_on(Way* state, std::size_t skipped) {
    state->at += 1 + skipped;
    ways_.push_back(*state);
  }

  void step(Way* state, const sock_filter& code) {
    const Word operand = BPF_SRC(code.code) == BPF_X ? state->index : Word(code.k);
    switch (BPF_CLASS(code.code)) {
      case BPF_LD:
      case BPF_LDX:
        (BPF_CLASS(code.code) == BPF_LD ? state->accumulator : state->index) = loaded(*state, code);
        break;
      case BPF_ST:
      case BPF_STX:
        if (code.k < BPF_MEMWORDS)
          state->memory[code.k] = BPF_CLASS(code.code) == BPF_ST ? state->accumulator : state->index;
        break;
      case BPF_ALU:
        state->accumulator =
            calculate(BPF_OP(code.code), state->accumulator, BPF_OP(code.code) == BPF_NEG ? Word(0) : operand);
        break;
      case BPF_MISC:
        if (BPF_MISCOP(code.code) == BPF_TAX) {
          state->index = state->accumulator;
        } else {
          state->accumulator = state->index;
        }
        break;
      case BPF_JMP:
        jump(state, code, operand);
        return;
      default:  // BPF_RET
        worst_ = std::max(worst_, answer_of(BPF_RVAL(code.code) == BPF_A ? state->accumulator : Word(code.k)));
        return;
    }
    go_on(state, 0);
  }

  Word loaded(const Way& state, const sock_filter& code) const {
    switch (BPF_MODE(code.code)) {
      case BPF_ABS:
        return load(code.k, call_);
      case BPF_IMM:
        return code.k;
      case BPF_MEM:
        return code.k < BPF_MEMWORDS ? state.memory[code.k] : Word();
      case BPF_LEN:
        return static_cast<std::uint32_t>(sizeof(seccomp_data));
      default:
        return std::nullopt;
    }
  }

  void jump(Way* state, const sock_filter& code, Word operand) {
    if (BPF_OP(code.code) == BPF_JA) return go_on(state, code.k);
    const bool known = state->accumulator && operand;
    const bool yes = !known || holds(BPF_OP(code.code), *state->accumulator, *operand);
    const bool no = !known || !yes;
    Way other = *state;
    if (yes) go_on(state, code.jt);
    if (no && (!yes || code.jt != code.jf)) go_on(&other, code.jf);
  }

  const FilterProgram& program_;
  const long call_;
  std::vector<Way> ways_;
  FilterAnswer worst_ = FilterAnswer::kAllowed;
};

// The filters of a stopped thread, the newest first. Returns 0 or the errno.
int read_filters(pid_t thread, std::vector<FilterProgram>* filters) {
  const auto ask = [&](std::size_t number, sock_filter* code) {
    return ::ptrace(static_cast<__ptrace_request>(kGetFilter), thread, number, code);
  };
  while (filters->size() < kMostFilters) {
    const long size = ask(filters->size(), nullptr);
    if (size < 0) return errno == ENOENT ? 0 : errno;
    FilterProgram program(static_cast<std::size_t>(size));
    if (ask(filters->size(), program.data()) != size) return EIO;
    filters->push_back(std::move(program));
  }
  return E2BIG;
}

std::string mode_of(const ProcessFolder& thread) { return thread.status("Seccomp"); }

std::string number_of_filters(const ProcessFolder& thread) {
  return mode_of(thread) + "/" + thread.status("Seccomp_filters");
}

bool may_read_filters(const ProcessFolder& own) {
  const std::uint64_t capabilities = std::strtoull(own.status("CapEff").c_str(), nullptr, 16);
  return (capabilities >> kCapabilityToAdmin & 1) != 0 && mode_of(own) == "0";
}

// Whether the filters are those of a container that culprit runs in too: it makes these calls itself.
bool are_own_too(const ProcessFolder& process, const ProcessFolder& own) {
  return mode_of(own) == "2" && number_of_filters(process) == number_of_filters(own) &&
         process.link("ns/pid") == own.link("ns/pid") && process.link("ns/mnt") == own.link("ns/mnt");
}

constexpr char kRemedy[] =
    ": nothing was changed; start the program with culprit run, or let its filter allow what "
    "interpose/system/system_calls.txt lists (systemd: SystemCallFilter=)";

}  // namespace

FilterAnswer worst_answer(const FilterProgram& program, long call) { return FilterRun(program, call).run(); }

const std::vector<NeededCall>& needed_calls() {
  // Those of the loader and of the injection, then those that the library makes under a filter: system_calls.txt.
  static const std::vector<NeededCall> calls = {
      {SYS_openat, "openat", true},
      {SYS_read, "read", true},
      {SYS_fstat, "fstat", false},
      {SYS_newfstatat, "newfstatat", false},
      {SYS_mmap, "mmap", true},
      {SYS_mprotect, "mprotect", true},
      {SYS_munmap, "munmap", true},
      {SYS_close, "close", true},
      {SYS_brk, "brk", false},
      {SYS_getpid, "getpid", true},
      {SYS_rt_sigreturn, "rt_sigreturn", true},
      {SYS_rt_sigprocmask, "rt_sigprocmask", true},
      {SYS_futex, "futex", true},
      {SYS_madvise, "madvise", false},
      {SYS_pread64, "pread64", false},
      {SYS_fcntl, "fcntl", false},
      {SYS_fallocate, "fallocate", false},
      {SYS_write, "write", false},
      {SYS_ppoll, "ppoll", false},
      {SYS_rt_sigtimedwait, "rt_sigtimedwait", false},
      {SYS_rt_sigaction, "rt_sigaction", false},
      {SYS_mincore, "mincore", false},
      {SYS_gettid, "gettid", true},
      {SYS_clock_gettime, "clock_gettime", false},
  };
  return calls;
}

std::string why_filters_forbid(const std::vector<FilterProgram>& filters) {
  FilterAnswer worst = FilterAnswer::kAllowed;
  std::vector<const char*> names;
  for (const NeededCall& call : needed_calls()) {
    FilterAnswer answer = FilterAnswer::kAllowed;
    for (const FilterProgram& filter : filters) answer = std::max(answer, worst_answer(filter, call.number));
    if (answer == FilterAnswer::kAllowed || (answer == FilterAnswer::kError && !call.must_succeed)) continue;
    if (answer > worst) names.clear();
    if (answer >= worst) names.push_back(call.name);
    worst = std::max(worst, answer);
  }
  if (names.empty()) return {};
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    list += (i == 0 ? "" : ", ") + std::string(names[i]);
  if (names.size() > kMostNames) list += " and " + std::to_string(names.size() - kMostNames) + " more";
  const std::string filter = "has a seccomp filter ";
  switch (worst) {
    case FilterAnswer::kError:
      return filter + "that refuses calls which loading libculprit.so needs (" + list + ")";
    case FilterAnswer::kSupervised:
      return filter + "that lets another process decide about calls of libculprit.so (" + list + ")";
    case FilterAnswer::kTrapped:
      return filter + "that traps calls of libculprit.so (" + list + "), which ends it inside a hook";
    case FilterAnswer::kKilled:
      return filter + "that ends it for calls of libculprit.so (" + list + ")";
    default:
      return filter + "that culprit does not understand";
  }
}

void check_seccomp(const TracedProcess& process) {
  const ProcessFolder& folder = process.folder();
  const ProcessFolder& own = process.own();
  for (const std::uint32_t number : folder.threads()) {
    const ProcessFolder thread = folder.thread(number);
    const std::string mode = mode_of(thread);
    if (mode.empty() || mode == "0") continue;
    if (mode == "1") {
      throw AttachError(process.name() +
                        " is in seccomp's strict mode: the kernel ends it for any call that loading a library needs");
    }
    if (!may_read_filters(own) && !are_own_too(thread, own)) {
      throw AttachError(process.name() +
                        " has a seccomp filter that culprit may not read, and that could end it for loading a library: "
                        "run culprit as root outside of containers (reading needs CAP_SYS_ADMIN), or start the program "
                        "with culprit run");
    }
  }
}

void check_filters_are_alike(const TracedProcess& process) {
  std::string filters;
  std::uint32_t first = 0;
  for (const std::uint32_t number : process.folder().threads()) {
    const ProcessFolder thread = process.folder().thread(number);
    const std::string its = number_of_filters(thread);
    const std::optional<ProcessStat> stat = thread.stat();
    if (!stat || stat->has_ended()) continue;
    if (first == 0) {
      filters = its;
      first = number;
    }
    if (its != filters) {
      throw AttachError(process.name() + " has threads with different seccomp filters (" + std::to_string(first) +
                        " and " + std::to_string(number) + "), whose calls culprit cannot know beforehand" + kRemedy);
    }
  }
}

void check_filters_of_thread(const TracedProcess& process, pid_t thread) {
  const ProcessFolder& own = process.own();
  const ProcessFolder stopped = process.folder().thread(static_cast<std::uint32_t>(thread));
  if (mode_of(stopped) != "2") return;
  std::vector<FilterProgram> programs;
  const int error = read_filters(thread, &programs);
  if (error != 0 && are_own_too(stopped, own)) return;
  if (error != 0) {
    throw AttachError(process.name() + " has a seccomp filter that culprit may not read: run culprit as root outside " +
                      "of containers, or start the program with culprit run");
  }
  const std::string why = why_filters_forbid(programs);
  if (!why.empty()) throw AttachError(process.name() + " " + why + kRemedy);
}

bool may_make_call(const TracedProcess& process, pid_t thread, long call) {
  const ProcessFolder stopped = process.folder().thread(static_cast<std::uint32_t>(thread));
  if (mode_of(stopped) != "2") return true;
  std::vector<FilterProgram> programs;
  if (read_filters(thread, &programs) != 0) return are_own_too(stopped, process.own());
  return std::all_of(programs.begin(), programs.end(),
                     [&](const FilterProgram& program) { return worst_answer(program, call) <= FilterAnswer::kError; });
}

}  // namespace culprit::report
