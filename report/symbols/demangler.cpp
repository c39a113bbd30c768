#include "report/symbols/demangler.h"

#include <cxxabi.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "report/base/descriptor.h"
#include "report/base/forked_child.h"

namespace culprit::report {
namespace {

// In one step a name of so many references has at most 256 times its length.
constexpr int kFewReferences = 8;
constexpr std::size_t kLongestMangled = 16 << 10;
constexpr std::size_t kLongestDemangled = 64 << 10;
constexpr int kMostMilliseconds = 300;  // of processor time
constexpr int kMostWallMilliseconds = 5000;
constexpr std::uint64_t kMostMemory = 64 << 20;
constexpr int kMostKills = 5;  // after so many names that had to be stopped, no more are tried

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

std::string demangle_here(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(symbol, nullptr, nullptr, &status));
  return status == 0 && text && std::strlen(text.get()) <= kLongestDemangled ? text.get() : std::string();
}

// Back references (S_, S0_, T_, T0_) and expansions of parameter packs (Dp, sp), some of which may be parts of names.
bool has_many_references(const char* symbol) {
  int count = 0;
  for (const char* at = symbol; *at != '\0'; ++at) {
    if (*at == 'S' || *at == 'T') {
      const char* end = at + 1;
      while (std::isdigit(static_cast<unsigned char>(*end)) != 0 || (*end >= 'A' && *end <= 'Z')) ++end;
      count += *end == '_' ? 1 : 0;
    } else if ((*at == 'D' || *at == 's') && at[1] == 'p') {
      count += kFewReferences / 2;
    }
  }
  return count > kFewReferences;
}

// MSG_NOSIGNAL, because the other end may be gone.
bool send_whole(int fd, const void* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::send(fd, static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

bool write_text(int fd, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  return send_whole(fd, &size, sizeof(size)) && send_whole(fd, text.data(), text.size());
}

bool read_text(int fd, std::size_t most, std::string* text) {
  std::uint32_t size = 0;
  if (!read_whole(fd, &size, sizeof(size)) || size > most) return false;
  text->resize(size);
  return read_whole(fd, text->data(), size);
}

void limit_memory() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return;
  const bool known = std::fscanf(file, "%lu", &pages) == 1;
  std::fclose(file);
  const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + kMostMemory;
  rlimit limit = {most, most};
  if (known) ::setrlimit(RLIMIT_AS, &limit);
}

// The process that can be killed. It ends when the other end of the socket is closed.
[[noreturn]] void serve(int socket) {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (fd != socket) ::close(fd);
  }
  ::signal(SIGVTALRM, SIG_DFL);
  sigset_t all;
  sigemptyset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  limit_memory();
  const itimerval none = {};
  itimerval some = {};
  some.it_value.tv_usec = kMostMilliseconds * 1000;
  std::string text;
  while (read_text(socket, kLongestMangled, &text)) {
    ::setitimer(ITIMER_VIRTUAL, &some, nullptr);
    text = demangle_here(text.c_str());
    ::setitimer(ITIMER_VIRTUAL, &none, nullptr);
    if (!write_text(socket, text)) break;
  }
  ::_exit(0);
}

class Helper {
 public:
  ~Helper() { end(); }

  std::string ask(const std::string& symbol) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string answer;
    if (kills_ == kMostKills || (pid_ < 0 && !start())) return answer;
    pollfd ready = {socket_.get(), POLLIN, 0};
    if (write_text(socket_.get(), symbol) && ::poll(&ready, 1, kMostWallMilliseconds) == 1 &&
        read_text(socket_.get(), kLongestDemangled, &answer))
      return answer;
    ++kills_;
    end();
    return {};
  }

 private:
  bool start() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    socket_ = Descriptor(ends[0]);
    Descriptor other(ends[1]);
    pid_ = fork_child([&](int) {
             socket_.close();
             serve(other.get());
           }).pid;
    return pid_ > 0;
  }

  void end() {
    socket_.close();
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  std::mutex mutex_;
  Descriptor socket_;
  pid_t pid_ = -1;
  int kills_ = 0;
};

Helper& helper() {
  static Helper one;
  return one;
}

}  // namespace

std::string demangled(const char* symbol) {
  if (::strnlen(symbol, kLongestMangled) == kLongestMangled) return {};
  return has_many_references(symbol) ? helper().ask(symbol) : demangle_here(symbol);
}

}  // namespace culprit::report
