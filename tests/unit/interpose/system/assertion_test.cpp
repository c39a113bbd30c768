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

#ifdef CULPRIT_ASSERTIONS
TEST_CASE("an assertion that does not hold ends the process by SIGABRT, whatever its handler does", "[assertion]") {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, [](int) { _exit(0); });
    close(STDERR_FILENO);
    static SpinLock lock;
    const SpinGuard guard(lock);
    CULPRIT_ASSERT(holds_no_spin_lock());
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(holds_no_spin_lock());
}
#endif
