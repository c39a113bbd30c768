#include "report/attach/injector.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "report/attach/read_ahead.h"
#include "report/attach/registers.h"
#include "report/attach/session.h"
#include "report/attach/stage.h"
#include "report/attach/stop_waiter.h"
#include "report/base/descriptor.h"
#include "report/base/failure.h"
#include "report/base/forked_child.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

// The child process's message to its parent.
struct Told {
  InjectionFacts facts;
  std::uint32_t failed = 0;  // `error` has the reason
  format::AttachRequest answer = {};
  char error[4096] = {};
};

// How long the attaching process may be silent: longer than any wait of its own.
milliseconds longest_silence(const InjectionOrder& order) {
  return std::max(order.limit, milliseconds(3000)) + milliseconds(2000);
}
constexpr milliseconds kLongestSilenceAfterSignal{2000};
constexpr milliseconds kPollTime{100};
constexpr milliseconds kSuspended{1000};  // between two polls: both processes were

// Ends a process that does not go on. One that the kernel does not let end is left alone.
void end_child(pid_t child, int* status) {
  ::kill(child, SIGKILL);
  for (int i = 0; i < 100 && ::waitpid(child, status, WNOHANG) == 0; ++i) ::usleep(10000);
}

[[noreturn]] void work_as_child(const TracedProcess& process, const InjectionOrder& order, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::prctl(PR_SET_TIMERSLACK, 1);  // a thread of the program waits for this process
  Told told;
  try {
    read_own_code_ahead();
    told.answer = inject_here(process, order, &told.facts);
  } catch (const std::exception& error) {
    told.failed = 1;
    std::strncpy(told.error, failure_words(error), sizeof(told.error) - 1);
  }
  write_whole(fd, &told, sizeof(told));
  ::_exit(0);
}

}  // namespace

format::AttachRequest inject(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts) {
  const Deadline begin = std::chrono::steady_clock::now();
  if (!can_inject()) throw AttachError("culprit can attach on x86-64 only");
  process.check_attachable();
  // Signals to this process are passed to the child, which restores everything and ends by itself.
  sigset_t watched;
  sigset_t before;
  sigemptyset(&watched);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&watched, number);
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  const SharedStage stage;
  ForkedChild child = fork_child([&](int pipe) { work_as_child(process, order, pipe); });
  const Descriptor signals(::signalfd(-1, &watched, SFD_CLOEXEC));
  Told told;
  std::size_t done = 0;
  milliseconds patience = longest_silence(order);
  std::uint32_t count = stage.count();
  Deadline silent = after(patience);
  bool stuck = false;
  Deadline polled = after(milliseconds(0));
  while (child.pid > 0 && done < sizeof(told)) {
    pollfd ready[] = {{child.message.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
    if (::poll(ready, signals.is_open() ? 2 : 1, static_cast<int>(kPollTime.count())) < 0 && errno != EINTR) break;
    if ((ready[1].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      if (::read(signals.get(), &info, sizeof(info)) == sizeof(info)) ::kill(child.pid, SIGTERM);
      patience = std::min(patience, kLongestSilenceAfterSignal);
      silent = after(patience);
    }
    if (stage.count() != count || after(-kSuspended) > polled) silent = after(patience);
    count = stage.count();
    polled = after(milliseconds(0));
    stuck = after(milliseconds(0)) >= silent;
    if (stuck) break;
    if (ready[0].revents == 0) continue;
    const ssize_t got = ::read(child.message.get(), reinterpret_cast<char*>(&told) + done, sizeof(told) - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  child.message.close();
  int status = 0;
  if (stuck) end_child(child.pid, &status);
  while (!stuck && child.pid > 0 && ::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child.pid < 0)
    throw AttachError(std::string("the process that attaches could not be started: ") + std::strerror(child.error));
  if (stuck) {
    throw AttachError("culprit did not go on for " +
                      format_time(static_cast<std::uint64_t>(patience.count()) * 1000000) + " while it was " +
                      stage.name() + ", and gave up: " + process.name() + " runs on, and may be attached or not");
  }
  if (done != sizeof(told))
    throw AttachError("the process that attaches was killed: " + process.name() +
                      " runs on, and may be attached or not");
  if (told.failed != 0) throw AttachError(told.error);
  *facts = told.facts;
  facts->took = std::chrono::steady_clock::now() - begin;
  return told.answer;
}

}  // namespace culprit::report
