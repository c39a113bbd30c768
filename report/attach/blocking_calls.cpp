#include "report/attach/blocking_calls.h"

#include <linux/futex.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "report/base/words.h"

namespace culprit::report {
namespace {

// Missing in older headers.
constexpr long kPidfdOpen = 434, kPidfdGetfd = 438, kEpollPwaitTimespec = 441, kFutexWaitForMany = 449;

template <typename Value>
bool read_option(const Descriptor& socket, int option, Value* value) {
  socklen_t size = sizeof(*value);
  return ::getsockopt(socket.get(), SOL_SOCKET, option, value, &size) == 0;
}

// Whether a call that receives waits as long as it takes.
bool has_no_time_out(const std::optional<Descriptor>& socket) {
  timeval time = {};
  return socket && read_option(*socket, SO_RCVTIMEO, &time) && time.tv_sec == 0 && time.tv_usec == 0;
}

}  // namespace

// On what the effect of a stop depends.
enum class BlockingCalls::Rule {
  kContinued,    // on nothing: the kernel continues it
  kSleep,        // the clock: those of processor time are left alone
  kWait,         // a time-out in memory that the kernel must be able to update, and a signal mask of its own
  kWaitForMany,  // the same for pselect6, whose mask is behind one more address
  kPoll,         // with a time-out that the kernel keeps
  kEpoll,        // whether it has a time-out
  kFutex,        // the operation
  kRead,         // the kind of the file
  kReceive,      // the flags and the options of the socket
  kAccept,       // the options of the socket
  kNever,
};

struct BlockingCalls::Row {
  long number;
  const char* name;
  Rule rule;
  int first, second;  // arguments that the rule looks at
  bool whole;  // of kNever and others that may be interrupted at once: it has moved nothing when it returns EINTR
};

// clang-format off
const BlockingCalls::Row BlockingCalls::kRows[] = {
    {SYS_clock_nanosleep, "clock_nanosleep", Rule::kSleep, 0, 3, true},
    {SYS_nanosleep, "nanosleep", Rule::kContinued, 0, 1, true},
    {SYS_ppoll, "ppoll", Rule::kWait, 2, 3, true},
    {SYS_pselect6, "pselect6", Rule::kWaitForMany, 4, 5, true},
    {SYS_epoll_pwait, "epoll_pwait", Rule::kEpoll, 3, 4, true},
    {kEpollPwaitTimespec, "epoll_pwait2", Rule::kNever, 3, 4, true},
#ifdef SYS_poll
    {SYS_poll, "poll", Rule::kPoll, 0, 0, true},
    {SYS_select, "select", Rule::kWait, 4, -1, true},
    {SYS_epoll_wait, "epoll_wait", Rule::kEpoll, 3, -1, true},
    {SYS_pause, "pause", Rule::kContinued, 0, 0, true},
    {SYS_vfork, "vfork", Rule::kNever, 0, 0, false},
#endif
    {SYS_futex, "futex", Rule::kFutex, 1, 0, true},
    {kFutexWaitForMany, "futex_waitv", Rule::kContinued, 0, 0, true},  // its time-out is a point in time
    {SYS_mq_timedreceive, "mq_timedreceive", Rule::kContinued, 0, 0, true},  // the same
    {SYS_msgrcv, "msgrcv", Rule::kContinued, 0, 0, true},
    {SYS_flock, "flock", Rule::kContinued, 0, 0, true},
    {SYS_read, "read", Rule::kRead, 0, 0, false},
    {SYS_readv, "readv", Rule::kRead, 0, 0, false},
    {SYS_recvfrom, "recvfrom", Rule::kReceive, 0, 3, false},
    {SYS_recvmsg, "recvmsg", Rule::kReceive, 0, 2, false},
    {SYS_accept, "accept", Rule::kAccept, 0, 0, true},
    {SYS_accept4, "accept4", Rule::kAccept, 0, 0, true},
    {SYS_wait4, "wait4", Rule::kContinued, 0, 0, true},
    {SYS_waitid, "waitid", Rule::kContinued, 0, 0, true},
    // Named for messages, and because they may be made again when they were interrupted at once.
    {SYS_rt_sigtimedwait, "sigtimedwait", Rule::kNever, 0, 0, true},
    {SYS_rt_sigsuspend, "sigsuspend", Rule::kNever, 0, 0, true},
    {SYS_semop, "semop", Rule::kNever, 0, 0, true},
    {SYS_semtimedop, "semtimedop", Rule::kNever, 0, 0, true},
    {SYS_io_getevents, "io_getevents", Rule::kNever, 0, 0, true},
    {SYS_connect, "connect", Rule::kNever, 0, 0, false},
    {SYS_io_uring_enter, "io_uring_enter", Rule::kNever, 0, 0, false},
    {SYS_recvmmsg, "recvmmsg", Rule::kNever, 0, 0, false},
    {SYS_write, "write", Rule::kNever, 0, 0, false},
    {SYS_writev, "writev", Rule::kNever, 0, 0, false},
    {SYS_sendto, "sendto", Rule::kNever, 0, 0, false},
    {SYS_sendmsg, "sendmsg", Rule::kNever, 0, 0, false},
    {SYS_sendfile, "sendfile", Rule::kNever, 0, 0, false},
    {SYS_splice, "splice", Rule::kNever, 0, 0, false},
    {SYS_fcntl, "fcntl", Rule::kNever, 0, 0, true},
    {SYS_ioctl, "ioctl", Rule::kNever, 0, 0, false},
    {SYS_openat, "openat", Rule::kNever, 0, 0, false},
    {SYS_clone, "clone", Rule::kNever, 0, 0, false},
};
// clang-format on

BlockingCalls::BlockingCalls(const TracedProcess& process)
    : process_(process), process_file_(static_cast<int>(::syscall(kPidfdOpen, process.pid(), 0))) {
  const unsigned long personality = std::strtoul(process.folder().living().text("personality").c_str(), nullptr, 16);
  keeps_time_outs_ = (personality & STICKY_TIMEOUTS) != 0;
}

long BlockingCalls::number(const ThreadCall& call) const {
  if (call.number != SYS_restart_syscall) return call.number;
#ifdef __x86_64__
  // mov $number, %eax; syscall
  unsigned char code[7] = {};
  if (process_.read_memory(call.instruction_pointer - sizeof(code), code, sizeof(code)) && code[0] == 0xb8 &&
      code[5] == 0x0f && code[6] == 0x05) {
    std::int32_t number = -1;
    std::memcpy(&number, &code[1], sizeof(number));
    return number;
  }
#endif
  return call.number;
}

bool BlockingCalls::continues(const ThreadCall& call, const ThreadCall& earlier) {
  ThreadCall same = call;
  same.number = earlier.number;
  return call.number == SYS_restart_syscall && same == earlier;
}

std::uint64_t BlockingCalls::remainder_at(const ThreadCall& call) const {
  const long made = number(call);
  if (made == SYS_nanosleep) return call.arguments[1];
  if (made == SYS_clock_nanosleep && (call.arguments[1] & TIMER_ABSTIME) == 0) return call.arguments[3];
  return 0;
}

const BlockingCalls::Row* BlockingCalls::row_of(long number) {
  const Row* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.number == number; });
  return row != std::end(kRows) ? row : nullptr;
}

StopEffect BlockingCalls::effect(const ThreadCall& call) const {
  const long made = number(call);
  const Row* row = row_of(made);
  if (row == nullptr) return StopEffect::kSeen;
  const auto argument = [&](int index) { return index < 0 ? 0 : call.arguments[index]; };
  const std::uint64_t first = argument(row->first);
  const std::uint64_t second = argument(row->second);
  const auto file = static_cast<int>(first);
  const auto none_if = [](bool harmless) { return harmless ? StopEffect::kNone : StopEffect::kSeen; };
  switch (row->rule) {
    case Rule::kContinued:
    case Rule::kPoll:
      return StopEffect::kNone;
    case Rule::kSleep:
      return none_if(first == CLOCK_REALTIME || first == CLOCK_MONOTONIC || first == CLOCK_BOOTTIME ||
                     first == CLOCK_TAI);
    case Rule::kWaitForMany:
    case Rule::kWait: {
      // A mask of its own is lifted while the thread is borrowed: a signal that it holds back would come through.
      std::uint64_t mask = second;
      if (row->rule == Rule::kWaitForMany && second != 0 && !process_.read_memory(second, &mask, sizeof(mask)))
        return StopEffect::kSeen;
      return none_if(mask == 0 && (first == 0 || (!keeps_time_outs_ && is_writable(first))));
    }
    case Rule::kEpoll:
      return file < 0 && second == 0 ? StopEffect::kAgain : StopEffect::kSeen;
    case Rule::kFutex: {
      const std::uint64_t operation = first & static_cast<std::uint64_t>(FUTEX_CMD_MASK);
      return none_if(operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
    }
    case Rule::kRead:
      return none_if(reads_whole(file, false));
    case Rule::kReceive:
      return none_if((second & MSG_WAITALL) == 0 && reads_whole(file, true));
    case Rule::kAccept:
      return none_if(has_no_time_out(duplicate(file)));
    case Rule::kNever:
      break;
  }
  return StopEffect::kSeen;
}

bool BlockingCalls::moves_parts(long number) {
  const Row* row = row_of(number);
  return row == nullptr || !row->whole;
}

bool BlockingCalls::is_cut(const ThreadCall& call, std::int64_t result) {
  if (result == -EINTR) return true;
  const bool has_size = call.number == SYS_write || call.number == SYS_sendto ||
                        (call.number == SYS_recvfrom && (call.arguments[3] & MSG_WAITALL) != 0);
  return has_size && result > 0 && static_cast<std::uint64_t>(result) < call.arguments[2];
}

std::string BlockingCalls::name(long number) {
  const Row* row = row_of(number);
  return row != nullptr ? row->name : "system call " + std::to_string(number);
}

// The program's own open file, because its options are known to the kernel alone.
std::optional<Descriptor> BlockingCalls::duplicate(int file) const {
  if (!process_file_.is_open()) return std::nullopt;
  Descriptor copy(static_cast<int>(::syscall(kPidfdGetfd, process_file_.get(), file, 0)));
  if (!copy.is_open()) return std::nullopt;
  return copy;
}

// Whether a call that reads from this file returns as soon as it has read anything, and has no time-out. `message`: the
// call is for sockets only.
bool BlockingCalls::reads_whole(int file, bool message) const {
  const std::string path = process_.folder().living().path() + "/fd/" + std::to_string(file);
  const std::string target = process_.folder().living().link("fd/" + std::to_string(file));
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  if (S_ISSOCK(facts.st_mode)) {
    const std::optional<Descriptor> socket = duplicate(file);
    int family = 0;
    int least = 0;
    if (!has_no_time_out(socket) || !read_option(*socket, SO_DOMAIN, &family) ||
        !read_option(*socket, SO_RCVLOWAT, &least))
      return false;
    return (family == AF_UNIX || family == AF_INET || family == AF_INET6) && least <= 1;
  }
  if (message) return false;
  if (S_ISFIFO(facts.st_mode)) return true;
  if (begins_with(target, "anon_inode:")) {
    for (const char* kind : {"[eventfd]", "[timerfd]", "[signalfd]", "inotify", "[inotify]"}) {
      if (target == std::string("anon_inode:") + kind) return true;
    }
    return false;
  }
  if (!S_ISCHR(facts.st_mode) || (!begins_with(target, "/dev/pts/") && !begins_with(target, "/dev/tty"))) return false;
  const std::optional<Descriptor> terminal = duplicate(file);
  termios settings = {};
  if (!terminal || ::tcgetattr(terminal->get(), &settings) != 0) return false;
  return (settings.c_lflag & ICANON) != 0 || (settings.c_cc[VMIN] <= 1 && settings.c_cc[VTIME] == 0);
}

bool BlockingCalls::is_writable(std::uint64_t address) const {
  bool writable = false;
  process_.folder().living().for_each_mapping([&](const MappedRange& range) {
    if (range.contains(address)) writable = range.writable;
  });
  return writable;
}

KeptRemainder::KeptRemainder(const TracedProcess& process, std::uint64_t at) : at_(at) {
  if (at_ != 0 && !process.read_memory(at_, words_, sizeof(words_))) at_ = 0;
}

void KeptRemainder::put_back(const TracedProcess& process) const {
  std::uint64_t now[2];
  if (at_ == 0 || !process.read_memory(at_, now, sizeof(now)) || std::memcmp(now, words_, sizeof(now)) == 0) return;
  process.write_memory(at_, words_, sizeof(words_));
}

}  // namespace culprit::report
