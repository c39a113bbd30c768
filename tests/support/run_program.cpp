#include "tests/support/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace culprit::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
    read_end = above_standard(ends[0]);
    write_end = above_standard(ends[1]);
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // If standard descriptors are closed, a pipe would get one of their numbers, and dup2() in the child would do
  // nothing.
  static int above_standard(int end) {
    if (end > STDERR_FILENO) return end;
    const int higher = fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(end);
    if (higher < 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
    return higher;
  }
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    all[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      all.erase(name);
    } else {
      all[name] = value;
    }
  }
  std::vector<std::string> result;
  for (const auto& [name, value] : all) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> c_array(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Appends what can be read now; false at end of file.
bool drain(int descriptor, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(descriptor, buffer.data(), buffer.size());
  if (count > 0) into.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The line of /proc/PID/maps with this address, and the address's offset in it.
std::string place_of(const std::string& maps, std::uint64_t address) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2 || address < begin || address >= end) continue;
    std::ostringstream text;
    text << line << " + 0x" << std::hex << address - begin;
    return text.str();
  }
  return "?";
}

// Where the threads of a process are: for the message about one that runs past its limit.
std::string threads_of(pid_t pid) {
  const std::filesystem::path process = "/proc/" + std::to_string(pid);
  const std::string maps = text_of_file(process / "maps");
  std::string text;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(process / "task", error)) {
    const std::string call = text_of_file(thread.path() / "syscall");
    const std::size_t last = call.find_last_of(' ');
    const std::uint64_t counter = last == std::string::npos ? 0 : std::strtoull(call.c_str() + last, nullptr, 16);
    text += "test: thread " + text_of_file(thread.path() / "stat") + "test: is in " +
            text_of_file(thread.path() / "wchan") + ", " + call + "test: at " + place_of(maps, counter) + "\n";
  }
  return text;
}

// Ends a program that runs past its limit, and its children.
void end_late(Finished* late) {
  late->timed_out = true;
  late->err += threads_of(late->pid);
  kill(-late->pid, SIGKILL);
}

bool has_line(const std::string& text, const std::string& line) {
  return text.rfind(line + "\n", 0) == 0 || text.find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

Finished run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
  const std::vector<std::string> environment = merged_environment(options.environment);
  std::vector<char*> c_argv = c_array(argv);
  std::vector<char*> c_environment = c_array(environment);
  Pipe in;
  Pipe out;
  Pipe err;

  Finished result;
  result.pid = fork();
  if (result.pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (result.pid == 0) {
    // A process group of its own, so that the time limit also ends the program's children.
    setpgid(0, 0);
    dup2(in.read_end, STDIN_FILENO);
    dup2(out.write_end, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0) _exit(126);
    if (options.before_exec) options.before_exec();
    execve(c_argv[0], c_argv.data(), c_environment.data());
    _exit(127);
  }
  setpgid(result.pid, result.pid);
  Pipe::close_end(in.read_end);
  Pipe::close_end(out.write_end);
  Pipe::close_end(err.write_end);
  if (!options.when_ready) Pipe::close_end(in.write_end);

  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  bool ready_seen = false;
  while (out.read_end >= 0 || err.read_end >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      end_late(&result);
      break;
    }
    std::array<pollfd, 2> waiting{{{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}}};
    poll(waiting.data(), waiting.size(), static_cast<int>(left));
    if (waiting[0].revents != 0 && !drain(out.read_end, result.out)) Pipe::close_end(out.read_end);
    if (waiting[1].revents != 0 && !drain(err.read_end, result.err)) Pipe::close_end(err.read_end);
    if (!ready_seen && options.when_ready && has_line(result.out, "ready")) {
      ready_seen = true;
      options.when_ready(result.pid);
      Pipe::close_end(in.write_end);
    }
  }

  // The pipes are closed; the program has the rest of the time limit to end.
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(result.pid, &status, WNOHANG)) == 0) {
    if (!result.timed_out && Clock::now() > deadline) end_late(&result);
    usleep(1000);
  }
  // If SIGCHLD is ignored, the exit status is lost; do not report success.
  if (ended != result.pid) throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace culprit::test
