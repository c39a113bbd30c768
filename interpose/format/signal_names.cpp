#include "interpose/format/signal_names.h"

#include <signal.h>

#include <cstdlib>
#include <cstring>

namespace culprit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// signal(7), by number: the same on x86-64 and aarch64.
constexpr const char* kNames[32] = {"",       "HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",
                                    "FPE",    "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM",
                                    "STKFLT", "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",
                                    "XCPU",   "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR",  "SYS"};

}  // namespace

const char* signal_name(int number) { return number > 0 && number < 32 ? kNames[number] : nullptr; }

int parse_signal(const char* text) {
  if (strncasecmp(text, "SIG", 3) == 0) text += 3;
  int number = 0;
  if (strncasecmp(text, "RTMIN", 5) == 0 && (text[5] == '\0' || (text[5] == '+' && is_digit(text[6])))) {
    char* end = nullptr;
    long above = text[5] == '\0' ? 0 : std::strtol(text + 6, &end, 10);
    if ((end != nullptr && *end != '\0') || above > SIGRTMAX - SIGRTMIN) return 0;
    number = SIGRTMIN + static_cast<int>(above);
  } else if (is_digit(text[0])) {
    char* end = nullptr;
    long value = std::strtol(text, &end, 10);
    if (*end != '\0' || value > SIGRTMAX || (value > 31 && value < SIGRTMIN)) return 0;
    number = static_cast<int>(value);
  } else {
    for (int i = 1; i < 32 && number == 0; ++i) {
      if (strcasecmp(text, kNames[i]) == 0) number = i;
    }
  }
  switch (number) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGSYS:
    case SIGCHLD:
      return 0;
    default:
      return number;
  }
}

}  // namespace culprit
