#include "report/run/run_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "report/base/log.h"
#include "report/base/random_text.h"
#include "report/proc/process_folder.h"

namespace culprit::report {

using format::RunMessage;

namespace {

constexpr std::size_t kMostKept = 256;
constexpr int kMostAtOnce = 10000;  // a sender that never ends must not hold the command

template <std::size_t size>
void end_text(char (&field)[size]) {
  field[size - 1] = '\0';
}

// The pid of the sender as this process sees it; 0: not known.
std::int32_t sender_of(msghdr* header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(header); part != nullptr; part = CMSG_NXTHDR(header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender = {};
    std::memcpy(&sender, CMSG_DATA(part), sizeof(sender));
    return sender.pid;
  }
  return 0;
}

}  // namespace

RunSocket::RunSocket() {
  const std::string name = random_text(format::kRunTokenBytes);
  token_ = random_text(format::kRunTokenBytes);
  Descriptor made(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = std::string(1, '\0') + format::kRunSocketPrefix + name;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int on = 1;
  if (name.empty() || token_.empty() || !made.is_open() ||
      ::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::setsockopt(made.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    log::debug(std::string("no socket for processes that change their root or user: ") + std::strerror(errno));
    return;
  }
  // The processes make the same calls: a filter that forbids this one has to end the command, not a process.
  ::sendto(made.get(), "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), bytes);
  socket_ = std::move(made);
  const std::string filters = ProcessFolder("/proc", "self").status("Seccomp_filters");
  variable_ = name + "-" + token_ + "-" + (filters.empty() ? "0" : filters);
}

void RunSocket::look() {
  const auto message = std::make_unique<RunMessage>();
  for (int i = 0; socket_.is_open() && i < kMostAtOnce; ++i) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
    iovec content = {message.get(), sizeof(*message)};
    msghdr header = {};
    header.msg_iov = &content;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (got != static_cast<ssize_t>(sizeof(*message)) || (header.msg_flags & MSG_TRUNC) != 0 ||
        message->version != format::kRunStartsVersion ||
        std::memcmp(message->token, token_.data(), sizeof(message->token)) != 0)
      continue;
    if (starts_.size() == kMostKept) {
      ++more_;
      continue;
    }
    format::FailedStart& start = message->start;
    end_text(start.program);
    end_text(start.path);
    if (const std::int32_t sender = sender_of(&header)) start.pid = sender;
    if (start.program[0] == '\0') {
      const std::string name = ProcessFolder("/proc", static_cast<std::uint64_t>(std::max(start.pid, 0))).name();
      std::memcpy(start.program, name.c_str(), std::min(name.size() + 1, sizeof(start.program)));
      end_text(start.program);
    }
    starts_.push_back(start);
  }
}

}  // namespace culprit::report
