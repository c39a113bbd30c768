// Why a process cannot be attached to, from a fake /proc: most cases cannot be produced on a test machine.
#include "report/attach/traced_process.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/doctor/fake_machine.h"

using culprit::report::AttachError;
using culprit::report::TracedProcess;
using culprit::test::FakeMachine;
using culprit::test::FakeProcess;
using culprit::test::has;

namespace {

constexpr char kScope[] = "/sys/kernel/yama/ptrace_scope";
constexpr char kAllCapabilities[] = "000001ffffffffff";
constexpr char kNone[] = "0000000000000000";

std::string status_of(const std::string& uid, const std::string& capabilities, const std::string& seccomp = "0") {
  return "Name:\tx\nUid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\nCapPrm:\t" + capabilities +
         "\nCapEff:\t" + capabilities + "\nSeccomp:\t" + seccomp + "\n";
}

// A machine where culprit, process 99, looks at process 500. Both folders belong to the user who runs the test.
struct Machine : FakeMachine {
  FakeProcess target;
  Machine() {
    target.pid = 500;
    target.name = "train";
    write(proc() + kScope, "0\n");
    for (const char* process : {"/99", "/500"}) {
      std::filesystem::create_directories(proc() + process + "/ns");
      std::filesystem::create_symlink("user:[4026531837]", proc() + process + "/ns/user");
    }
    add(target);
    write_in(99, "status", status_of("0", kAllCapabilities));
    write_in(500, "status", status_of(std::to_string(::geteuid()), kNone));
  }
  // The obstacle found before anything is tried; empty for none.
  std::string checked() const {
    try {
      TracedProcess(500, proc()).check_attachable();
    } catch (const AttachError& error) {
      return error.what();
    }
    return {};
  }
  // The message after the system has refused.
  std::string refused(int error = EPERM) const {
    try {
      TracedProcess(500, proc()).explain_refusal(error);
    } catch (const AttachError& told) {
      return told.what();
    }
  }
};

}  // namespace

// Of io_uring, for example. The system forbids tracing them.
TEST_CASE("threads that the kernel has made for a process are not its own", "[attach]") {
  Machine machine;
  const auto stat = [](const std::string& number, const std::string& flags) {
    return number + " (x) S 1 500 500 0 -1 " + flags + " 0 0 0 0 0 0 0 0 20 0 2 0 100\n";
  };
  machine.write_in(500, "task/500/stat", stat("500", "64"));
  machine.write_in(500, "task/501/stat", stat("501", std::to_string(0x4050)));
  machine.write_in(500, "task/502/stat", stat("502", std::to_string(0x50)));
  machine.write_in(500, "task/503/stat", stat("503", "64"));
  CHECK(TracedProcess(500, machine.proc()).threads() == std::vector<pid_t>{500, 503});
}

TEST_CASE("a process that cannot be attached to is named before any attempt", "[attach]") {
  Machine machine;
  CHECK(machine.checked().empty());
  const auto with = [&](auto change) {
    FakeProcess changed = machine.target;
    change(&changed);
    machine.add(changed);
    machine.write_in(500, "status", status_of("0", kNone));
    return machine.checked();
  };
  CHECK(
      has(with([](FakeProcess* process) { process->state = 'T'; }), "is stopped: continue it first (kill -CONT 500)"));
  CHECK(has(with([](FakeProcess* process) { process->state = 'Z'; }), "has ended, and its parent, process 1,"));
  CHECK(has(with([](FakeProcess* process) { process->flags = 0x00200040; }), "is a thread of the kernel"));
  machine.write_in(500, "comm", "a\nb\33[31m\n");
  CHECK(has(with([](FakeProcess* process) { process->state = 'T'; }), "a?b?[31m [500] is stopped"));
  CHECK(with([](FakeProcess* process) { process->flags = 0x40; }).empty());

  machine.write_in(500, "status", status_of("0", kNone) + "CoreDumping:\t1\n");
  CHECK(has(machine.checked(), "has crashed, and the system is writing its core file"));
  machine.write_in(500, "status", status_of("0", kNone) + "TracerPid:\t1\n");
  machine.write_in(1, "comm", "gdb\n");
  CHECK(has(machine.checked(), "is traced by gdb, process 1: a debugger or strace"));
  machine.write_in(500, "status", status_of("0", kNone) + "Tgid:\t400\n");
  CHECK(has(machine.checked(), "500 is a thread of process 400: use that number"));
  machine.write_in(500, "status", status_of("0", kNone) + "x86_Thread_features:\tshstk\n");
  CHECK(has(machine.checked(), "runs with shadow stacks"));
  machine.write_in(500, "status", status_of("0", kNone));
  machine.write_in(500, "exe", std::string("\177ELF\1\1\1", 7) + std::string(64, '\0'));
  CHECK(has(machine.checked(), "is not a 64-bit program"));
  machine.write_in(500, "exe", std::string("\177ELF\2\1\1", 7) + std::string(64, '\0'));
  CHECK(machine.checked().empty());

  machine.write_in(99, "status", status_of("1000", kNone));
  CHECK(has(machine.checked(), "belongs to root: run culprit as that user, or as root"));
  CHECK_THROWS_AS(TracedProcess(501, machine.proc()), AttachError);
}

TEST_CASE("a refused ptrace is reported with its reason and a remedy", "[attach]") {
  Machine machine;
  CHECK(has(machine.refused(ESRCH), "has ended"));
  CHECK(has(machine.refused(), "a security module (SELinux, AppArmor) forbids it"));
  machine.write_in(99, "status", status_of("0", kAllCapabilities, "2"));
  CHECK(has(machine.refused(), "a seccomp filter around culprit forbids it (docker run --security-opt"));
  machine.write_in(99, "status", status_of("0", kAllCapabilities));
  std::filesystem::remove(machine.proc() + "/500/ns/user");
  std::filesystem::create_symlink("user:[4026532000]", machine.proc() + "/500/ns/user");
  CHECK(has(machine.refused(), "a user namespace over which this root has no power"));
  machine.write_in(99, "status", status_of("0", "00000000a80425fb"));
  CHECK(has(machine.refused(), "it needs the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE)"));

  // Without root's rights. The files below 500 belong to its user, except where that cannot be traced.
  const std::string own = std::to_string(::geteuid());
  machine.write_in(99, "status", status_of(own == "0" ? "1000" : own, kNone));
  CHECK(has(machine.refused(), ": run culprit as root (sudo culprit attach 500)"));
  machine.write_in(500, "status", status_of(own, "0000000000000400"));
  CHECK(has(machine.refused(), "it has capabilities that culprit does not have: run culprit as root"));
  FakeMachine::write(machine.proc() + kScope, "1\n");
  CHECK(has(machine.refused(), "ptrace_scope is 1, so run culprit as root"));
  CHECK(has(machine.refused(), "or start the program with culprit run"));
  machine.write_in(500, "status", status_of("12345", kNone));
  CHECK(has(machine.refused(), "it has made itself undumpable"));
  FakeMachine::write(machine.proc() + kScope, "3\n");
  CHECK(has(machine.refused(), "ptrace_scope is 3, which forbids tracing until the next boot"));
}
