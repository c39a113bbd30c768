// culprit doctor about the driver: its known problems, Xid errors, processes stuck in it, resets, MPS and MIG.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/doctor/known_issues.h"
#include "report/doctor/mps.h"
#include "report/doctor/render_doctor_json.h"
#include "report/doctor/render_doctor_text.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/doctor/fake_machine.h"

using namespace culprit::report;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

const std::string kGpu = "gpu name=H200 uuid=GPU-0 minor=0 bus=6 total=2000000000 reserved=0 free=1000000000";

std::string text_of(const Diagnosis& diagnosis) {
  std::ostringstream out;
  render_doctor_text(diagnosis, false, out);
  return out.str();
}

// Lines are wrapped in the text.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (std::size_t at = text.find("  "); at != std::string::npos; at = text.find("  ")) text.erase(at, 1);
  return text;
}

Json json_of(const Diagnosis& diagnosis) {
  std::ostringstream out;
  render_doctor_json(diagnosis, out);
  return Json::parse(out.str());
}

void set_module(const FakeMachine& machine, const std::string& what, const std::string& version) {
  FakeMachine::write(machine.proc() + "/driver/nvidia/version",
                     "NVRM version: NVIDIA UNIX " + what + "  " + version + "  Release Build\nGCC version:  gcc 12\n");
}

}  // namespace

TEST_CASE("versions of the table of known problems", "[doctor]") {
  CHECK(has_version("570.133.20 580.105.08", "580.105.08"));
  CHECK_FALSE(has_version("570.133.20 580.105.08", "580.105.07"));
  CHECK(has_version("535.43.02..535.98", "535.43.02"));
  CHECK(has_version("535.43.02..535.98", "535.86.10"));
  CHECK_FALSE(has_version("535.43.02..535.98", "535.98"));
  CHECK_FALSE(has_version("535.43.02..535.98", "535.104.05"));
  CHECK(has_version("525..525.105.17", "525.60.13"));
  CHECK_FALSE(has_version("525..525.105.17", "515.48.07"));
}

TEST_CASE("each known problem has a public source", "[doctor]") {
  for (const char* version : {"515.48.07", "525.60.13", "535.54.03", "535.98", "535.183.06", "535.216.03", "570.86.16",
                              "570.133.20", "570.148.08", "575.57.08", "595.58.03", "595.71.05"}) {
    INFO(version);
    const std::vector<KnownIssue> issues = known_issues_of({version, true});
    REQUIRE_FALSE(issues.empty());
    for (const KnownIssue& issue : issues) {
      const bool of_nvidia = issue.source.rfind("https://docs.nvidia.com/", 0) == 0 ||
                             issue.source.rfind("https://github.com/NVIDIA/", 0) == 0;
      CHECK(of_nvidia);
      CHECK_FALSE(issue.problem.empty());
    }
  }
}

TEST_CASE("the driver's version and its known problems are shown", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("driver 570.133.20\ncuda 12080\n" + kGpu + "\n");
  set_module(machine, "Open Kernel Module for x86_64", "570.133.20");
  const Diagnosis diagnosis = machine.diagnose();
  const std::string text = text_of(diagnosis);
  CHECK(contains(text, "driver 570.133.20, open modules · CUDA 12.8 · 1 GPU"));
  CHECK(contains(in_one_line(text), "nvidia-smi and programs hang after about 66 days without a reboot"));
  CHECK(contains(text, "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/971"));
  const Json json = json_of(diagnosis);
  CHECK(json["cuda"] == "12.8");
  CHECK(json["open_modules"] == true);
  REQUIRE(json["known_issues"].size() == 1);
  CHECK(json["known_issues"][0]["remedy"] == "reboot earlier than that");

  SECTION("proprietary modules do not have the problem") {
    set_module(machine, "x86_64 Kernel Module", "570.133.20");
    const std::string other = text_of(machine.diagnose());
    CHECK(contains(other, "proprietary modules"));
    CHECK(contains(in_one_line(other), "known no problem of this driver"));
  }
  SECTION("without NVML the kernel tells the version") {
    machine.set_nvml("init 18\n");
    CHECK(machine.diagnose().driver == "570.133.20");
  }
}

TEST_CASE("a driver without known problems", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("driver 580.65.06\n" + kGpu + "\n");
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(diagnosis.known_issues.empty());
  CHECK_FALSE(diagnosis.open_modules);
  CHECK(contains(in_one_line(text_of(diagnosis)), "known no problem of this driver"));
  CHECK(json_of(diagnosis)["known_issues"].empty());
}

TEST_CASE("a driver whose lists of processes have another layout", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("driver 535.54.03\n" + kGpu + "\nprocess compute 761 1000\nprocess compute 762 2000\n");
  machine.add(cuda_process(761, "first"));
  machine.add(cuda_process(762, "second"));
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.gpus.at(0).holders.size() == 2);
  CHECK(diagnosis.gpus[0].holders[0].pid == 762);
  CHECK(diagnosis.gpus[0].holders[1].pid == 761);
}

TEST_CASE("a line with an Xid error", "[doctor]") {
  const std::optional<Xid> fault = parse_xid(
      "NVRM: Xid (PCI:0000:06:00): 31, pid=1234, name=python3, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS");
  REQUIRE(fault);
  CHECK(fault->pci == "0000:06:00");
  CHECK(fault->number == 31);
  CHECK(fault->pid == 1234u);
  CHECK(fault->process == "python3");
  CHECK(fault->detail == "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS");
  CHECK(contains(fault->meaning, "memory page fault"));

  const std::optional<Xid> lost = parse_xid(
      "[12.5] node7 kernel: NVRM: Xid (PCI:0000:AF:00): 79, pid='<unknown>', "
      "name=<unknown>, GPU has fallen off the bus.");
  REQUIRE(lost);
  CHECK(lost->pci == "0000:af:00");
  CHECK(lost->number == 79);
  CHECK_FALSE(lost->pid);
  CHECK(lost->process.empty());
  CHECK(lost->detail == "GPU has fallen off the bus.");

  const std::optional<Xid> unknown = parse_xid("NVRM: Xid (PCI:0000:06:00): 999");
  REQUIRE(unknown);
  CHECK(unknown->meaning.empty());
  for (const char* line : {"", "NVRM: Xid (PCI:", "NVRM: Xid (PCI:x:y:z): 31", "NVRM: Xid (PCI:0000:06:00): pid",
                           "NVRM: Xid (PCI:0000:06:00", "usb 1-1: new device"}) {
    INFO(line);
    CHECK_FALSE(parse_xid(line));
  }
}

TEST_CASE("Xid errors stand with their GPU", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGpu + "\n");
  machine.set_kernel_log(
      "6,1,1000000,-;usb 1-1: new device\n SUBSYSTEM=usb\n"
      "4,2,8000000000,-;NVRM: Xid (PCI:0000:06:00): 31, pid=761, name=app, Ch 1\n"
      "4,3,9000000000,-;NVRM: Xid (PCI:0000:06:00): 31, pid=761, name=app, Ch 2\n"
      "4,4,9400000000,-;NVRM: Xid (PCI:0000:06:00): 95, pid=762, name=app\n"
      "4,5,9500000000,-;NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.\n");
  const Diagnosis diagnosis = machine.diagnose();
  const GpuDiagnosis& gpu = diagnosis.gpus.at(0);
  REQUIRE(gpu.xids.size() == 2);
  CHECK(gpu.xids[0].number == 95);
  CHECK(gpu.xids[1].number == 31);
  CHECK(gpu.xids[1].count == 2);
  REQUIRE(diagnosis.xids.size() == 1);
  CHECK(diagnosis.xids[0].number == 79);
  const std::string text = in_one_line(text_of(diagnosis));
  CHECK(contains(text, "Xid 95, 10 min ago, process 762 (app): an uncorrectable memory error"));
  CHECK(contains(text, "Xid 31, 2x, last 16 min ago, process 761 (app): a GPU memory page fault"));
  CHECK(contains(text, "Xid errors of GPUs that are not shown Xid 79, 8 min ago: the GPU has fallen off the bus"));
  const Json json = json_of(diagnosis);
  CHECK(json["gpus"][0]["xids"][1]["count"] == 2);
  CHECK(json["gpus"][0]["xids"][1]["age_seconds"] == 1000);
  CHECK(json["gpus"][0]["xids"][1]["detail"] == "Ch 2");
  CHECK(json["xids"][0]["pci"] == "0000:07:00");
  CHECK(any_has(gpu.answers, "#what-a-reset-does"));
}

TEST_CASE("a kernel log that may not be read", "[doctor]") {
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  FakeMachine machine;
  machine.set_nvml(kGpu + "\n");
  SECTION("without a journal one line says what would show them") {
    ::setenv("PATH", machine.path().c_str(), 1);
    KernelLog log = read_kernel_log(machine.path() + "/nothing");
    ::setenv("PATH", path.c_str(), 1);
    CHECK(log.source.empty());
    CHECK(contains(log.problem, "No such file or directory, and journalctl shows nothing"));
    SystemFacts facts;
    facts.log = log;
    const Diagnosis diagnosis = explain(machine.nvml(), read_proc(machine.proc(), {}), {}, facts);
    CHECK(any_has(diagnosis.unseen, "Xid errors of the driver: "));
    CHECK(any_has(diagnosis.unseen, "sudo dmesg | grep 'NVRM: Xid'"));
  }
  SECTION("the journal is asked") {
    const std::string journalctl = machine.path() + "/journalctl";
    const auto answer = [&](const std::string& script) {
      FakeMachine::write(journalctl, "#!/bin/sh\n" + script);
      ::chmod(journalctl.c_str(), 0755);
      ::setenv("PATH", (machine.path() + ":" + path).c_str(), 1);
      KernelLog log = read_kernel_log(machine.path() + "/nothing");
      ::setenv("PATH", path.c_str(), 1);
      return log;
    };
    const KernelLog found =
        answer("echo '[  12.500000] node7 kernel: NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off.'\n");
    CHECK(found.source == "journalctl");
    CHECK(found.problem.empty());
    REQUIRE(found.xids.size() == 1);
    CHECK(found.xids[0].last_seconds == 12.5);
    const KernelLog none = answer("case $* in *grep*) exit 1;; *) echo '[ 1.0] node7 kernel: Linux version';; esac\n");
    CHECK(none.problem.empty());
    CHECK(none.xids.empty());
    CHECK_FALSE(answer("exit 1\n").problem.empty());
    CHECK_FALSE(answer("exit 127\n").problem.empty());
  }
}

TEST_CASE("a process whose thread is stuck in the driver", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGpu + "\nprocess compute 761 1000000000\n");
  machine.add(cuda_process(761, "trainer"));
  machine.add_thread(761, 762, 'D', {});
  FakeMachine::write(machine.proc() + "/761/task/762/wchan", "os_acquire_rwlock_read");
  SECTION("root sees its stack") {
    FakeMachine::write(machine.proc() + "/761/task/762/stack",
                       "[<0>] os_acquire_rwlock_read+0x35/0x50 [nvidia]\n[<0>] uvm_ioctl+0xed7/0x1790 [nvidia_uvm]\n"
                       "[<0>] do_syscall_64+0x59/0xc0\n");
    const Diagnosis diagnosis = machine.diagnose();
    const Holder& holder = diagnosis.gpus.at(0).holders.at(0);
    CHECK(holder.kind == HolderKind::kStuck);
    CHECK(contains(holder.explanation, "Its thread 762 waits in the kernel, in NVIDIA's driver"));
    CHECK(contains(text_of(diagnosis), "os_acquire_rwlock_read+0x35/0x50 [nvidia]"));
    const Json thread = json_of(diagnosis)["gpus"][0]["holders"][0]["process"]["stuck_threads"][0];
    CHECK(thread["tid"] == 762);
    CHECK(thread["in_driver"] == true);
    CHECK(thread["kernel_stack"].size() == 3);
    CHECK(any_has(diagnosis.gpus[0].answers, "#what-a-reset-does"));
  }
  SECTION("a thread that waits elsewhere in the kernel is not blamed") {
    FakeMachine::write(machine.proc() + "/761/task/762/stack", "[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]\n");
    const Diagnosis diagnosis = machine.diagnose();
    CHECK(diagnosis.gpus.at(0).holders.at(0).kind == HolderKind::kProcess);
  }
  SECTION("without root the channel is known, and the command that shows the stack") {
    FakeProcess stuck = cuda_process(763, "stuck");
    stuck.state = 'D';
    machine.add(stuck);
    machine.write_in(763, "wchan", "uvm_spin_loop");
    machine.set_nvml(kGpu + "\nprocess compute 763 1000000000\n");
    const Diagnosis diagnosis = machine.diagnose(true);
    const auto holder = std::find_if(diagnosis.gpus.at(0).holders.begin(), diagnosis.gpus[0].holders.end(),
                                     [](const Holder& one) { return one.pid == 763; });
    REQUIRE(holder != diagnosis.gpus[0].holders.end());
    CHECK(holder->kind == HolderKind::kStuck);
    CHECK(contains(holder->explanation, "(uvm_spin_loop)"));
    // AsNobody drops the rights only where the test runs as root; otherwise culprit has none either.
    CHECK(holder->next == std::vector<std::string>{"sudo cat /proc/763/task/763/stack"});
  }
}

TEST_CASE("a killed process whose last thread is stuck in the driver", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGpu + "\nprocess compute 761 1000000000\n");
  FakeProcess zombie;
  zombie.pid = 761;
  zombie.name = "trainer";
  zombie.state = 'Z';
  machine.add(zombie);
  machine.add_thread(761, 762, 'D', {"/dev/nvidia0"});
  FakeMachine::write(machine.proc() + "/761/task/762/stack", "[<0>] uvm_spin_loop+0xb2/0xe0 [nvidia_uvm]\n");
  const Diagnosis diagnosis = machine.diagnose();
  const Holder& holder = diagnosis.gpus.at(0).holders.at(0);
  CHECK(holder.kind == HolderKind::kStuck);
  CHECK(holder.next.empty());
}

TEST_CASE("the processes that a reset would hit", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGpu + " remap_pending=1 remapped=1\nprocess compute 761 1000000000\n");
  FakeProcess child = cuda_process(767, "forkhold");
  child.group = 761;
  machine.add(child);
  machine.add(cuda_process(500, "nvidia-persiste"));
  FakeProcess elsewhere = cuda_process(600, "other");
  elsewhere.files = {"/dev/nvidia1"};
  machine.add(elsewhere);
  const Diagnosis diagnosis = machine.diagnose();
  // Not the ghost 761, which has ended.
  CHECK(diagnosis.gpus.at(0).reset.pids == std::vector<std::uint32_t>{500, 767});
  CHECK(diagnosis.gpus[0].reset.complete);
  CHECK(contains(in_one_line(text_of(diagnosis)), "reset would hit 2 processes: 500, 767; nvidia-smi refuses it"));
  CHECK(json_of(diagnosis)["gpus"][0]["reset"]["pids"] == Json({500, 767}));

  SECTION("in a container there may be more") {
    machine.enter_namespace();
    const Diagnosis inside = machine.diagnose();
    CHECK_FALSE(inside.gpus.at(0).reset.complete);
    CHECK(contains(in_one_line(text_of(inside)), "there may be more that cannot be seen from here"));
  }
  SECTION("where no reset is advised it is only in JSON") {
    machine.set_nvml(kGpu + "\n");
    const std::string text = text_of(machine.diagnose());
    CHECK_FALSE(contains(text, "would hit"));
  }
}

TEST_CASE("MPS: the control daemon, its servers and their clients", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGpu + "\nprocess compute 701 500000000\nprocess mps 761 300000000\nprocess mps 762 200000000\n");
  FakeProcess control;
  control.pid = 700;
  control.name = "nvidia-cuda-mps";
  control.command = {"/usr/bin/nvidia-cuda-mps-control", "-d"};
  FakeProcess server = cuda_process(701, "nvidia-cuda-mps");
  server.command = {"nvidia-cuda-mps-server"};
  server.parent = 700;
  machine.add(control);
  machine.write_in(700, "environ", std::string("HOME=/root\0CUDA_MPS_PIPE_DIRECTORY=/run/mps\0", 43));
  machine.add(server);
  machine.add(cuda_process(761, "first"));
  machine.add(cuda_process(762, "second"));
  machine.mps_pipes = "/run/mps";
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.mps.size() == 1);
  CHECK(diagnosis.mps[0].pid == 700u);
  CHECK(diagnosis.mps[0].pipes == "/run/mps");
  CHECK_FALSE(diagnosis.mps[0].pipes_by_default);
  CHECK(diagnosis.mps[0].servers == std::vector<std::uint32_t>{701});
  CHECK(diagnosis.mps_clients == std::vector<std::uint32_t>{761, 762});
  const std::string text = in_one_line(text_of(diagnosis));
  CHECK(contains(text, "control 700 · root · /run/mps"));
  CHECK(contains(text, "clients 761, 762"));
  CHECK(contains(text, "echo get_client_list 701 | CUDA_MPS_PIPE_DIRECTORY=/run/mps nvidia-cuda-mps-control"));
  const Json mps = json_of(diagnosis)["mps"];
  CHECK(mps["daemons"][0]["pid"] == 700);
  CHECK(mps["daemons"][0]["servers"] == Json({701}));
  CHECK(mps["clients"] == Json({761, 762}));
  // The control daemon has no file of a GPU open, and is no server.
  for (const Holder& holder : diagnosis.gpus.at(0).holders) CHECK((holder.role == "MPS server") == (holder.pid == 701));

  SECTION("in a container only the directory is seen") {
    machine.remove(700);
    machine.remove(701);
    machine.set_nvml(kGpu + "\n");
    const Diagnosis inside = machine.diagnose();
    REQUIRE(inside.mps.size() == 1);
    CHECK_FALSE(inside.mps[0].pid);
    CHECK(contains(in_one_line(text_of(inside)), "control its process cannot be seen from here · /run/mps"));
  }
}

TEST_CASE("MPS: the directory of this process's environment", "[doctor]") {
  const FakeMachine machine;
  CHECK(mps_pipes_here(machine.path()).empty());
  FakeMachine::write(machine.path() + "/control", "");
  CHECK(mps_pipes_here(machine.path()) == machine.path());
}

TEST_CASE("MIG: each instance with its processes, and a mode that waits for a reset", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGpu + " mig_pending=0\nmig gi=3 ci=0 uuid=MIG-3 name=slice total=1000 reserved=0 free=400\n" +
                   "process compute 761 700\nprocess compute 762 200\n" +
                   "mig gi=4 ci=0 uuid=MIG-4 name=slice total=1000 reserved=0 free=1000\n");
  machine.add(cuda_process(761, "first"));
  machine.add(cuda_process(762, "second"));
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(any_has(diagnosis.gpus.at(0).findings, "MIG will be off after the next reset"));
  const std::string text = in_one_line(text_of(diagnosis));
  CHECK(contains(text, "600 B used of 1000 B 2 processes MIG-3"));
  CHECK(contains(text, "0 B used of 1000 B 0 processes MIG-4"));
  const Json mig = json_of(diagnosis)["gpus"][0]["mig_devices"];
  CHECK(mig[0]["processes"] == 2);
  CHECK(mig[0]["named_bytes"] == 900);
  CHECK(mig[1]["processes"] == 0);
}
