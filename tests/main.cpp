// Beside Catch2's main() in each C++ test program: a uniform environment for every test, however the program was
// started, and a time limit for a test that hangs.
#ifndef CATCH_CONFIG_MAIN
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // of listeners
#endif
#include "tests/catch.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// Longer than any test takes. ctest's own limits are shorter; this one is for programs that are started by hand.
constexpr unsigned kLongestSeconds = 300;

std::string running_test;

// Ends the program, because tests after an aborted one are not reliable.
void on_time_out(int) {
  const char text[] = " ran longer than any test may: the program ends here\n";
  ssize_t written = write(STDERR_FILENO, running_test.c_str(), running_test.size());
  written += write(STDERR_FILENO, text, sizeof(text) - 1);
  _exit(written > 0 ? 124 : 125);
}

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

class TimeLimit : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    running_test = test.name;
    signal(SIGALRM, on_time_out);
    alarm(kLongestSeconds);
  }
  void testCaseEnded(const Catch::TestCaseStats&) override { alarm(0); }
};
CATCH_REGISTER_LISTENER(TimeLimit)

// nohup, background jobs, cron and CI runners start programs with signals ignored or blocked, and some with standard
// descriptors closed. A shell in a test could not reset an ignored signal, and a pipe would become standard input.
//
// A constructor, because main() is Catch2's.
__attribute__((constructor)) void make_environment_uniform() {
  setenv("CULPRIT_CACHE", "off", 0);  // no report shows the names of an earlier one
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  close(descriptor);
}

}  // namespace
