// Programs that wait in one system call each, and check its result by their own clock: the call that a thread is in
// when culprit attaches must neither return early nor late, nor with a part of what it should move.
//
//   attach_calls HELPER SECONDS CASE...    forks one process for each case, and ends with "fine" when all of them are
//   content
//
// The main thread of such a process is in the call. With HELPER "helper" there is a second thread, which waits in
// read() and, at the end of standard input, lets calls without a time-out end. With "alone" there is none: a process
// forked beforehand does it SECONDS later. "ready" is printed once each call waits.
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

constexpr double kLate = 1.5;  // the machine may be busy
constexpr std::size_t kMuch = 1 << 20;
// Of a call with a time-out.
timespec time_out = {};
timeval patience = {};

const char* now_in = "";

[[noreturn]] void wrong(const std::string& why) {
  fprintf(stderr, "%s: %s (errno %d)\n", now_in, why.c_str(), errno);
  fflush(stderr);
  _exit(3);
}

void expect(bool true_then, const char* what) {
  if (!true_then) wrong(what);
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Shared by the main thread and the process that ends its call.
struct Shared {
  std::atomic<bool> clock_runs{false};
  std::atomic<unsigned> word{0};
  pid_t waiting = 0;
};
Shared* shared = nullptr;
bool has_helper = false;

void wait_for_end_of_input() {
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

// Checks that a call takes SECONDS.
class Clock {
 public:
  Clock() { shared->clock_runs = true; }
  ~Clock() {
    const double took = now() - begin_;
    const auto wanted = static_cast<double>(time_out.tv_sec);
    if (took < wanted - 0.002) wrong("too early: " + std::to_string(took) + " s");
    if (took > wanted + kLate) wrong("too late: " + std::to_string(took) + " s");
  }

 private:
  double begin_ = now();
};

timespec at_end(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  time.tv_sec += time_out.tv_sec;
  return time;
}

struct Sockets {
  int mine, other;
  explicit Sockets(int type = SOCK_STREAM) {
    int both[2];
    expect(socketpair(AF_UNIX, type, 0, both) == 0, "socketpair");
    mine = both[0];
    other = both[1];
  }
  void set(int option) const {
    expect(setsockopt(mine, SOL_SOCKET, option, &patience, sizeof(patience)) == 0, "setsockopt");
  }
  void fill() const {
    std::vector<char> bytes(65536);
    while (send(mine, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
};

struct Pipe {
  int out, in;
  Pipe() {
    int both[2];
    expect(pipe(both) == 0, "pipe");
    out = both[0];
    in = both[1];
  }
};

void drain(int file, std::size_t bytes) {
  std::vector<char> into(65536);
  while (bytes != 0) {
    const ssize_t got = read(file, into.data(), std::min(bytes, into.size()));
    if (got <= 0) break;
    bytes -= static_cast<std::size_t>(got);
  }
}

void pour(int file, std::size_t bytes) {
  const std::vector<char> from(bytes);
  expect(write(file, from.data(), bytes) == static_cast<ssize_t>(bytes), "pour");
}

// The end of the call that the main thread is in, for those without a time-out.
using Finish = void (*)(int file, std::atomic<unsigned>* word);
void finish_later(int file, Finish finish) {
  const auto end = [=] {
    if (has_helper) {
      wait_for_end_of_input();
    } else {
      // On a busy machine the process may begin long before the main thread's clock.
      for (int i = 0; i < 100000 && !shared->clock_runs; ++i) usleep(100);
      nanosleep(&time_out, nullptr);
    }
    finish(file, &shared->word);
  };
  if (has_helper) {
    std::thread(end).detach();
  } else if (fork() == 0) {
    end();
    _exit(0);
  }
}

void epoll_timed() {
  epoll_event event;
  const int file = epoll_create1(0);
  Clock clock;
  expect(epoll_wait(file, &event, 1, static_cast<int>(time_out.tv_sec * 1000)) == 0, "epoll_wait");
}
void epoll_timed_2() {
  epoll_event event;
  const int file = epoll_create1(0);
  Clock clock;
  expect(syscall(441, file, &event, 1, &time_out, nullptr, 0) == 0, "epoll_pwait2");
}
void sigtimedwait_timed() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Clock clock;
  expect(sigtimedwait(&set, nullptr, &time_out) == -1 && errno == EAGAIN, "sigtimedwait");
}
template <typename Call>
void receive_timed(Call call) {
  const Sockets sockets;
  sockets.set(SO_RCVTIMEO);
  char byte;
  Clock clock;
  expect(call(sockets.mine, &byte) == -1 && errno == EAGAIN, "receiving");
}
template <typename Call>
void send_timed(Call call) {
  const Sockets sockets;
  sockets.set(SO_SNDTIMEO);
  sockets.fill();
  char bytes[4096] = {};
  Clock clock;
  expect(call(sockets.mine, bytes, sizeof(bytes)) == -1 && errno == EAGAIN, "sending");
}
int listening(sockaddr_un* address) {
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  *address = {};
  address->sun_family = AF_UNIX;
  expect(bind(file, reinterpret_cast<sockaddr*>(address), sizeof(address->sun_family)) == 0, "bind");
  expect(listen(file, 0) == 0, "listen");
  socklen_t size = sizeof(*address);
  expect(getsockname(file, reinterpret_cast<sockaddr*>(address), &size) == 0, "getsockname");
  return file;
}
constexpr socklen_t kNameSize = sizeof(sa_family_t) + 6;  // of a name that the kernel chose
void accept_timed() {
  sockaddr_un address;
  const int file = listening(&address);
  expect(setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0, "setsockopt");
  Clock clock;
  expect(accept(file, nullptr, nullptr) == -1 && errno == EAGAIN, "accept");
}
void connect_timed() {
  sockaddr_un address;
  listening(&address);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  expect(connect(socket(AF_UNIX, SOCK_STREAM, 0), name, kNameSize) == 0, "the first connect");
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  expect(setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0, "setsockopt");
  Clock clock;
  expect(connect(file, name, kNameSize) == -1 && errno == EAGAIN, "connect");
}
void semaphore_timed() {
  const int set = semget(IPC_PRIVATE, 1, 0600);
  expect(set >= 0, "semget");
  sembuf down = {0, -1, 0};
  const int result = [&] {
    Clock clock;
    return semtimedop(set, &down, 1, &time_out);
  }();
  const int error = errno;
  semctl(set, 0, IPC_RMID);
  expect(result == -1 && error == EAGAIN, "semtimedop");
}
void aio_timed() {
  aio_context_t context = 0;
  io_event event;
  expect(syscall(SYS_io_setup, 1, &context) == 0, "io_setup");
  Clock clock;
  expect(syscall(SYS_io_getevents, context, 1, 1, &event, &time_out) == 0, "io_getevents");
}

void whole_write() {
  const Pipe pipe;
  finish_later(pipe.out, [](int file, std::atomic<unsigned>*) { drain(file, kMuch); });
  const std::vector<char> bytes(kMuch);
  expect(write(pipe.in, bytes.data(), kMuch) == static_cast<ssize_t>(kMuch), "write was cut short");
}
void whole_send() {
  const Sockets sockets;
  finish_later(sockets.other, [](int file, std::atomic<unsigned>*) { drain(file, kMuch); });
  const std::vector<char> bytes(kMuch);
  expect(send(sockets.mine, bytes.data(), kMuch, 0) == static_cast<ssize_t>(kMuch), "send was cut short");
}
void whole_receive() {
  const Sockets sockets;
  pour(sockets.other, 50000);
  finish_later(sockets.other, [](int file, std::atomic<unsigned>*) { pour(file, 50000); });
  std::vector<char> bytes(100000);
  expect(recv(sockets.mine, bytes.data(), bytes.size(), MSG_WAITALL) == 100000, "recv was cut short");
}
void low_water() {
  const Sockets sockets;
  const int most = 100000;
  expect(setsockopt(sockets.mine, SOL_SOCKET, SO_RCVLOWAT, &most, sizeof(most)) == 0, "setsockopt");
  pour(sockets.other, 50000);
  finish_later(sockets.other, [](int file, std::atomic<unsigned>*) { pour(file, 50000); });
  std::vector<char> bytes(100000);
  expect(read(sockets.mine, bytes.data(), bytes.size()) == 100000, "read was cut short");
}

struct Ring {
  int file = -1;
  io_uring_params parameters = {};
  unsigned char* queue = nullptr;
  bool made() {
    file = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
    if (file < 0) return false;
    const std::size_t size = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, IORING_OFF_SQ_RING);
    void* entries = mmap(nullptr, parameters.sq_entries * sizeof(io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
                         file, IORING_OFF_SQES);
    if (mapped == MAP_FAILED || entries == MAP_FAILED) return false;
    queue = static_cast<unsigned char*>(mapped);
    memset(entries, 0, sizeof(io_uring_sqe));  // the operation that does nothing
    return true;
  }
  void submit_nothing() const {
    *reinterpret_cast<unsigned*>(queue + parameters.sq_off.array) = 0;
    auto* tail = reinterpret_cast<unsigned*>(queue + parameters.sq_off.tail);
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    expect(syscall(SYS_io_uring_enter, file, 1, 0, 0, nullptr, 0) == 1, "submitting");
  }
};
Ring ring;
void uring() {
  if (!ring.made()) {
    // Not on this machine.
    nanosleep(&time_out, nullptr);
    return;
  }
  finish_later(0, [](int, std::atomic<unsigned>*) { ring.submit_nothing(); });
  expect(syscall(SYS_io_uring_enter, ring.file, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0) == 0, "io_uring_enter");
}

void sleep_in_place() {
  timespec time = time_out;
  Clock clock;
  // The libraries of C and C++ name one place for both. The time that remains is only written when the call fails.
  expect(syscall(SYS_nanosleep, &time, &time) == 0, "nanosleep");
  expect(time.tv_sec == time_out.tv_sec && time.tv_nsec == 0, "nanosleep changed its time");
}
void sleep_apart() {
  timespec left = {4711, 4712};
  Clock clock;
  expect(clock_nanosleep(CLOCK_MONOTONIC, 0, &time_out, &left) == 0, "clock_nanosleep");
  expect(left.tv_sec == 4711 && left.tv_nsec == 4712, "clock_nanosleep wrote what remains");
}
void sleep_until() {
  const timespec end = at_end(CLOCK_MONOTONIC);
  Clock clock;
  expect(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == 0, "clock_nanosleep");
}
void poll_timed() {
  Clock clock;
  expect(poll(nullptr, 0, static_cast<int>(time_out.tv_sec * 1000)) == 0, "poll");
}
void ppoll_timed() {
  Clock clock;
  expect(ppoll(nullptr, 0, &time_out, nullptr) == 0, "ppoll");
}
void select_timed() {
  timeval time = patience;
  Clock clock;
  expect(select(0, nullptr, nullptr, nullptr, &time) == 0, "select");
  expect(time.tv_sec == 0 && time.tv_usec == 0, "select left time");
}
void pselect_timed() {
  Clock clock;
  expect(pselect(0, nullptr, nullptr, nullptr, &time_out, nullptr) == 0, "pselect");
}
// The kernel cannot store what remains, and so cannot go on by itself.
void pselect_constant() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, &time_out, sizeof(time_out));
  mprotect(page, 4096, PROT_READ);
  Clock clock;
  expect(syscall(SYS_pselect6, 0, nullptr, nullptr, nullptr, page, nullptr) == 0, "pselect6");
}
void futex_timed() {
  Clock clock;
  expect(syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &time_out, nullptr, 0) == -1 && errno == ETIMEDOUT, "futex");
}
void futex_until() {
  const timespec end = at_end(CLOCK_MONOTONIC);
  Clock clock;
  expect(syscall(SYS_futex, &shared->word, FUTEX_WAIT_BITSET, 0, &end, nullptr, FUTEX_BITSET_MATCH_ANY) == -1 &&
             errno == ETIMEDOUT,
         "futex");
}
void futex_endless() {
  finish_later(0, [](int, std::atomic<unsigned>* word) {
    word->store(1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  });
  Clock clock;
  while (shared->word.load() == 0) {
    if (syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, nullptr, nullptr, 0) != 0) expect(errno == EAGAIN, "futex");
  }
}
// Without the call it sleeps: an older kernel, or one that was built without it.
bool has_call(long result) {
  if (result != -1 || errno != ENOSYS) return true;
  nanosleep(&time_out, nullptr);
  return false;
}
void futex_of_many() {
  constexpr long kCall = 449;  // futex_waitv, Linux 5.16; missing in older headers, like its structure
  struct {
    std::uint64_t value, address;
    std::uint32_t flags, padding;
  } one = {0, reinterpret_cast<std::uint64_t>(&shared->word), 2, 0};
  const timespec end = at_end(CLOCK_MONOTONIC);
  Clock clock;
  const long result = syscall(kCall, &one, 1, 0, &end, CLOCK_MONOTONIC);
  if (has_call(result)) expect(result == -1 && errno == ETIMEDOUT, "futex_waitv");
}
void queue_until() {
  const std::string name = "culprit-" + std::to_string(getpid());
  const long attributes[8] = {0, 1, 8};  // of mq_attr: one message of 8 bytes
  const long queue = syscall(SYS_mq_open, name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, attributes);
  if (!has_call(queue)) return;
  expect(queue >= 0 && syscall(SYS_mq_unlink, name.c_str()) == 0, "mq_open");
  const timespec end = at_end(CLOCK_REALTIME);
  char message[8];
  Clock clock;
  expect(syscall(SYS_mq_timedreceive, queue, message, sizeof(message), nullptr, &end) == -1 && errno == ETIMEDOUT,
         "mq_timedreceive");
}
struct Message {
  long kind;
  char bytes[8];
};
void receive_of_queue() {
  const int queue = msgget(IPC_PRIVATE, 0600);
  expect(queue >= 0, "msgget");
  finish_later(queue, [](int to, std::atomic<unsigned>*) {
    const Message message = {1, {}};
    msgsnd(to, &message, sizeof(message.bytes), 0);
  });
  Message message;
  const ssize_t result = [&] {
    Clock clock;
    return msgrcv(queue, &message, sizeof(message.bytes), 0, 0);
  }();
  msgctl(queue, IPC_RMID, nullptr);
  expect(result == sizeof(message.bytes), "msgrcv");
}
void lock_file() {
  char path[] = "/tmp/culprit-XXXXXX";
  const int held = mkstemp(path);
  const int wanted = open(path, O_RDONLY | O_CLOEXEC);
  expect(held >= 0 && wanted >= 0 && unlink(path) == 0 && flock(held, LOCK_EX) == 0, "flock");
  finish_later(held, [](int file, std::atomic<unsigned>*) { flock(file, LOCK_UN); });
  Clock clock;
  expect(flock(wanted, LOCK_EX) == 0, "flock");
}
void write_byte(int file, std::atomic<unsigned>*) { pour(file, 1); }
void read_pipe() {
  const Pipe pipe;
  finish_later(pipe.in, write_byte);
  char byte;
  Clock clock;
  expect(read(pipe.out, &byte, 1) == 1, "read");
}
void read_socket() {
  const Sockets sockets;
  finish_later(sockets.other, write_byte);
  char byte;
  iovec part = {&byte, 1};
  Clock clock;
  expect(readv(sockets.mine, &part, 1) == 1, "readv");
}
void receive_endless() {
  const Sockets sockets(SOCK_DGRAM);
  finish_later(sockets.other, write_byte);
  char byte;
  Clock clock;
  expect(recv(sockets.mine, &byte, 1, 0) == 1, "recv");
}
void receive_message() {
  const Sockets sockets;
  finish_later(sockets.other, write_byte);
  char byte;
  iovec part = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Clock clock;
  expect(recvmsg(sockets.mine, &message, 0) == 1, "recvmsg");
}
void read_event() {
  const int file = eventfd(0, 0);
  finish_later(file, [](int event, std::atomic<unsigned>*) { eventfd_write(event, 1); });
  eventfd_t value;
  Clock clock;
  expect(eventfd_read(file, &value) == 0, "eventfd_read");
}
int timer() {
  const int file = timerfd_create(CLOCK_MONOTONIC, 0);
  const itimerspec once = {{0, 0}, time_out};
  expect(timerfd_settime(file, 0, &once, nullptr) == 0, "timerfd_settime");
  return file;
}
void read_timer() {
  const int file = timer();
  std::uint64_t times;
  Clock clock;
  expect(read(file, &times, sizeof(times)) == sizeof(times), "read");
}
void epoll_endless() {
  const int file = epoll_create1(0);
  epoll_event event = {EPOLLIN, {}};
  expect(epoll_ctl(file, EPOLL_CTL_ADD, timer(), &event) == 0, "epoll_ctl");
  Clock clock;
  expect(epoll_wait(file, &event, 1, -1) == 1, "epoll_wait");
}
void read_terminal() {
  int outer, inner;
  expect(openpty(&outer, &inner, nullptr, nullptr, nullptr) == 0, "openpty");
  finish_later(outer, [](int file, std::atomic<unsigned>*) { expect(write(file, "x\n", 2) == 2, "terminal"); });
  char bytes[16];
  Clock clock;
  expect(read(inner, bytes, sizeof(bytes)) == 2, "read");
}
void accept_endless() {
  sockaddr_un address;
  const int file = listening(&address);
  static sockaddr_un to;
  to = address;
  finish_later(0, [](int, std::atomic<unsigned>*) {
    expect(connect(socket(AF_UNIX, SOCK_STREAM, 0), reinterpret_cast<const sockaddr*>(&to), kNameSize) == 0, "connect");
  });
  Clock clock;
  expect(accept(file, nullptr, nullptr) >= 0, "accept");
}
void wait_for_child() {
  const pid_t child = fork();
  if (child == 0) {
    nanosleep(&time_out, nullptr);
    _exit(7);
  }
  int status = 0;
  Clock clock;
  expect(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "waitpid");
}
void wait_for_signal() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  shared->waiting = getpid();
  finish_later(0, [](int, std::atomic<unsigned>*) { kill(shared->waiting, SIGUSR1); });
  Clock clock;
  expect(syscall(SYS_pause) == -1 && errno == EINTR, "pause");
}

struct Case {
  const char* name;
  void (*run)();
};
const Case kCases[] = {
    {"epoll_timed", epoll_timed},
    {"epoll_pwait2", epoll_timed_2},
    {"sigtimedwait", sigtimedwait_timed},
    {"read_timed", [] { receive_timed([](int file, char* byte) { return read(file, byte, 1); }); }},
    {"readv_timed",
     [] {
       receive_timed([](int file, char* byte) {
         const iovec part = {byte, 1};
         return readv(file, &part, 1);
       });
     }},
    {"recv_timed", [] { receive_timed([](int file, char* byte) { return recv(file, byte, 1, 0); }); }},
    {"recvmsg_timed",
     [] {
       receive_timed([](int file, char* byte) {
         iovec part = {byte, 1};
         msghdr message = {};
         message.msg_iov = &part;
         message.msg_iovlen = 1;
         return recvmsg(file, &message, 0);
       });
     }},
    {"accept_timed", accept_timed},
    {"connect_timed", connect_timed},
    {"write_timed",
     [] { send_timed([](int file, char* bytes, std::size_t size) { return write(file, bytes, size); }); }},
    {"send_timed",
     [] { send_timed([](int file, char* bytes, std::size_t size) { return send(file, bytes, size, 0); }); }},
    {"semtimedop", semaphore_timed},
    {"io_getevents", aio_timed},
    {"pselect_constant", pselect_constant},
    {"write_part", whole_write},
    {"send_part", whole_send},
    {"recv_part", whole_receive},
    {"low_water", low_water},
    {"io_uring_enter", uring},
    {"nanosleep", sleep_in_place},
    {"clock_nanosleep", sleep_apart},
    {"clock_nanosleep_until", sleep_until},
    {"poll", poll_timed},
    {"ppoll", ppoll_timed},
    {"select", select_timed},
    {"pselect", pselect_timed},
    {"futex", futex_timed},
    {"futex_until", futex_until},
    {"futex_endless", futex_endless},
    {"futex_of_many", futex_of_many},
    {"queue_until", queue_until},
    {"msgrcv", receive_of_queue},
    {"flock", lock_file},
    {"read_pipe", read_pipe},
    {"read_socket", read_socket},
    {"recv", receive_endless},
    {"recvmsg", receive_message},
    {"read_event", read_event},
    {"read_timer", read_timer},
    {"epoll", epoll_endless},
    {"read_terminal", read_terminal},
    {"accept", accept_endless},
    {"wait4", wait_for_child},
    {"pause", wait_for_signal},
};

// Waits until a process sleeps in one and the same call.
void wait_until_in(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/syscall";
  std::string before;
  for (int same = 0; same < 5; usleep(1000)) {
    char text[256] = {};
    const int file = open(path.c_str(), O_RDONLY);
    if (file < 0 || read(file, text, sizeof(text) - 1) <= 0) break;
    close(file);
    same = before == text && before.compare(0, 7, "running") != 0 ? same + 1 : 0;
    before = text;
  }
}

[[noreturn]] void be(const Case& wanted) {
  now_in = wanted.name;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared = new (memory) Shared;
  if (has_helper) std::thread([] { wait_for_end_of_input(); }).detach();
  wanted.run();
  _exit(0);
}

}  // namespace

int main(int count, char** arguments) {
  has_helper = strcmp(arguments[1], "helper") == 0;
  time_out.tv_sec = patience.tv_sec = atoi(arguments[2]);
  std::vector<pid_t> children;
  for (int i = 3; i < count; ++i) {
    bool found = false;
    for (const Case& each : kCases) {
      if (strcmp(each.name, arguments[i]) != 0) continue;
      found = true;
      children.push_back(fork());
      if (children.back() == 0) be(each);
    }
    if (!found) wrong(std::string("no case ") + arguments[i]);
  }
  for (const pid_t child : children) wait_until_in(child);
  puts("ready");
  fflush(stdout);
  bool fine = true;
  for (const pid_t child : children) {
    int status = 0;
    fine = waitpid(child, &status, 0) == child && status == 0 && fine;
  }
  if (!fine) return 3;
  puts("fine");
  return 0;
}
