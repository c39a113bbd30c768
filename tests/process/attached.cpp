#include "tests/process/attached.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

std::string status_of(pid_t pid, const std::string& field) {
  const std::string text = "\n" + file_text("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = text.find("\n" + field + ":");
  if (at == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(" \t", at + field.size() + 2);
  return text.substr(begin, text.find('\n', begin) - begin);
}

void check_runs_alone(pid_t pid) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const pid_t thread = static_cast<pid_t>(std::stol(entry.path().filename().string()));
    const std::string tracer = status_of(thread, "TracerPid");
    const char state = (status_of(thread, "State") + "?")[0];
    if (tracer.empty()) continue;  // ended meanwhile
    CHECK(tracer == "0");
    CHECK(state != 'T');
    CHECK(state != 't');
  }
}

void tell(pid_t pid, const std::string& bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/0";
  const int pipe = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(pipe >= 0);
  REQUIRE(write(pipe, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  // It has when its main thread waits in read(0, ...) and there is nothing to read.
  const std::string call = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/syscall";
  for (int i = 0; i < 20000; ++i) {
    const bool reads = file_text(call).compare(0, 6, "0 0x0 ") == 0;
    int left = 1;
    if (reads && ioctl(pipe, FIONREAD, &left) == 0 && left == 0) break;
    usleep(1000);
  }
  close(pipe);
}

void tell(pid_t pid, int leaks) { tell(pid, std::string(static_cast<std::size_t>(leaks), 'x')); }

bool may_trace() {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const bool allowed = ptrace(PTRACE_SEIZE, child, 0, 0) == 0;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!allowed) WARN("skipped: this machine does not allow ptrace");
  return allowed;
}

Run run_alone(const std::string& subject, const std::vector<std::string>& arguments,
              const std::function<void(pid_t)>& work) {
  RunOptions options;
  options.preload = false;
  options.timeout_seconds = 110;
  options.when_ready = work;
  return run_preloaded(subject, arguments, options);
}

void attach_and_detach(pid_t pid, const std::string& dump, const std::function<void()>& meanwhile) {
  const std::string number = std::to_string(pid);
  const Finished attached = run_culprit({"attach", number, "--out", dump, "--timeout", "60s"});
  INFO(attached.err);
  REQUIRE(attached.exit_code == 0);
  if (meanwhile) meanwhile();
  const Finished detached = run_culprit({"detach", number, "--timeout", "60s"});
  INFO(detached.err);
  REQUIRE(detached.exit_code == 0);
}

void check_fine(const Run& run) {
  INFO("stderr: " << run.err);
  CHECK_FALSE(run.timed_out);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "ready\nfine\n");
  CHECK(run.err.empty());
}

}  // namespace culprit::test
