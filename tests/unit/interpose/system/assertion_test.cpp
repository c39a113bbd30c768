// Assertions end a process where they are evaluated (in the sanitized builds), and are no code where they are not.
#include "interpose/base/assertion.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/system/spin_lock.h"
#include "tests/catch.h"

using namespace culprit;

TEST_CASE("an assertion is evaluated in builds with assertions only", "[assertion]") {
  int evaluated = 0;
  CULPRIT_ASSERT(++evaluated > 0);
#ifdef CULPRIT_ASSERTIONS
  CHECK(evaluated == 1);
#else
  CHECK(evaluated == 0);
#endif
}

TEST_CASE("an assertion that does not hold ends the process by SIGABRT where it is evaluated", "[assertion]") {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, [](int) { _exit(1); });  // the program's handler is not asked
    close(STDERR_FILENO);
    static SpinLock lock;
    const SpinGuard guard(lock);
    CULPRIT_ASSERT(holds_no_spin_lock());
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
#ifdef CULPRIT_ASSERTIONS
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(holds_no_spin_lock());
#else
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
#endif
}
