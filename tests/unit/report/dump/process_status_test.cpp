// Whether the process of a dump runs, was killed or ended normally.
#include "report/dump/process_status.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "report/dump/dump_reader.h"
#include "report/dump/run_dumps.h"
#include "tests/catch.h"
#include "tests/support/dump_builder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::DumpBuilder;
using culprit::test::has;

namespace {

std::uint64_t start_time(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int number = 3; number <= 22; ++number) rest >> field;
  return std::stoull(field);
}

// A dump of the process `pid` of this machine, which is still running.
DumpBuilder dump_of(pid_t pid) {
  DumpBuilder dump;
  culprit::format::Header& header = dump.header();
  header.process_state = culprit::format::ProcessState::kRunning;
  header.pid = static_cast<std::uint32_t>(pid);
  header.start_time_ticks = start_time(pid);
  struct stat name_space = {};
  REQUIRE(::stat("/proc/self/ns/pid", &name_space) == 0);
  header.pid_namespace = name_space.st_ino;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  boot >> id;
  std::strncpy(header.boot_id, id.c_str(), sizeof(header.boot_id) - 1);
  return dump;
}

}  // namespace

TEST_CASE("an exit that was marked is an exit", "[report][process-status]") {
  culprit::test::TemporaryFolder folder;
  DumpBuilder builder;
  builder.header().exit_status = 3;
  builder.write(folder.file("a.dump"));
  const ProcessStatus status = process_status(Dump::open(folder.file("a.dump")));
  CHECK(status.ended == Ended::kExit);
  CHECK(status.exit_status == 3);
}

TEST_CASE("a process that maps its dump runs", "[report][process-status]") {
  culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  dump_of(::getpid()).write(path);
  {
    // The reader's own mapping makes this process look like the writer.
    const Dump dump = Dump::open(path);
    CHECK(process_status(dump).ended == Ended::kRunning);
  }
  SECTION("a copy of it is not what the process writes") {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    dump_of(child).write(path);
    const ProcessStatus status = process_status(Dump::open(path));
    CHECK(status.ended == Ended::kUnknown);
    CHECK(has(status.note, "exec"));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST_CASE("of an unmarked dump only the end is known when the process is gone", "[report][process-status]") {
  culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  DumpBuilder builder = dump_of(::getpid());
  SECTION("no such pid") { builder.header().pid = 0x7ffffffe; }
  SECTION("the pid is another process now") { builder.header().start_time_ticks += 1; }
  SECTION("while exit handlers ran") {
    builder.header().start_time_ticks += 1;
    builder.header().process_state = culprit::format::ProcessState::kExiting;
  }
  builder.write(path);
  const ProcessStatus status = process_status(Dump::open(path));
  CHECK(status.ended == Ended::kUnknown);
  CHECK(status.gone);
  CHECK(has(status.note, "exit_group"));
}

TEST_CASE("a zombie shows how it ended", "[report][process-status]") {
  culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  for (const bool killed : {false, true}) {
    INFO(killed);
    const pid_t child = ::fork();
    if (child == 0) {
      if (!killed) ::_exit(5);
      for (;;) ::pause();
    }
    dump_of(child).write(path);
    if (killed) ::kill(child, SIGKILL);
    siginfo_t ended = {};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
    const ProcessStatus status = process_status(Dump::open(path));
    CHECK(status.ended == (killed ? Ended::kKilled : Ended::kExit));
    CHECK(status.exit_status == (killed ? 0 : 5));
    CHECK(status.signal == (killed ? SIGKILL : 0));
    ::waitpid(child, nullptr, 0);
  }
}

TEST_CASE("the end of a command's own child is known", "[report][process-status]") {
  culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  DumpBuilder builder = dump_of(::getpid());
  culprit::format::Header& header = builder.header();
  header.pid = 0x7ffffffe;
  header.start_realtime_ns = 1000;
  MachineFacts machine;
  machine.child = ChildEnd{process_key(header), true, SIGTERM};
  Ended expected = Ended::kKilled;
  SECTION("a signal ended it") {}
  SECTION("a signal ended it although the dump was marked") {
    header.process_state = culprit::format::ProcessState::kExited;
  }
  SECTION("another process had the number") {
    header.start_time_ticks += 1;
    expected = Ended::kUnknown;
  }
  SECTION("a program that exec replaced had another end") {
    machine.last_start_ns[process_key(header)] = 2000;
    expected = Ended::kUnknown;
  }
  builder.write(path);
  const ProcessStatus status = process_status(Dump::open(path), machine);
  CHECK(status.ended == expected);
  CHECK(status.signal == (expected == Ended::kKilled ? SIGTERM : 0));
  CHECK(status.is_over());
}

TEST_CASE("dumps of other places are not guessed about", "[report][process-status]") {
  culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  DumpBuilder builder = dump_of(::getpid());
  SECTION("another boot") { builder.header().boot_id[0] ^= 1; }
  SECTION("another pid namespace") { builder.header().pid_namespace ^= 1; }
  builder.write(path);
  const ProcessStatus status = process_status(Dump::open(path));
  CHECK(status.ended == Ended::kUnknown);
  CHECK_FALSE(status.note.empty());
}
