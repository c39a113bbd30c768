#include "report/doctor/nvml_question.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "report/base/environment.h"
#include "report/base/words.h"
#include "report/cuda/library_names.h"
#include "report/doctor/nvml.h"
#include "report/doctor/nvml_users.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void ask(int pipe, const std::string& library, const std::string& proc) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_all_but(pipe);
  const NvmlFacts nvml = read_nvml(library);
  const std::string text = packed(users_of(nvml, read_proc(proc, numbers_in(nvml))));
  ::_exit(write_whole(pipe, text.data(), text.size()) ? 0 : 1);
}

}  // namespace

NvmlQuestion::NvmlQuestion(milliseconds longest)
    : longest_(longest),
      library_(value_or("CULPRIT_NVML", kManagementLibrary)),
      proc_(value_or("CULPRIT_PROC", "/proc")) {}

NvmlQuestion::~NvmlQuestion() {
  if (is_open()) close("");
  collect();
}

void NvmlQuestion::begin() {
  collect();
  text_.clear();
  began_ = steady_clock::now();
  child_ = fork_child([&](int pipe) { ask(pipe, library_, proc_); });
}

// A child that hangs in the driver may take its time to end; it is collected later, or by the system.
void NvmlQuestion::collect() {
  ended_.erase(
      std::remove_if(ended_.begin(), ended_.end(), [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; }),
      ended_.end());
}

bool NvmlQuestion::has_stuck_copy() {
  collect();
  return !ended_.empty();
}

GpuUsers NvmlQuestion::close(const std::string& problem) {
  child_.message.close();
  if (child_.pid > 0) {
    ::kill(child_.pid, SIGKILL);
    ended_.push_back(child_.pid);
  }
  if (problem.empty()) return unpacked(text_);
  GpuUsers users;
  users.problem = problem;
  users.unanswered = true;
  return users;
}

std::optional<GpuUsers> NvmlQuestion::answer(milliseconds wait) {
  if (child_.pid <= 0) return close("NVML cannot be asked: " + std::string(std::strerror(child_.error)));
  const steady_clock::time_point end = std::min(began_ + longest_, steady_clock::now() + wait);
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    pollfd ready = {child_.message.get(), POLLIN, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (count > 0) {
      char part[4096];
      const ssize_t size = ::read(child_.message.get(), part, sizeof(part));
      if (size > 0) {
        text_.append(part, static_cast<std::size_t>(size));
        continue;
      }
      if (size == 0) return close("");
      if (errno != EINTR) return close(std::string("NVML's answer cannot be read: ") + std::strerror(errno));
    } else if (steady_clock::now() >= end) {
      if (steady_clock::now() < began_ + longest_) return std::nullopt;
      return close("NVML did not answer within " +
                   format_time(static_cast<std::uint64_t>(std::chrono::nanoseconds(longest_).count())));
    }
  }
}

GpuUsers ask_for_users(NvmlQuestion* question) {
  question->begin();
  return question->answer(std::chrono::hours(1)).value_or(GpuUsers());
}

}  // namespace culprit::report
