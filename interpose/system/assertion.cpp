// Only in builds whose assertions are evaluated.
#include "interpose/base/assertion.h"

#ifdef CULPRIT_ASSERTIONS

#include <signal.h>
#include <unistd.h>

#include "interpose/base/text_writer.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

CULPRIT_OWN __thread int held_spin_locks __attribute__((tls_model("initial-exec"))) = 0;

void assertion_failed(const char* condition, const char* file, int line) {
  char text[512];
  TextWriter writer(text, sizeof(text));
  writer << "culprit: assertion failed: " << condition << " at " << file << ":" << line << "\n";
  system_call(SYS_write, STDERR_FILENO, text, writer.length());
  // Not abort(): a program may have interposed it, or handle SIGABRT and go on.
  const struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } default_action = {SIG_DFL, 0, nullptr, 0};
  system_call(SYS_rt_sigaction, SIGABRT, &default_action, nullptr, sizeof(unsigned long));
  const unsigned long none = 0;
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(unsigned long));
  system_call(SYS_tgkill, system_call(SYS_getpid), system_call(SYS_gettid), SIGABRT);
  for (;;) system_call(SYS_exit_group, 134);
}

}  // namespace culprit

#endif
