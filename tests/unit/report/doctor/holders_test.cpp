// culprit doctor: each kind of holder, on a fake NVML and a fake /proc tree.
#include <algorithm>
#include <sstream>

#include "report/doctor/render_doctor_text.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/doctor/fake_machine.h"
#include "tests/unit/report/fixture.h"

using namespace culprit;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;

std::string text(std::uint64_t value) { return std::to_string(value); }

// 80 GiB, of which 12 GiB are used and 1 GiB is reserved.
std::string gpu_line(unsigned minor = 0) {
  return "driver 580.65.06\ngpu name=H200 uuid=GPU-0 minor=" + std::to_string(minor) + " total=" + text(80 * kGiB) +
         " reserved=" + text(kGiB) + " free=" + text(67 * kGiB) + " compute_mode=0 persistence=1\n";
}

const Holder& only(const Diagnosis& diagnosis) {
  REQUIRE(diagnosis.gpus.size() == 1);
  REQUIRE(diagnosis.gpus[0].holders.size() == 1);
  return diagnosis.gpus[0].holders[0];
}

}  // namespace

TEST_CASE("a process that NVML names is described", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 4242 " + text(10 * kGiB) + "\n");
  FakeProcess process = cuda_process(4242, "python3");
  process.command = {"python3", "train.py"};
  process.parent = 1;
  machine.add(process);
  const Diagnosis diagnosis = machine.diagnose();
  const Holder& holder = only(diagnosis);
  CHECK(holder.kind == HolderKind::kProcess);
  CHECK(holder.bytes == 10 * kGiB);
  CHECK(holder.use == GpuUse::kCompute);
  REQUIRE(holder.process);
  CHECK(holder.process->command == std::vector<std::string>{"python3", "train.py"});
  CHECK(holder.process->user == "root");
  CHECK(holder.process->parent_name == "systemd");
  REQUIRE(holder.process->age_seconds);
  CHECK(*holder.process->age_seconds == Approx(10000 - 100.0 / static_cast<double>(::sysconf(_SC_CLK_TCK))));
  const GpuDiagnosis& gpu = diagnosis.gpus[0];
  CHECK(gpu.gpu.memory->used() == 12 * kGiB);
  CHECK(gpu.named == 10 * kGiB);
  CHECK(gpu.unexplained == 2 * kGiB);
  CHECK(diagnosis.driver == "580.65.06");
  CHECK(diagnosis.unseen.empty());
}

TEST_CASE("a ghost: the child that keeps an ended process's memory is named", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  FakeProcess child = cuda_process(767, "forkhold");
  child.group = 761;
  machine.add(child);
  machine.add({800, "bash"});
  const Diagnosis diagnosis = machine.diagnose();
  const Holder& holder = only(diagnosis);
  CHECK(holder.kind == HolderKind::kGhost);
  CHECK(holder.certain);
  REQUIRE(holder.keepers.size() == 1);
  CHECK(holder.keepers[0].pid == 767);
  CHECK(holder.explanation ==
        "12.0 GiB are charged to PID 761, which has ended. Its child 767 (forkhold) still holds the GPU's files. The "
        "memory comes back when 767 ends: kill 767.");
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"kill 767"});
  CHECK(diagnosis.gpus[0].unexplained == 0);
}

TEST_CASE("a ghost: several children are all needed", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  for (std::uint32_t pid : {767, 768}) {
    FakeProcess child = cuda_process(pid, "worker");
    child.group = 761;
    machine.add(child);
  }
  const Holder holder = only(machine.diagnose());
  CHECK(has(holder.explanation, "Its children 767 (worker) and 768 (worker) still hold the GPU's files."));
  CHECK(has(holder.explanation, "all of them have ended: kill 767 768."));
}

TEST_CASE("a ghost: without a trace of kinship no process is named to kill", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  machine.add(cuda_process(767, "forkhold"));
  machine.add(cuda_process(768, "other", 1));  // another GPU's files
  FakeProcess daemon = cuda_process(500, "nvidia-persiste");
  daemon.command = {"/usr/bin/nvidia-persistenced"};
  machine.add(daemon);
  const Diagnosis diagnosis = machine.diagnose();
  const auto& holders = diagnosis.gpus[0].holders;
  REQUIRE(holders.size() == 2);
  CHECK(holders[0].kind == HolderKind::kGhost);
  CHECK_FALSE(holders[0].certain);
  REQUIRE(holders[0].keepers.size() == 1);
  CHECK(holders[0].keepers[0].pid == 767);
  CHECK(has(holders[0].explanation, "most likely a child that inherited them"));
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"ps -fp 767"});
  CHECK(holders[1].pid == 500);
  CHECK(holders[1].role == "persistence daemon");
}

TEST_CASE("a ghost: a child that holds mappings only is found", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  FakeProcess child = cuda_process(767, "forkhold");
  child.files = {"/dev/null"};
  child.maps = {"7f0000000000-7f0000001000 r-xp 00000000 08:01 42 /usr/bin/app",
                "7f0000200000-7f0000201000 rw-s 00000000 00:05 99                         /dev/nvidia0"};
  child.group = 761;
  machine.add(child);
  const Holder holder = only(machine.diagnose());
  REQUIRE(holder.keepers.size() == 1);
  CHECK(holder.keepers[0].pid == 767);
}

TEST_CASE("a ghost: no process keeps its files open", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(only(diagnosis).kind == HolderKind::kGhost);
  CHECK(has(only(diagnosis).explanation, "No process has the GPU's files open"));
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"sudo nvidia-smi --gpu-reset -i 0"});
}

TEST_CASE("a number that was given to another process is a ghost", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  machine.add({761, "bash"});
  FakeProcess child = cuda_process(767, "forkhold");
  machine.add(child);
  const Holder holder = only(machine.diagnose());
  CHECK(holder.kind == HolderKind::kReusedPid);
  CHECK_FALSE(holder.process);
  CHECK(has(holder.explanation, "its number is now that of bash"));
  REQUIRE(holder.keepers.size() == 1);
}

TEST_CASE("a CUDA program whose GPU files have other names is no ghost", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  FakeProcess process{761, "trainer"};
  process.maps = {"7f0000000000-7f0000001000 r-xp 00000000 08:01 42    /usr/lib/wsl/lib/libcuda.so.1"};
  machine.add(process);
  CHECK(only(machine.diagnose()).kind == HolderKind::kProcess);
}

TEST_CASE("a zombie: its parent and those who keep its memory are named", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  machine.add({700, "supervisor"});
  FakeProcess zombie{761, "trainer", 'Z', 700};
  machine.add(zombie);
  FakeProcess child = cuda_process(767, "loader");
  child.parent = 761;
  machine.add(child);
  const Holder holder = only(machine.diagnose());
  CHECK(holder.kind == HolderKind::kZombie);
  CHECK(has(holder.explanation, "a zombie: it has ended, and its parent 700 (supervisor) has not collected it"));
  CHECK(has(holder.explanation, "kill 767."));
}

TEST_CASE("a zombie whose threads live on holds its memory itself", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  machine.add({761, "trainer", 'Z'});
  machine.add_thread(761, 762, 'S', {"/dev/nvidia0"});
  machine.add_thread(761, 763, 'Z', {});
  const Holder holder = only(machine.diagnose());
  CHECK(holder.kind == HolderKind::kZombie);
  REQUIRE(holder.process);
  CHECK(holder.process->live_threads == std::vector<std::uint32_t>{762});
  CHECK(has(holder.explanation, "1 of its threads still run"));
  CHECK(holder.next == std::vector<std::string>{"kill 761"});
}

TEST_CASE("a process stuck in the kernel", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  FakeProcess process = cuda_process(761, "trainer");
  process.state = 'D';
  machine.add(process);
  machine.write_in(761, "wchan", "nv_wait_on_rm");
  const Holder holder = only(machine.diagnose());
  CHECK(holder.kind == HolderKind::kStuck);
  CHECK(has(holder.explanation, "waits in the kernel (nv_wait_on_rm)"));
  CHECK(holder.next.empty());
}

TEST_CASE("an MPS server and an X server are distinguished from programs", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process mps 300 " + text(30 * kMiB) + "\nprocess graphics 301 " + text(90 * kMiB) +
                   "\n");
  FakeProcess server = cuda_process(300, "nvidia-cuda-mps");
  server.command = {"nvidia-cuda-mps-server"};
  machine.add(server);
  machine.add(cuda_process(301, "Xorg"));
  const Diagnosis diagnosis = machine.diagnose();
  const auto& holders = diagnosis.gpus[0].holders;
  REQUIRE(holders.size() == 2);
  CHECK(holders[0].role == "X server");
  CHECK(holders[0].use == GpuUse::kGraphics);
  CHECK(holders[1].role == "MPS server");
  CHECK(has(holders[1].explanation, "memory of its clients"));
}

TEST_CASE("a process of a pod is named by its pod", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  FakeProcess process = cuda_process(761, "trainer");
  process.cgroup =
      "0::/kubepods.slice/kubepods-burstable.slice/"
      "kubepods-burstable-pod3f2a0000_1111_2222_3333_444455556666.slice/cri-containerd-" +
      std::string(64, 'a') + ".scope\n";
  machine.add(process);
  machine.write_in(761, "root/etc/hostname", "trainer-0\n");
  const Holder holder = only(machine.diagnose());
  REQUIRE(holder.process);
  CHECK(container_text(holder.process->container) ==
        "containerd aaaaaaaaaaaa (trainer-0), pod 3f2a0000-1111-2222-3333-444455556666");
}

TEST_CASE("links in a container's file system do not lead out of it", "[doctor]") {
  FakeMachine machine;
  FakeMachine::write(machine.path() + "/secret", "secret\n");
  FakeProcess process = cuda_process(761, "trainer");
  process.cgroup = "0::/system.slice/docker-" + std::string(64, 'b') + ".scope\n";
  machine.add(process);
  std::filesystem::create_directories(machine.proc() + "/761/root/etc");
  std::filesystem::create_symlink(machine.path() + "/secret", machine.proc() + "/761/root/etc/hostname");
  const ProcFacts facts = read_proc(machine.proc(), {});
  REQUIRE(facts.find(761) != nullptr);
  CHECK(facts.find(761)->container.id == "bbbbbbbbbbbb");
  CHECK(facts.find(761)->container.name.empty());
}

TEST_CASE("containers by their control group's path", "[doctor]") {
  const std::string id = std::string(60, 'c') + "1234";
  const struct {
    std::string cgroup;
    std::string text;
  } kCases[] = {
      {"0::/user.slice/user-1000.slice/session-3.scope\n", ""},
      {"", ""},
      {"12:memory:/docker/" + id + "\n11:cpu:/docker/" + id + "\n", "docker cccccccccccc"},
      {"0::/system.slice/docker-" + id + ".scope\n", "docker cccccccccccc"},
      {"0::/machine.slice/libpod-" + id + ".scope/container\n", "podman cccccccccccc"},
      {"1:name=systemd:/kubepods/besteffort/pod01234567-89ab-cdef-0123-456789abcdef/" + id + "\n",
       "container cccccccccccc, pod 01234567-89ab-cdef-0123-456789abcdef"},
      {"0::/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/crio-" + id + ".scope\n",
       "cri-o cccccccccccc, pod 01234567-89ab-cdef-0123-456789abcdef"},
      {"0::/lxc.payload.node3/system.slice\n", "lxc node3"},
      {"0::/machine.slice/machine-build.scope\n", "nspawn build"},
      {"0::/system.slice/slurmstepd.scope/job_4711/step_0/user\n", "slurm job 4711"},
      {"0::/system.slice/docker-nothex.scope\n", ""},
  };
  for (const auto& one : kCases) {
    CAPTURE(one.cgroup);
    CHECK(container_text(container_of(one.cgroup)) == one.text);
  }
}

namespace {

// One GPU, called GPU-01010101-..., on which each of `pids` has 1 GiB.
std::string nvml_of_one_gpu(const std::vector<std::uint32_t>& pids) {
  std::string lines = "gpu name=H200 uuid=GPU-01010101-0101-0101-0101-010101010101 minor=0 total=" + text(80 * kGiB) +
                      " reserved=0 free=" + text(70 * kGiB) + "\n";
  for (const std::uint32_t pid : pids) lines += "process compute " + text(pid) + " " + text(kGiB) + "\n";
  return lines;
}

// That GPU, in a dump.
format::DeviceRecord device_of_one_gpu() {
  format::DeviceRecord device = {};
  device.state = 1;
  std::fill(std::begin(device.uuid), std::end(device.uuid), std::uint8_t{1});
  return device;
}

}  // namespace

TEST_CASE("the inside of a process that runs under culprit", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(nvml_of_one_gpu({761}));
  DumpBuilder dump;
  format::DeviceRecord device = device_of_one_gpu();
  device.pool_reserved = 30 * kMiB;
  device.pool_used = 10 * kMiB;
  dump.add_device(device);
  format::ContextRecord context = {};
  context.state = format::ContextState::kAlive;
  dump.add_context(context);
  dump.add_allocation(live_allocation(0, 100 * kMiB));
  dump.header().process_state = format::ProcessState::kRunning;
  dump.header().pid = 761;
  FakeProcess process = cuda_process(761, "app");
  process.maps = {"7f0000000000-7f0000001000 rw-s 00000000 08:01 41 /tmp/other.bin",
                  "7f0000200000-7f0000201000 rw-s 00000000 08:01 42 /tmp/culprit.app.761.dump"};
  machine.add(process);
  machine.write_in(761, "root/tmp/other.bin", "nothing of ours");
  dump.write(machine.proc() + "/761/root/tmp/culprit.app.761.dump");
  const Diagnosis diagnosis = machine.diagnose();
  const Holder& holder = only(diagnosis);
  REQUIRE(holder.inside);
  CHECK(holder.inside->problem.empty());
  CHECK(holder.inside->live_bytes == 100 * kMiB);
  CHECK(holder.inside->pool_bytes == 20 * kMiB);
  REQUIRE(holder.inside->stacks.size() == 1);
  CHECK(holder.inside->stacks[0].bytes == 100 * kMiB);
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"culprit report /tmp/culprit.app.761.dump"});
}

TEST_CASE("a fork child that has its parent's dump mapped is not taken for the parent", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(nvml_of_one_gpu({762}));
  DumpBuilder dump;
  dump.add_device(device_of_one_gpu());
  dump.header().pid = 761;
  dump.header().process_state = format::ProcessState::kRunning;
  FakeProcess child = cuda_process(762, "app");
  child.maps = {"7f0000200000-7f0000201000 rw-s 00000000 08:01 42 /tmp/culprit.app.761.dump"};
  machine.add(child);
  machine.write_in(762, "root/tmp/x", "");
  dump.write(machine.proc() + "/762/root/tmp/culprit.app.761.dump");
  const Diagnosis diagnosis = machine.diagnose();
  CHECK_FALSE(only(diagnosis).inside);
}

TEST_CASE("memory that one running process gave to another one", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(nvml_of_one_gpu({761, 762}));
  for (const std::uint32_t pid : {761U, 762U}) {
    DumpBuilder dump;
    dump.add_device(device_of_one_gpu());
    format::SharingRecord sharing = {};
    sharing.state = 1;
    sharing.type = format::SharingType::kIpcHandle;
    sharing.role = pid == 761 ? format::SharingRole::kExport : format::SharingRole::kImport;
    sharing.key = 5;
    sharing.bytes = 512 * kMiB;
    sharing.ended_ns = pid == 761 ? 9 : 0;
    dump.add_sharing(sharing);
    dump.header().pid = pid - 700;  // in a container
    dump.header().process_state = format::ProcessState::kRunning;
    const std::string file = "culprit.app." + text(pid) + ".dump";
    FakeProcess process = cuda_process(pid, "app");
    process.own_number = pid - 700;
    process.maps = {"7f0000200000-7f0000201000 rw-s 00000000 08:01 42 /tmp/" + file};
    machine.add(process);
    machine.write_in(pid, "root/tmp/x", "");
    dump.write(machine.proc() + "/" + text(pid) + "/root/tmp/" + file);
  }
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.gpus.at(0).holders.size() == 2);
  for (const Holder& holder : diagnosis.gpus[0].holders) {
    REQUIRE(holder.inside);
    REQUIRE(holder.inside->shared.size() == 1);
    const std::string& sentence = holder.inside->shared[0];
    CHECK(sentence.find("freed by process 761, still mapped by process 762") == 0);
    CHECK(sentence.find(": 512 MiB stay") != std::string::npos);
  }
  std::ostringstream out;
  render_doctor_text(diagnosis, false, out);
  CHECK(contains(out.str(), "shared: freed by process 761, still mapped by process 762"));
}

TEST_CASE("a dump that cannot be read is said so", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(kGiB) + "\n");
  FakeProcess process = cuda_process(761, "app");
  process.maps = {"7f0000200000-7f0000201000 rw-s 00000000 08:01 42 /tmp/x.dump"};
  machine.add(process);
  machine.write_in(761, "root/tmp/x.dump", "CULPRIT\n and no more");
  const Holder holder = only(machine.diagnose());
  REQUIRE(holder.inside);
  CHECK_FALSE(holder.inside->problem.empty());
}

TEST_CASE("processes with a GPU's files open that NVML does not name", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line());
  machine.add(cuda_process(761, "mystery"));
  machine.add(cuda_process(762, "elsewhere", 1));
  FakeProcess control_only = cuda_process(763, "query");
  control_only.files = {"/dev/nvidiactl"};
  machine.add(control_only);
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(only(diagnosis).kind == HolderKind::kFilesOnly);
  CHECK(only(diagnosis).pid == 761);
  CHECK_FALSE(only(diagnosis).bytes);
  CHECK(diagnosis.gpus[0].unexplained == 12 * kGiB);
  CHECK(any_has(diagnosis.gpus[0].findings, "12.0 GiB are used and charged to no process: most likely held by"));
}

TEST_CASE("two GPUs: each has its own holders", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line(0) + "process compute 761 " + text(2 * kGiB) + "\n" + gpu_line(1) + "process compute 762 " +
                   text(3 * kGiB) + "\nprocess compute 761 -\n");
  FakeProcess both = cuda_process(761, "both");
  both.files.push_back("/dev/nvidia1");
  machine.add(both);
  machine.add(cuda_process(762, "second", 1));
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.gpus.size() == 2);
  REQUIRE(diagnosis.gpus[0].holders.size() == 1);
  REQUIRE(diagnosis.gpus[1].holders.size() == 2);
  CHECK(diagnosis.gpus[1].holders[0].pid == 762);
  CHECK(diagnosis.gpus[1].holders[1].pid == 761);
  CHECK_FALSE(diagnosis.gpus[1].holders[1].bytes);
  CHECK(diagnosis.gpus[1].named == 3 * kGiB);
}

TEST_CASE("MIG devices have their own processes and memory", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "mig gi=3 ci=0 uuid=MIG-3 name=slice total=" + text(10 * kGiB) +
                   " reserved=0 free=" + text(4 * kGiB) + "\nprocess compute 761 " + text(5 * kGiB) + "\n");
  machine.add(cuda_process(761, "app"));
  const Diagnosis diagnosis = machine.diagnose();
  const Holder& holder = only(diagnosis);
  CHECK(holder.gpu_instance == 3u);
  CHECK(holder.bytes == 5 * kGiB);
  REQUIRE(diagnosis.gpus[0].gpu.mig_devices.size() == 1);
  CHECK(diagnosis.gpus[0].gpu.mig_devices[0].memory->used() == 6 * kGiB);
}

TEST_CASE("memory that does not clear: the next command shows what is inside", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(12 * kGiB) + "\n");
  FakeProcess process = cuda_process(761, "python3");
  process.command = {"python3", "train.py", "--name", "it's new"};
  machine.add(process);
  CHECK(machine.diagnose().gpus.at(0).next ==
        std::vector<std::string>{"culprit run -- python3 train.py --name 'it'\\''s new'"});
  process.command = {"python3", "-c", std::string(1000, 'x')};
  machine.remove(761);
  machine.add(process);
  CHECK(machine.diagnose().gpus.at(0).next == std::vector<std::string>{"culprit run -- COMMAND"});
}

TEST_CASE("memory that is charged to no process is not put on a daemon", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line());
  machine.add(cuda_process(500, "nvidia-persiste"));
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(any_has(diagnosis.gpus.at(0).findings, "no process that allocates has its files open"));
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"sudo nvidia-smi --gpu-reset -i 0"});
}

TEST_CASE("an idle GPU: the next command runs the program that failed", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("gpu name=H200 uuid=GPU-0 minor=0 total=" + text(80 * kGiB) + " reserved=" + text(kGiB) +
                   " free=" + text(79 * kGiB) + "\n");
  machine.add(cuda_process(500, "nvidia-persiste"));  // needs no explanation
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.gpus.size() == 1);
  CHECK(any_has(diagnosis.gpus[0].findings, "nothing holds memory here now"));
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"culprit run -- COMMAND"});
}

TEST_CASE("modes and damaged memory that explain a failure", "[doctor]") {
  FakeMachine machine;
  const auto findings = [&](const std::string& facts) {
    machine.set_nvml("gpu name=H200 uuid=GPU-0 minor=0 total=1024 reserved=0 free=1024 " + facts + "\n");
    return machine.diagnose().gpus.at(0).findings;
  };
  CHECK(any_has(findings("compute_mode=3"), "compute mode is exclusive-process"));
  CHECK(any_has(findings("compute_mode=2"), "compute mode is prohibited"));
  CHECK(findings("compute_mode=0 persistence=0 ecc=1 ecc_errors=0 remapped=2").size() == 1);  // idle GPU
  CHECK(any_has(findings("ecc=1 ecc_errors=3"), "3 uncorrected ECC errors"));
  CHECK(any_has(findings("retired=2 retirement_pending=1"), "memory pages wait to be retired"));
  CHECK(any_has(findings("remapped=2 remap_pending=1"), "memory rows wait to be remapped"));
  CHECK(any_has(findings("remapped=2 remap_failed=1"), "to be replaced"));
  CHECK(any_has(findings("ecc=1 ecc_pending=0"), "ECC will be off after the next reset"));
}

TEST_CASE("memory that several processes share is not explained twice", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(gpu_line() + "process compute 761 " + text(10 * kGiB) + "\nprocess compute 762 " + text(10 * kGiB) +
                   "\n");
  machine.add(cuda_process(761, "producer"));
  machine.add(cuda_process(762, "consumer"));
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(diagnosis.gpus.at(0).unexplained == 0);
  CHECK(any_has(diagnosis.gpus[0].findings, "8.00 GiB more to processes than is used"));
}

TEST_CASE("an older driver without the second memory call", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("gpu name=K80 uuid=GPU-0 v2=0 total=1000000 free=400000\n");
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.gpus.at(0).gpu.memory);
  CHECK(diagnosis.gpus[0].gpu.memory->used() == 600000);
}

TEST_CASE("many processes of one GPU are all read", "[doctor]") {
  FakeMachine machine;
  std::string lines = gpu_line();
  for (std::uint32_t pid = 1000; pid < 1300; ++pid) {
    lines += "process compute " + std::to_string(pid) + " " + text(kMiB) + "\n";
    machine.add(cuda_process(pid, "worker"));
  }
  machine.set_nvml(lines);
  CHECK(machine.diagnose().gpus.at(0).holders.size() == 300);
}
