// Which process a command means, and whether it was detached, in a fake /proc.
#include "report/proc/target_process.h"

#include "report/proc/loaded_library.h"
#include "tests/catch.h"
#include "tests/unit/report/doctor/fake_machine.h"

namespace culprit::test {
namespace {

const std::vector<std::string> kLoaded = {
    "7f0000000000-7f0000001000 r--p 00000000 08:01 42    /opt/culprit/lib/libculprit.so",
    "7f0000001000-7f0000009000 r-xp 00001000 08:01 42    /opt/culprit/lib/libculprit.so",
};
// As libelf maps a file to read its symbols.
const std::vector<std::string> kRead = {
    "7f0000000000-7f0000009000 r--p 00000000 08:01 42    /opt/culprit/lib/libculprit.so",
    "7f0000009000-7f000000a000 r-xp 00000000 08:01 43    /usr/lib/libother.so",
};

// Adds process 100 with that environment.
void add_process(const FakeMachine& machine, const std::vector<std::string>& maps, const std::string& environment) {
  FakeProcess process;
  process.pid = 100;
  process.maps = maps;
  machine.add(process);
  machine.write_in(100, "environ", environment);
}

}  // namespace

TEST_CASE("a process that only reads libculprit.so's file does not run under it", "[target]") {
  const FakeMachine machine;
  add_process(machine, kRead, std::string("PATH=/bin\0", 10));
  const TargetProcess alone = find_target(machine.proc(), 100);
  CHECK(alone.without_library);
  CHECK_FALSE(alone.detached);

  // `culprit run` does so while it looks at its child, which is meant then.
  FakeProcess child;
  child.pid = 101;
  child.parent = 100;
  child.maps = kLoaded;
  machine.add(child);
  machine.write_in(100, "task/100/children", "101 ");
  machine.write_in(101, "environ",
                   std::string("LD_PRELOAD=/opt/culprit/lib/libculprit.so\0CULPRIT_START=signal\0", 63));
  const TargetProcess found = find_target(machine.proc(), 100);
  CHECK(found.problem.empty());
  CHECK(found.pid == 101);
  CHECK(found.waits_for_signal);
  CHECK_FALSE(found.detached);
}

TEST_CASE("a process was detached only where its environment proves it", "[target]") {
  const FakeMachine machine;
  add_process(machine, kLoaded, std::string("PATH=/bin\0", 10));
  CHECK(find_target(machine.proc(), 100).detached);
  // As at its end, and in the middle of an exec.
  machine.write_in(100, "environ", "");
  CHECK_FALSE(find_target(machine.proc(), 100).detached);
  std::filesystem::remove(machine.proc() + "/100/environ");
  CHECK_FALSE(find_target(machine.proc(), 100).detached);
  // Started without any variable: its stat says so.
  std::string fields = "100 (app) S 1 100 100";
  for (int field = 7; field <= 52; ++field)
    fields += field == 22 ? " 100" : field == 50 || field == 51 ? " 4096" : " 0";
  machine.write_in(100, "stat", fields + "\n");
  machine.write_in(100, "environ", "");
  CHECK(find_target(machine.proc(), 100).detached);
}

TEST_CASE("a library is found where the loader has put it, not where its file is read", "[target]") {
  const FakeMachine machine;
  std::vector<std::string> maps = {
      "7e0000000000-7e0000009000 r--p 00000000 08:01 42    /opt/culprit/lib/libculprit.so"};
  maps.insert(maps.end(), kLoaded.begin(), kLoaded.end());
  maps.push_back("7f0000009000-7f000000a000 rw-p 00000000 00:00 0");
  maps.push_back("7f000000a000-7f0000013000 r--p 00000000 08:01 42    /opt/culprit/lib/libculprit.so");
  maps.push_back("7f1000000000-7f1000001000 r-xp 00000000 08:01 44    /usr/lib/libculprit.so.txt");
  add_process(machine, maps, "");
  const std::vector<MappedRange> mappings = mappings_of(ProcessFolder(machine.proc(), 100));
  const MappedRange* found = find_loaded(mappings, {"libnone", "libculprit.so"});
  REQUIRE(found != nullptr);
  CHECK(found->begin == 0x7f0000000000);
  CHECK(find_loaded(mappings, {"libnone"}) == nullptr);
}

}  // namespace culprit::test
