#include "report/run/run_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "tests/catch.h"

using namespace culprit::report;
using culprit::format::RunMessage;

namespace {

class Sender {
 public:
  explicit Sender(const std::string& variable) : token_(variable.substr(33, 32)) {
    address_.sun_family = AF_UNIX;
    const std::string path = std::string(1, '\0') + culprit::format::kRunSocketPrefix + variable.substr(0, 32);
    std::memcpy(address_.sun_path, path.data(), path.size());
    bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  }
  // A message of a run, to be changed.
  RunMessage message() const {
    RunMessage message = {};
    message.version = culprit::format::kRunStartsVersion;
    std::memcpy(message.token, token_.data(), sizeof(message.token));
    message.start.error = EACCES;
    std::strcpy(message.start.program, "/bin/app");
    std::strcpy(message.start.path, "/x/a.dump");
    return message;
  }
  bool send(const void* content, std::size_t size) const {
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto sent = ::sendto(fd, content, size, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address_), bytes_);
    ::close(fd);
    return sent == static_cast<ssize_t>(size);
  }
  bool send(const RunMessage& message) const { return send(&message, sizeof(message)); }

 private:
  std::string token_;
  sockaddr_un address_ = {};
  socklen_t bytes_ = 0;
};

}  // namespace

TEST_CASE("a message of the run is taken, with the pid of its sender") {
  RunSocket socket;
  REQUIRE(socket.variable().size() > 66);
  const Sender sender(socket.variable());
  RunMessage message = sender.message();
  message.start.pid = 1;  // as in a namespace of its own
  REQUIRE(sender.send(message));
  socket.look();
  REQUIRE(socket.starts().size() == 1);
  CHECK(socket.starts()[0].pid == ::getpid());
  CHECK(socket.starts()[0].error == EACCES);
  CHECK(std::string(socket.starts()[0].program) == "/bin/app");
}

TEST_CASE("a message of a stranger, of another size or without an end of its texts does no harm") {
  RunSocket socket;
  const Sender sender(socket.variable());
  RunMessage message = sender.message();
  message.token[31] ^= 1;
  REQUIRE(sender.send(message));
  message = sender.message();
  message.version = 77;
  REQUIRE(sender.send(message));
  REQUIRE(sender.send("", 0));
  REQUIRE(sender.send(&message, sizeof(message) - 1));
  const std::string large(100000, 'x');
  REQUIRE(sender.send(large.data(), large.size()));
  socket.look();
  CHECK(socket.starts().empty());
  message = sender.message();
  std::memset(message.start.program, 'p', sizeof(message.start.program));
  std::memset(message.start.path, 'q', sizeof(message.start.path));
  REQUIRE(sender.send(message));
  socket.look();
  REQUIRE(socket.starts().size() == 1);
  CHECK(std::string(socket.starts()[0].program) == std::string(sizeof(message.start.program) - 1, 'p'));
  CHECK(std::string(socket.starts()[0].path).size() == sizeof(message.start.path) - 1);
}

TEST_CASE("messages beyond those that are kept are counted") {
  RunSocket socket;
  const Sender sender(socket.variable());
  std::size_t sent = 0;
  for (int i = 0; i < 300; ++i) {
    sent += sender.send(sender.message()) ? 1 : 0;
    socket.look();
  }
  CHECK(sent == 300);
  CHECK(socket.starts().size() + socket.more() == 300);
  CHECK(socket.starts().size() == 256);
}
