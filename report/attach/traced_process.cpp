#include "report/attach/traced_process.h"

#include <elf.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "report/base/printable.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

// CAP_SYS_PTRACE of the kernel's include/uapi/linux/capability.h.
constexpr int kCapabilityToTrace = 19;
constexpr int kTriesForEnd = 20;
constexpr char kNameOfCulprit[] = "culprit";

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t\n")); }

std::uint64_t capabilities(const ProcessFolder& process, const std::string& field) {
  return std::strtoull(process.status(field).c_str(), nullptr, 16);
}

std::string effective_user(const ProcessFolder& process) {
  std::istringstream ids(process.status("Uid"));
  std::string real, effective;
  ids >> real >> effective;
  return effective;
}

std::string user_name(const std::string& uid) {
  const passwd* known = ::getpwuid(static_cast<uid_t>(std::strtoul(uid.c_str(), nullptr, 10)));
  return known != nullptr ? known->pw_name : "user " + uid;
}

bool same_place(const std::string& left, const std::string& right) {
  struct stat a = {};
  struct stat b = {};
  return ::stat(left.c_str(), &a) == 0 && ::stat(right.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

TracedProcess::TracedProcess(pid_t pid, std::string proc)
    : pid_(pid), proc_(std::move(proc)), folder_(proc_, std::to_string(pid)), own_(proc_, "self") {
  const std::optional<ProcessStat> stat = folder_.stat();
  if (pid <= 0 || !stat) {
    throw AttachError(
        "there is no process " + std::to_string(pid) +
        " here. A container numbers its processes itself: use the number that ps shows where culprit runs");
  }
  // Threads have folders, too; the target is the thread group, whose id users know as the pid.
  const std::string leader = folder_.status("Tgid");
  if (!leader.empty() && leader != std::to_string(pid))
    throw AttachError(std::to_string(pid) + " is a thread of process " + leader + ": use that number");
  start_time_ = stat->start_ticks;
  first_name_ = folder_.name();
}

std::string TracedProcess::name() const {
  const std::string now = folder_.name();
  return printable(now.empty() ? first_name_ : now) + " [" + std::to_string(pid_) + "]";
}

bool TracedProcess::is_alive() const {
  // While a thread other than the first executes another program, /proc shows for a moment no thread that lives: on
  // busy processors for tens of milliseconds.
  for (int tries = 0; tries < 100; ++tries) {
    if (tries != 0) ::usleep(2000);
    const std::optional<ProcessStat> stat = folder_.stat();
    if (!stat) return false;
    if (stat->start_ticks == start_time_ && !folder_.has_ended()) return true;
  }
  return false;
}

pid_t TracedProcess::living_thread() const {
  const std::optional<ProcessStat> first = folder_.stat();
  if (first && !first->has_ended()) return pid_;
  const std::vector<pid_t> alive = threads();
  return alive.empty() ? pid_ : alive.front();
}

pid_t TracedProcess::tracer_of(pid_t thread) const {
  const ProcessFolder folder = thread == pid_ ? folder_ : folder_.thread(static_cast<std::uint32_t>(thread));
  return std::atoi(folder.status("TracerPid").c_str());
}

// Another process that traces one of its threads, for the user; empty: there is none.
std::string TracedProcess::tracer() const {
  std::vector<std::uint32_t> all = folder_.threads();
  all.insert(all.begin(), static_cast<std::uint32_t>(pid_));
  for (const std::uint32_t thread : all) {
    const pid_t number = tracer_of(static_cast<pid_t>(thread));
    if (number == 0 || number == ::getpid()) continue;
    const std::string pid = std::to_string(number);
    const std::string who = ProcessFolder(proc_, pid).name();
    if (who == kNameOfCulprit)
      return name() + " has another culprit at work in it, process " + pid + ": try again later";
    std::string text = name() + " is traced by ";
    if (!who.empty()) text.append(who).append(", ");
    return text.append("process ").append(pid).append(": a debugger or strace; let it detach first");
  }
  return {};
}

void TracedProcess::check_attachable() const {
  if (pid_ == ::getpid()) throw AttachError("this process is culprit itself: name another one");
  const ProcessStat stat = folder_.stat().value_or(ProcessStat());
  if (!is_alive()) {
    throw AttachError(name() + " has ended, and its parent, process " + std::to_string(stat.parent) +
                      ", has not collected it yet (a zombie)");
  }
  if (stat.kernel_thread) throw AttachError(name() + " is a thread of the kernel: nothing can be loaded into it");
  if (stat.state == 'T')
    throw AttachError(name() + " is stopped: continue it first (kill -CONT " + std::to_string(pid_) + ")");
  if (folder_.status("CoreDumping") == "1")
    throw AttachError(name() + " has crashed, and the system is writing its core file");
  const std::string traced = tracer();
  if (!traced.empty()) throw AttachError(traced);
  const std::string uid = first_word(folder_.status("Uid"));
  const std::string own = effective_user(own_);
  if (own != "0" && uid != own)
    throw AttachError(name() + " belongs to " + user_name(uid) + ": run culprit as that user, or as root");
  if (folder_.status("x86_Thread_features").find("shstk") != std::string::npos)
    throw AttachError(name() + " runs with shadow stacks, which forbid an injected call: start it with culprit run");

  const std::string head = folder_.living().program_head(EI_NIDENT);
  if (head.size() == EI_NIDENT && (head.compare(0, SELFMAG, ELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64))
    throw AttachError(name() + " is not a 64-bit program: libculprit.so needs one");
}

// Why tracing is refused to a user without root, or to root without the capability.
std::string TracedProcess::why_not_root() const {
  const std::string scope = ptrace_scope(proc_);
  const std::string as_root = "run culprit as root (sudo culprit attach " + std::to_string(pid_) + ")";
  if (effective_user(own_) == "0") {
    return "in a container it needs the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE); or run culprit on the "
           "host";
  }
  const std::optional<std::uint32_t> owner = folder_.owner();
  if (owner && std::to_string(*owner) != first_word(folder_.status("Uid"))) {
    return "it has made itself undumpable, as programs with secrets or a changed user do, or its file may not "
           "be read: " +
           as_root;
  }
  if (scope == "1" || scope == "2") {
    return "/proc/sys/kernel/yama/ptrace_scope is " + scope + ", so " + as_root +
           ", or start the program with culprit run";
  }
  if ((capabilities(folder_, "CapPrm") & ~capabilities(own_, "CapPrm")) != 0)
    return "it has capabilities that culprit does not have: " + as_root;
  return as_root;
}

// Why tracing is refused even with the capability SYS_PTRACE.
std::string TracedProcess::why_not_even_root() const {
  if (own_.status("Seccomp") == "2") {
    return "a seccomp filter around culprit forbids it (docker run --security-opt seccomp=unconfined lifts Docker's); "
           "or run culprit on the host";
  }
  if (folder_.link("ns/user") != own_.link("ns/user"))
    return "it is in a user namespace over which this root has no power: run culprit on the host, as the host's root";
  return "a security module (SELinux, AppArmor) forbids it; the system's log tells which rule";
}

void TracedProcess::explain_refusal(int error) const {
  // A process that is ending has no memory any more, and refuses, before it is seen as ended.
  for (int tries = 0; tries < kTriesForEnd; ++tries) {
    if (error == ESRCH || !is_alive()) throw AttachError(name() + " has ended");
    const std::optional<ProcessStat> stat = folder_.living().stat();
    if (stat && !stat->ending) break;
    ::usleep(10000);
  }
  const std::string traced = tracer();
  if (!traced.empty()) throw AttachError(traced);
  const std::string why = "the system does not let culprit trace " + name() + " (" + std::strerror(error) + "): ";
  if (ptrace_scope(proc_) == "3") {
    throw AttachError(why +
                      "/proc/sys/kernel/yama/ptrace_scope is 3, which forbids tracing until the next boot; start the "
                      "program with culprit run");
  }
  const bool may = (capabilities(own_, "CapEff") >> kCapabilityToTrace & 1) != 0;
  throw AttachError(why + (may ? why_not_even_root() : why_not_root()));
}

std::vector<MappedRange> TracedProcess::mappings() const {
  std::vector<MappedRange> result;
  // There are none for a moment while a thread executes another program.
  for (int tries = 0; result.empty() && tries < kTriesForEnd; ++tries) {
    if (tries != 0) ::usleep(1000);
    folder_.living().for_each_mapping([&](const MappedRange& range) { result.push_back(range); });
    if (result.empty() && !is_alive()) break;
  }
  if (result.empty()) {
    if (!is_alive()) throw AttachError(name() + " has ended");
    explain_refusal(EACCES);
  }
  return result;
}

std::vector<pid_t> TracedProcess::threads() const {
  std::vector<pid_t> result;
  for (const std::uint32_t thread : folder_.threads()) {
    const std::optional<ProcessStat> stat = folder_.thread(thread).stat();
    if (!stat || (!stat->has_ended() && !stat->kernel_thread)) result.push_back(static_cast<pid_t>(thread));
  }
  return result;
}

std::string TracedProcess::path_from_here(const std::string& path) const { return folder_.living().root() + path; }

bool TracedProcess::same_files() const {
  const ProcessFolder alive = folder_.living();
  return same_place(alive.root(), own_.root()) && same_place(alive.path() + "/ns/mnt", own_.path() + "/ns/mnt");
}

bool TracedProcess::read_or_write(bool write, std::uint64_t address, void* data, std::size_t size) const {
  const auto copy = [&](pid_t thread) {
    iovec local = {data, size};
    iovec remote = {reinterpret_cast<void*>(address), size};
    const ssize_t count = write ? ::process_vm_writev(thread, &local, 1, &remote, 1, 0)
                                : ::process_vm_readv(thread, &local, 1, &remote, 1, 0);
    return count == static_cast<ssize_t>(size);
  };
  if (copy(pid_)) return true;
  const int error = errno;
  const pid_t thread = error == ESRCH ? living_thread() : pid_;
  if (thread != pid_) return copy(thread);
  errno = error;
  return false;
}

bool TracedProcess::read_memory(std::uint64_t address, void* data, std::size_t size) const {
  return read_or_write(false, address, data, size);
}

bool TracedProcess::write_memory(std::uint64_t address, const void* data, std::size_t size) const {
  return read_or_write(true, address, const_cast<void*>(data), size);
}

std::size_t TracedProcess::read_pieces(const std::vector<std::uint64_t>& addresses, std::size_t size,
                                       void* data) const {
  std::size_t done = 0;
  while (done < addresses.size()) {
    const std::size_t count = std::min<std::size_t>(addresses.size() - done, IOV_MAX);
    std::vector<iovec> remote;
    for (std::size_t i = 0; i < count; ++i) remote.push_back({reinterpret_cast<void*>(addresses[done + i]), size});
    iovec local = {static_cast<char*>(data) + done * size, count * size};
    const ssize_t bytes = ::process_vm_readv(living_thread(), &local, 1, remote.data(), count, 0);
    if (bytes <= 0) break;
    done += static_cast<std::size_t>(bytes) / size;
    if (static_cast<std::size_t>(bytes) != count * size) break;
  }
  return done;
}

std::uint64_t TracedProcess::auxiliary_value(std::uint64_t type) const {
  const std::string vector = folder_.living().text("auxv");
  for (std::size_t at = 0; at + 16 <= vector.size(); at += 16) {
    std::uint64_t entry[2] = {};
    std::memcpy(entry, vector.data() + at, sizeof(entry));
    if (entry[0] == type) return entry[1];
  }
  return 0;
}

namespace {

std::string mark_now(const TracedProcess& process) {
  const std::uint64_t place = process.auxiliary_value(AT_RANDOM);
  char bytes[16] = {};
  if (place == 0 || !process.read_memory(place, bytes, sizeof(bytes))) return {};
  return std::string(bytes, sizeof(bytes)) + std::to_string(place);
}

}  // namespace

std::string program_mark(const TracedProcess& process) {
  // In the middle of an exec there is none for a moment.
  std::string mark = mark_now(process);
  for (int tries = 0; mark.empty() && tries < kTriesForEnd; ++tries) {
    ::usleep(1000);
    mark = mark_now(process);
  }
  return mark;
}

std::string mapped_library(const std::vector<MappedRange>& mappings) {
  const MappedRange* first = find_loaded(mappings, {"libculprit.so"});
  return first != nullptr ? first->path : "";
}

}  // namespace culprit::report
