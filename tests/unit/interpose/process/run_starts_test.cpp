#include "interpose/process/run_starts.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "interpose/base/restrictions.h"
#include "interpose/base/text_writer.h"
#include "interpose/format/run_starts.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using namespace culprit;
using culprit::test::TemporaryFolder;
using format::RunStarts;

namespace {

std::unique_ptr<Options> options_with(const std::string& path) {
  auto options = std::make_unique<Options>();
  copy_text(options->run_starts, sizeof(options->run_starts), path.c_str());
  return options;
}

void make_file(const std::string& path, std::uint32_t version, std::size_t bytes) {
  auto starts = std::make_unique<RunStarts>();
  starts->version = version;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(starts.get()), static_cast<std::streamsize>(bytes));
}

std::unique_ptr<RunStarts> contents_of(const std::string& path) {
  auto starts = std::make_unique<RunStarts>();
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(starts.get()), sizeof(RunStarts));
  return starts;
}

}  // namespace

TEST_CASE("a process that cannot record stores its pid, the error and the path, and more than fit are counted") {
  TemporaryFolder folder;
  const std::string path = folder.file("failed");
  make_file(path, format::kRunStartsVersion, sizeof(RunStarts));
  const auto options = options_with(path);
  for (int pid = 1; pid <= 20; ++pid) note_run_start(*options, pid, ENOSPC, "/full/a.dump");
  const auto starts = contents_of(path);
  CHECK(starts->failed == 20);
  CHECK(starts->entries[0].pid == 1);
  CHECK(starts->entries[14].pid == 15);
  CHECK(starts->entries[14].error == ENOSPC);
  CHECK(std::string(starts->entries[14].path) == "/full/a.dump");
  CHECK(std::string(starts->entries[14].program).find("/interpose_unit_test") != std::string::npos);
  CHECK(starts->recording == 0);
}

TEST_CASE("a process that records is counted") {
  TemporaryFolder folder;
  const std::string path = folder.file("starts");
  make_file(path, format::kRunStartsVersion, sizeof(RunStarts));
  for (int pid = 1; pid <= 3; ++pid) note_run_start(*options_with(path), pid, 0, "/some/a.dump");
  CHECK(contents_of(path)->recording == 3);
  CHECK(contents_of(path)->failed == 0);
}

TEST_CASE("a file of another version, a short file, a missing file and a link are left alone") {
  TemporaryFolder folder;
  const std::string other = folder.file("other"), small = folder.file("small"), link = folder.file("link");
  make_file(other, format::kRunStartsVersion + 1, sizeof(RunStarts));
  make_file(small, format::kRunStartsVersion, 100);
  REQUIRE(symlink(other.c_str(), link.c_str()) == 0);
  for (const std::string& path : {other, small, link, folder.file("missing"), std::string()})
    note_run_start(*options_with(path), 1, ENOSPC, "/full/a.dump");
  CHECK(contents_of(other)->failed == 0);
  CHECK(contents_of(small)->failed == 0);
  CHECK(access(folder.file("missing").c_str(), F_OK) != 0);
}

TEST_CASE("a process that cannot reach the file sends a message, once") {
  const std::string name(32, 'a'), token(32, 'b');
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = std::string(1, '\0') + format::kRunSocketPrefix + name;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) == 0);
  const auto options = options_with("/nowhere/run-starts");
  // Another number of filters is not this process's: a filter may forbid the calls.
  const std::string filters = std::to_string(std::max(seccomp_filters(), 0));
  copy_text(options->run_socket, sizeof(options->run_socket), (name + "-" + token + "-" + filters).c_str());
  note_run_start(*options, 5, EROFS, "/read-only/a.dump");
  format::RunMessage message = {};
  REQUIRE(recv(fd, &message, sizeof(message), MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(message)));
  CHECK(std::string(message.token, sizeof(message.token)) == token);
  CHECK(message.start.pid == 5);
  CHECK(message.start.error == EROFS);
  CHECK(std::string(message.start.path) == "/read-only/a.dump");
  CHECK(recv(fd, &message, sizeof(message), MSG_DONTWAIT) == -1);
  for (const std::string& bad : {std::string(), name, name + "-" + token, name + "-" + token + "-x",
                                 name + "_" + token + "-0", std::string(1000, 'a')}) {
    copy_text(options->run_socket, sizeof(options->run_socket), bad.c_str());
    note_run_start(*options, 5, EROFS, "/read-only/a.dump");
    CHECK(recv(fd, &message, sizeof(message), MSG_DONTWAIT) == -1);
  }
  close(fd);
}

TEST_CASE("the folder of the run is known, and no other one") {
  const auto options = options_with("/tmp/culprit.x/run-starts");
  CHECK(is_in_folder_of_run(*options, "/tmp/culprit.x/a.dump"));
  CHECK_FALSE(is_in_folder_of_run(*options, "/tmp/culprit.x/b/a.dump"));
  CHECK_FALSE(is_in_folder_of_run(*options, "/tmp/culprit.y/a.dump"));
  CHECK_FALSE(is_in_folder_of_run(*options_with(""), "/a.dump"));
  CHECK_FALSE(is_in_folder_of_run(*options_with(""), "a.dump"));
}
