#include "report/attach/injector.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "report/attach/hijacked_thread.h"
#include "report/attach/loader_locks.h"
#include "report/attach/program_kind.h"
#include "report/attach/remote_symbols.h"
#include "report/attach/safe_point.h"
#include "report/attach/seccomp_filters.h"
#include "report/attach/target_limits.h"
#include "report/base/descriptor.h"
#include "report/base/failure.h"
#include "report/base/forked_child.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kLoadNow = 2;                          // RTLD_NOW
constexpr std::uint64_t kLoadAsDlopen = 0x80000000;  // additionally required by __libc_dlopen_mode

constexpr milliseconds kLongestExec{200};
constexpr int kMostFailures = 5;

Deadline after(milliseconds time) { return std::chrono::steady_clock::now() + time; }

milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

// libculprit.so at a path that the process can open: its own, or in a container with other files a copy, which is
// removed after loading.
class LibraryForTarget {
 public:
  LibraryForTarget(const TracedProcess& process, const std::string& library) : path_(library) {
    const std::string seen = process.path_from_here(library);
    struct stat here = {};
    struct stat there = {};
    if (::stat(library.c_str(), &here) == 0 && ::stat(seen.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
        here.st_ino == there.st_ino)
      return;
    std::string why;
    for (const char* place : {"/tmp", "/var/tmp", "/dev/shm", "/run"}) {
      const std::string problem = copy_to(process, library, place);
      if (problem.empty()) return;
      why += (why.empty() ? "" : "; ") + std::string(place) + ": " + problem;
    }
    throw AttachError(process.name() + " has other files than culprit (a container), and libculprit.so cannot be put " +
                      "among them (" + why +
                      "): make one of these places writable, or start the program with culprit run");
  }
  ~LibraryForTarget() { remove(); }
  LibraryForTarget(const LibraryForTarget&) = delete;
  LibraryForTarget& operator=(const LibraryForTarget&) = delete;
  const std::string& path() const { return path_; }

 private:
  // Returns the error; empty on success.
  std::string copy_to(const TracedProcess& process, const std::string& library, const std::string& place) {
    struct statvfs file_system = {};
    std::string folder = process.path_from_here(place + "/culprit-XXXXXX");
    if (::statvfs(process.path_from_here(place).c_str(), &file_system) != 0) return std::strerror(errno);
    if ((file_system.f_flag & ST_NOEXEC) != 0) return "mounted noexec";
    if (::mkdtemp(folder.data()) == nullptr) return std::strerror(errno);
    folder_ = folder;
    std::error_code error;
    fs::copy_file(library, folder + "/libculprit.so", error);
    ::chmod(folder.c_str(), 0755);
    ::chmod((folder + "/libculprit.so").c_str(), 0755);
    path_ = folder.substr(process.path_from_here("").size()) + "/libculprit.so";
    if (!error) return {};
    remove();
    return error.message();
  }
  void remove() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
    folder_.clear();
  }

  std::string path_;
  std::string folder_;
};

// Functions of the process's libc.
struct TargetLibc {
  std::uint64_t open_library = 0;  // dlopen, or __libc_dlopen_mode before glibc 2.34
  std::uint64_t open_mode = kLoadNow;
  std::uint64_t last_error = 0;   // dlerror; 0 = not found
  std::uint64_t error_place = 0;  // __errno_location
  ReturnCode code;
  std::vector<MappedRange> loader_data;
};

bool is_part_of(const MappedRange& range, const std::vector<std::string>& names) {
  const std::string name = range.path.substr(range.path.rfind('/') + 1);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& wanted) { return name.compare(0, wanted.size(), wanted) == 0; });
}

void read_code(const TracedProcess& process, const std::vector<MappedRange>& mappings,
               const std::vector<std::string>& names, ReturnCode* code) {
  for (const MappedRange& range : mappings) {
    if (!range.executable || !is_part_of(range, names)) continue;
    std::vector<unsigned char> bytes(range.end - range.begin);
    if (!process.read_memory(range.begin, bytes.data(), bytes.size())) process.explain_refusal(errno);
    find_return_code(bytes, range.begin, code);
  }
}

TargetLibc look_at_libc(const TracedProcess& process) {
  const std::vector<std::string> libc_names = {"libc.so.6", "libc-2."};
  const std::vector<MappedRange> mappings = process.mappings();
  check_libc(process, mappings);
  const RemoteModule libc = find_module(process, mappings, libc_names);
  TargetLibc result;
  result.open_library = find_function(libc, "dlopen");
  result.last_error = find_function(libc, "dlerror");
  result.error_place = find_function(libc, "__errno_location");
  if (result.open_library == 0) {
    result.open_library = find_function(libc, "__libc_dlopen_mode");
    result.open_mode |= kLoadAsDlopen;
  }
  read_code(process, mappings, libc_names, &result.code);
  if (result.open_library == 0 || result.code.system_call == 0 || result.code.signal_return == 0)
    throw AttachError("the libc of " + process.name() + " (" + libc.path +
                      ") is unknown to culprit: start the program with culprit run");
  result.loader_data = loader_data(mappings);
  return result;
}

// First the threads outside of system calls that a stop interrupts visibly. Such a call is repeated afterwards, but not
// if culprit is killed at that very moment.
std::vector<pid_t> threads_to_try(const TracedProcess& process) {
  std::vector<pid_t> threads = process.threads();
  std::stable_partition(threads.begin(), threads.end(), [&](pid_t thread) {
    const std::optional<long> call = process.system_call(thread);
    return !call || !is_seen_when_stopped(*call);
  });
  return threads;
}

// Stops a thread that can be borrowed. Threads whose stack does not end properly are used only when time gets short.
pid_t stop_safe_thread(const TracedProcess& process, StopWaiter* waiter, milliseconds limit) {
  const Deadline end = after(limit);
  const Deadline choosy = after(limit * 2 / 3);
  std::string where = "no thread was seen";
  std::set<pid_t> busy;  // asked to stop, still running
  for (int round = 0; waiter->interrupted() == 0; ++round) {
    SafePointFinder finder(process);
    for (const pid_t thread : threads_to_try(process)) {
      if (waiter->interrupted() != 0) break;
      const bool again = busy.count(thread) != 0;
      const Deadline patience = after(milliseconds(again ? 0 : 100));
      switch (HijackedThread::stop(process, thread, again, waiter, std::min(end, patience))) {
        case HijackedThread::Stop::kGone:
          busy.erase(thread);
          continue;
        case HijackedThread::Stop::kBusy:
          busy.insert(thread);
          where = "thread " + std::to_string(thread) + " in the kernel, which does not let it stop";
          continue;
        case HijackedThread::Stop::kGroupStopped:
          HijackedThread::release(thread);
          throw AttachError(process.name() + " was stopped meanwhile: continue it first (kill -CONT " +
                            std::to_string(process.pid()) + ")");
        case HijackedThread::Stop::kStopped:
          busy.erase(thread);
          break;
      }
      std::string found;
      SafePoint point = finder.look_at(thread, &found);
      if (point != SafePoint::kUnsafe && HijackedThread::in_restartable_sequence(process, thread)) {
        point = SafePoint::kUnsafe;
        found = "a restartable sequence";
      }
      if (point == SafePoint::kSafe || (point == SafePoint::kUnknown && std::chrono::steady_clock::now() > choosy))
        return thread;
      where = "thread " + std::to_string(thread) + " in " + found;
      HijackedThread::release(thread);
      if (std::chrono::steady_clock::now() > end) break;
    }
    if (std::chrono::steady_clock::now() > end) break;
    if (!process.is_alive()) throw AttachError(process.name() + " has ended");
    waiter->pause(milliseconds(round < 20 ? 1 : 20));
  }
  if (waiter->interrupted() != 0) return 0;
  throw AttachError("no thread of " + process.name() + " came to a point where a call can be injected (last: " + where +
                    "): nothing was changed; try again, or with a longer --timeout");
}

class Session {
 public:
  Session(const TracedProcess& process, const InjectionOrder& order)
      : process_(process), order_(order), deadline_(after(order.limit)) {}

  // Throws AttachError with the true reason: much fails in other ways when the program ends, or is replaced.
  format::AttachRequest run(int* interrupted) try { return work(interrupted); } catch (const AttachError&) {
    // An exec ends the other threads some time before the new program is there.
    for (const Deadline end = after(kLongestExec);;) {
      if (!process_.is_alive()) throw AttachError(process_.name() + " has ended");
      if (!program_.empty() && program_mark(process_) != program_)
        throw AttachError(process_.name() + " replaced itself by another program (exec) meanwhile: try again");
      if (!thread_is_stopped_ || std::chrono::steady_clock::now() > end) break;
      waiter_.pause(milliseconds(5));
    }
    throw;
  }

 private:
  format::AttachRequest work(int* interrupted) {
    TargetLibc libc;
    std::optional<LibraryForTarget> library;
    bool loaded = false;
    const pid_t thread = stop_thread(&libc, &library, &loaded);
    *interrupted = waiter_.interrupted();
    if (*interrupted != 0) return order_.request;

    HijackedThread hijacked(process_, thread, libc.code, &waiter_);
    hijacked.set_loader_data(libc.loader_data);
    hijacked.map_memory(sizeof(format::AttachRequest) + 8192, deadline_);
    std::uint64_t value = 0;
    if (libc.error_place != 0) {
      check(hijacked, hijacked.call(libc.error_place, {}, deadline_, &value));
      hijacked.keep_errno(value);
    }
    if (!loaded) load(&hijacked, libc, library->path());
    format::AttachRequest answer = order_.request;
    if (waiter_.interrupted() == 0)
      answer = ask(&hijacked, order_.what == Injection::kAttach ? "culprit_attach" : "culprit_detach");
    if (waiter_.interrupted() != 0 && order_.what == Injection::kAttach && answer.result == format::AttachResult::kDone)
      ask(&hijacked, "culprit_detach");
    if (!hijacked.put_back()) throw AttachError(process_.name() + " ended meanwhile");
    *interrupted = waiter_.interrupted();
    return answer;
  }

  // Looks at the program and stops a thread of it. Begins again when the program was replaced (exec) in between,
  // because what was found is then another program's. Returns 0 when it was interrupted.
  pid_t stop_thread(TargetLibc* libc, std::optional<LibraryForTarget>* library, bool* loaded) {
    int failures = 0;
    while (true) {
      const auto begin = std::chrono::steady_clock::now();
      program_ = program_mark(process_);
      const auto replaced = [&] { return process_.is_alive() && program_mark(process_) != program_; };
      try {
        if (::access(process_.path_from_here("/").c_str(), F_OK) != 0) process_.explain_refusal(errno);
        check_seccomp(process_);
        *libc = look_at_libc(process_);
        *loaded = !mapped_library(process_.mappings()).empty();
        if (!*loaded && order_.what == Injection::kDetach)
          throw AttachError(describe_result(process_, format::AttachResult::kNotAttached));
        if (!*loaded) check_limits(process_);
        if (!*loaded && !*library) library->emplace(process_, order_.library);
        const pid_t thread = stop_safe_thread(process_, &waiter_, left_until(deadline_) / 2);
        if (thread == 0) return 0;
        if (!replaced() && mapped_library(process_.mappings()).empty() != *loaded) {
          try {
            check_stopped(thread, *libc);
          } catch (...) {
            HijackedThread::release(thread);
            throw;
          }
          thread_is_stopped_ = true;
          return thread;
        }
        HijackedThread::release(thread);
      } catch (const StillStarting&) {
        if (left_until(deadline_).count() == 0) throw;
        waiter_.pause(milliseconds(1));
      } catch (const AttachError&) {
        if (!process_.is_alive()) throw AttachError(process_.name() + " has ended");
        // Facts that are read in the middle of an exec may fit neither program: only repeated failures count.
        const bool at_once = std::chrono::steady_clock::now() - begin < milliseconds(100);
        if (!replaced() && (++failures == kMostFailures || !at_once)) throw;
        waiter_.pause(milliseconds(10));
      }
      if (waiter_.interrupted() != 0) return 0;
      if (left_until(deadline_).count() == 0) {
        throw AttachError(process_.name() +
                          " is replaced by another program (exec) all the time: nothing was changed; try again later");
      }
    }
  }

  // Looks at the rest, which needs a stopped thread. Throws AttachError.
  void check_stopped(pid_t thread, const TargetLibc& libc) const {
    check_filters_of_thread(process_, thread);
    // The thread is outside of the loader.
    if (owns_loader_lock(process_, libc.loader_data, thread)) {
      throw AttachError("a call of an earlier attach crashed in " + process_.name() +
                        ", and its loader's lock was left taken: restart the program under culprit run");
    }
  }

  void load(HijackedThread* hijacked, const TargetLibc& libc, const std::string& path) {
    const std::uint64_t text = hijacked->memory() + sizeof(format::AttachRequest);
    hijacked->write(text, path.c_str(), path.size() + 1);
    check(*hijacked, hijacked->call(libc.open_library, {text, libc.open_mode}, deadline_, nullptr));
    if (!mapped_library(process_.mappings()).empty()) return;
    std::uint64_t message = 0;
    if (libc.last_error != 0) check(*hijacked, hijacked->call(libc.last_error, {}, deadline_, &message));
    const std::string why = message != 0 ? hijacked->read_text(message) : "the loader does not say why";
    hijacked->put_back();
    throw AttachError("libculprit.so could not be loaded into " + process_.name() + ": " + why);
  }

  format::AttachRequest ask(HijackedThread* hijacked, const std::string& function) {
    const RemoteModule library = find_module(process_, process_.mappings(), {"libculprit.so"});
    const std::uint64_t address = library.path.empty() ? 0 : find_function(library_on_disk(library), function);
    if (library.path.empty()) check(*hijacked, CallEnd::kGone);
    if (address == 0) {
      hijacked->put_back();
      throw AttachError("the libculprit.so in " + process_.name() + " is of another version: it has no " + function);
    }
    format::AttachRequest request = order_.request;
    request.version = format::kAttachVersion;
    request.time_limit_ms =
        static_cast<std::uint64_t>(std::max(left_until(deadline_) * 3 / 4, milliseconds(200)).count());
    hijacked->write(hijacked->memory(), &request, sizeof(request));
    // The library observes the limit itself; the extra time is for the call and its return.
    check(*hijacked, hijacked->call(address, {hijacked->memory()},
                                    after(milliseconds(request.time_limit_ms) + milliseconds(3000)), nullptr));
    if (!hijacked->read(hijacked->memory(), &request, sizeof(request)) || request.result == format::AttachResult::kNone)
      throw AttachError("the libculprit.so in " + process_.name() + " gave no answer");
    return request;
  }

  // A copy in a container is removed after loading, so the symbols are read from the original.
  RemoteModule library_on_disk(RemoteModule library) const {
    if (::access(library.file.c_str(), R_OK) != 0 || library.file.find("/map_files/") != std::string::npos)
      library.file = order_.library;
    return library;
  }

  void check(const HijackedThread& hijacked, CallEnd end) const {
    switch (end) {
      case CallEnd::kReturned:
        return;
      case CallEnd::kGone:
        throw AttachError(process_.name() + (process_.is_alive()
                                                 ? " replaced itself by another program (exec) meanwhile: try again"
                                                 : " ended meanwhile"));
      case CallEnd::kCrashed:
        throw AttachError(crashed(hijacked));
      case CallEnd::kBlocked:
        throw AttachError("another thread of " + process_.name() +
                          " is loading a library and does not finish: nothing was changed; try again later");
      case CallEnd::kLeftRunning:
        throw AttachError("the time-out was reached while the library was being loaded into " + process_.name() +
                          ": the thread finishes loading and then continues its own work; try again later");
    }
  }

  std::string crashed(const HijackedThread& hijacked) const {
    std::string left = hijacked.left_behind();
    if (process_.is_alive() && !mapped_library(process_.mappings()).empty())
      left += (left.empty() ? "" : ", and ") + std::string("libculprit.so stays loaded");
    return "the injected call crashed in " + process_.name() + " (" + hijacked.crash() +
           "). Its thread was put back where it was, but nothing should be loaded into the process any more" +
           (left.empty() ? "" : ": " + left) + ". Restart the program under culprit run";
  }

  const TracedProcess& process_;
  const InjectionOrder& order_;
  const Deadline deadline_;
  StopWaiter waiter_;
  std::string program_;  // the mark of the program that was looked at
  bool thread_is_stopped_ = false;
};

// The child process's message to its parent.
struct Told {
  std::int32_t interrupted = 0;
  std::uint32_t failed = 0;  // `error` has the reason
  format::AttachRequest answer = {};
  char error[4096] = {};
};

[[noreturn]] void work_as_child(const TracedProcess& process, const InjectionOrder& order, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  Told told;
  int interrupted = 0;
  try {
    told.answer = Session(process, order).run(&interrupted);
  } catch (const std::exception& error) {
    told.failed = 1;
    std::strncpy(told.error, failure_words(error), sizeof(told.error) - 1);
  }
  told.interrupted = interrupted;
  write_whole(fd, &told, sizeof(told));
  ::_exit(0);
}

}  // namespace

format::AttachRequest inject(const TracedProcess& process, const InjectionOrder& order, int* interrupted) {
  *interrupted = 0;
  if (!can_inject()) throw AttachError("culprit can attach on x86-64 only");
  process.check_attachable();
  // Signals to this process are passed to the child, which restores everything and ends by itself.
  sigset_t watched;
  sigset_t before;
  sigemptyset(&watched);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&watched, number);
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  ForkedChild child = fork_child([&](int pipe) { work_as_child(process, order, pipe); });
  const Descriptor signals(::signalfd(-1, &watched, SFD_CLOEXEC));
  Told told;
  std::size_t done = 0;
  while (child.pid > 0 && done < sizeof(told)) {
    pollfd ready[] = {{child.message.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
    if (::poll(ready, signals.is_open() ? 2 : 1, -1) < 0 && errno != EINTR) break;
    if ((ready[1].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      if (::read(signals.get(), &info, sizeof(info)) == sizeof(info)) ::kill(child.pid, SIGTERM);
    }
    if (ready[0].revents == 0) continue;
    const ssize_t count = ::read(child.message.get(), reinterpret_cast<char*>(&told) + done, sizeof(told) - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  child.message.close();
  int status = 0;
  while (child.pid > 0 && ::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child.pid < 0)
    throw AttachError(std::string("the process that attaches could not be started: ") + std::strerror(child.error));
  if (done != sizeof(told))
    throw AttachError("the process that attaches was killed: " + process.name() +
                      " runs on, and may be attached or not");
  if (told.failed != 0) throw AttachError(told.error);
  *interrupted = told.interrupted;
  return told.answer;
}

std::string describe_result(const TracedProcess& process, format::AttachResult result) {
  format::AttachRequest answer = {};
  answer.result = result;
  return describe_result(process, answer);
}

std::string describe_result(const TracedProcess& process, const format::AttachRequest& answer) {
  const std::string name = process.name();
  switch (answer.result) {
    case format::AttachResult::kDone:
      return {};
    case format::AttachResult::kNone:
      break;
    case format::AttachResult::kOtherVersion:
      return "the libculprit.so in " + name + " is of another version than this culprit";
    case format::AttachResult::kPreloaded:
      return name +
             " runs under libculprit.so from its start, and records by itself: there is nothing to attach or to " +
             "detach (one that was prepared with culprit run --paused is switched by culprit start and culprit stop)";
    case format::AttachResult::kAlready:
      return name + " is attached already: culprit detach " + std::to_string(process.pid()) + " ends that";
    case format::AttachResult::kNotAttached:
      return name + " is not attached";
    case format::AttachResult::kBusy:
      return "a thread of " + name +
             " is still in a CUDA call that it made when the process was attached last: try again " + "later";
    case format::AttachResult::kLoading:
      return "another thread of " + name +
             " is loading a library and does not finish: nothing was changed; try again later";
    case format::AttachResult::kInProgress:
      return "another attach or detach is at work in " + name + ", or was broken off there: try again later";
    case format::AttachResult::kNoDump:
      return "the dump cannot be created by " + name + ": " + std::strerror(answer.error) +
             "; name a place that it may write to with --out";
    case format::AttachResult::kNoMemory:
      return name + " cannot look at its own memory (a sandbox, or no memory left): nothing was changed";
    case format::AttachResult::kNoCupti:
      return name + " has no libcupti, and none was found: set CULPRIT_CUPTI to the toolkit's libcupti.so";
    case format::AttachResult::kCuptiTaken:
      return "another tool holds CUPTI in " + name + " (a profiler): end it first, or use --backend redirect";
    case format::AttachResult::kNoDriver:
      return name + " has not used CUDA yet, and CUPTI can only be attached afterwards: use --backend redirect";
    case format::AttachResult::kCuptiFailed:
      return "CUPTI refused in " + name + ": error " + std::to_string(answer.error);
  }
  return "the libculprit.so in " + name + " gave no answer";
}

}  // namespace culprit::report
