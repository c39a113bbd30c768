// culprit doctor without NVML, without a GPU, without permissions: it names exactly what it could not examine. And its
// output.
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/doctor/render_doctor_json.h"
#include "report/doctor/render_doctor_text.h"
#include "tests/catch.h"
#include "tests/unit/report/doctor/fake_machine.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

const std::string kFullGpu = "gpu name=H200 uuid=GPU-0 minor=0 total=2000000000 reserved=0 free=1000000000\n";
const std::string kGhost = kFullGpu + "process compute 761 1000000000\n";

bool told(const Diagnosis& diagnosis, const std::string& part) {
  for (const std::string& line : diagnosis.unseen) {
    if (contains(line, part)) return true;
  }
  return false;
}

// Runs `culprit doctor` on the fake machine.
Finished doctor(const FakeMachine& machine, const std::string& options,
                const std::string& library = CULPRIT_FAKE_NVML_LIBRARY) {
  return shell("CULPRIT_FAKE_NVML=" + machine.nvml_file() + " CULPRIT_NVML=" + library + " CULPRIT_PROC=" +
               machine.proc() + " CULPRIT_KMSG=" + machine.kernel_log() + " CULPRIT doctor " + options + " 2>&1");
}

}  // namespace

TEST_CASE("no NVML: said so and the processes that hold files are listed", "[doctor]") {
  FakeMachine machine;
  machine.add(cuda_process(761, "trainer"));
  const Finished finished = doctor(machine, "", "/nonexistent/libnvidia-ml.so.1");
  CHECK(finished.exit_code == 3);
  CHECK(has(finished.out, "NVML cannot be used: /nonexistent/libnvidia-ml.so.1"));
  CHECK(has(finished.out, "761  trainer"));
}

TEST_CASE("NVML that refuses to start says why", "[doctor]") {
  FakeMachine machine;
  const struct {
    const char* code;
    const char* text;
  } kCases[] = {{"9", "the kernel module nvidia is not loaded"},
                {"18", "the driver was updated while its old kernel module is loaded"},
                {"4", "the rights of /dev/nvidiactl are missing"},
                {"999", "Unknown Error"}};
  for (const auto& one : kCases) {
    machine.set_nvml(std::string("init ") + one.code + "\n");
    const Diagnosis diagnosis = machine.diagnose();
    CHECK_FALSE(diagnosis.nvml);
    CHECK(told(diagnosis, one.text));
  }
}

TEST_CASE("no GPU: said so", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("driver 580\n");
  const Finished finished = doctor(machine, "");
  CHECK(finished.exit_code == 0);
  CHECK(has(finished.out, "any GPU: the driver runs and shows none here"));
}

TEST_CASE("a GPU that may not be asked is still counted", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("gpu handle=4\n" + kFullGpu);
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(diagnosis.gpus.size() == 2);
  CHECK(told(diagnosis, "GPU 0: the GPU itself: Insufficient Permissions (try as root)"));
}

TEST_CASE("memory that NVML does not tell is no number", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml("gpu name=H200 minor=0 memory=4\nprocess compute 761 -\n");
  machine.add(cuda_process(761, "trainer"));
  const Diagnosis diagnosis = machine.diagnose();
  CHECK_FALSE(diagnosis.gpus.at(0).unexplained);
  CHECK_FALSE(diagnosis.gpus[0].holders.at(0).bytes);
  CHECK(told(diagnosis, "GPU 0: its memory: Insufficient Permissions"));
  const Json json = Json::parse(doctor(machine, "--format json").out);
  CHECK(json["gpus"][0]["memory"].is_null());
  CHECK(json["gpus"][0]["unexplained_bytes"].is_null());
}

TEST_CASE("processes that NVML does not list are said so", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kFullGpu.substr(0, kFullGpu.size() - 1) + " processes=4\n");
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(told(diagnosis, "GPU 0: the list of its processes: Insufficient Permissions (try as root)"));
  CHECK_FALSE(diagnosis.gpus.at(0).gpu.processes_known);
  REQUIRE_FALSE(diagnosis.gpus[0].findings.empty());
  CHECK(has(diagnosis.gpus[0].findings[0], "NVML did not list the processes"));
}

TEST_CASE("descriptors of others that may not be read", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGhost);
  machine.add(cuda_process(767, "forkhold"));
  machine.forbid(767, "fd");
  const Diagnosis diagnosis = machine.diagnose(true);
  CHECK(told(diagnosis, "the open files of 1 process: Permission denied (try as root)"));
  const Holder& holder = diagnosis.gpus.at(0).holders.at(0);
  CHECK(holder.kind == HolderKind::kGhost);
  CHECK(holder.keepers.empty());
  CHECK(has(holder.explanation, "The processes that keep its files open are unknown"));
  CHECK(diagnosis.gpus[0].next == std::vector<std::string>{"sudo culprit doctor --gpu 0"});
}

TEST_CASE("mappings of others that may not be read", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kFullGpu);
  machine.add({767, "forkhold"});
  machine.forbid(767, "maps");
  CHECK(told(machine.diagnose(true), "the open files of 1 process: Permission denied"));
}

TEST_CASE("threads of the kernel are no hidden processes", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kFullGpu);
  FakeProcess thread{60, "kworker"};
  thread.flags = 0x00200000;
  machine.add(thread);
  machine.forbid(60, "fd");
  CHECK(machine.diagnose(true).unseen.empty());
}

TEST_CASE("a /proc that hides other users' processes", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGhost);
  std::filesystem::remove_all(machine.proc() + "/1");
  const Diagnosis diagnosis = machine.diagnose(true);
  CHECK(told(diagnosis, "hides them (mounted with hidepid; try as root)"));
  CHECK(diagnosis.gpus.at(0).holders.at(0).kind == HolderKind::kHidden);
}

TEST_CASE("a container of its own: other containers' processes are numbers only", "[doctor]") {
  FakeMachine machine;
  machine.enter_namespace();
  machine.set_nvml(kGhost);
  Diagnosis diagnosis = machine.diagnose();
  CHECK(told(diagnosis, "processes outside of this PID namespace"));
  const Holder& hidden = diagnosis.gpus.at(0).holders.at(0);
  CHECK(hidden.kind == HolderKind::kHidden);
  CHECK(has(hidden.explanation, "it runs in another container or on the host"));

  SECTION("a process of ours that happens to have the number is not blamed") {
    machine.add({761, "bash"});
    CHECK(machine.diagnose().gpus.at(0).holders.at(0).kind == HolderKind::kHidden);
  }
  SECTION("an orphan in the same container is likely to keep it") {
    machine.add(cuda_process(767, "forkhold"));
    const Diagnosis again = machine.diagnose();
    const Holder& ghost = again.gpus.at(0).holders.at(0);
    CHECK(ghost.kind == HolderKind::kGhost);
    CHECK_FALSE(ghost.certain);
    CHECK(has(ghost.explanation, "which cannot be seen from here"));
  }
  SECTION("one of its process group certainly does") {
    FakeProcess child = cuda_process(767, "forkhold");
    child.group = 761;
    machine.add(child);
    const Diagnosis again = machine.diagnose();
    CHECK(again.gpus.at(0).holders.at(0).certain);
    CHECK(again.gpus[0].next == std::vector<std::string>{"kill 767"});
  }
}

TEST_CASE("no /proc at all is said so", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kFullGpu);
  const ProcFacts proc = read_proc(machine.path() + "/nothing", {});
  const Diagnosis diagnosis = explain(machine.nvml(), proc, {}, {});
  CHECK(told(diagnosis, "any process: " + machine.path() + "/nothing: No such file or directory"));
}

TEST_CASE("doctor chooses a GPU and refuses one that is not there", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kFullGpu + kFullGpu);
  const Json json = Json::parse(doctor(machine, "--gpu 1 --format json").out);
  CHECK(json["schema"] == "culprit.doctor/1");
  REQUIRE(json["gpus"].size() == 1);
  CHECK(json["gpus"][0]["index"] == 1);
  const Finished refused = doctor(machine, "--gpu 2");
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.out, "there is no GPU 2; this machine shows 2"));
  CHECK(doctor(machine, "--gpu x").exit_code == 2);
  CHECK(doctor(machine, "--format yaml").exit_code == 2);
  CHECK(doctor(machine, "surplus").exit_code == 2);
}

TEST_CASE("doctor's text and JSON agree about a ghost", "[doctor]") {
  FakeMachine machine;
  machine.set_nvml(kGhost);
  FakeProcess child = cuda_process(767, "fork\x1bhold");
  child.group = 761;
  machine.add(child);
  const Finished text = doctor(machine, "");
  CHECK(text.exit_code == 0);
  CHECK(has(text.out, "GHOST  761"));
  CHECK(has(text.out, "next      kill 767"));
  CHECK_FALSE(has(text.out, "\x1b"));
  const Json json = Json::parse(doctor(machine, "--format json").out);
  const Json& holder = json["gpus"][0]["holders"][0];
  CHECK(holder["kind"] == "ghost");
  CHECK(holder["pid"] == 761);
  CHECK(holder["bytes"] == 1000000000);
  CHECK(holder["keepers"][0]["pid"] == 767);
  CHECK(holder["next"][0] == "kill 767");
  CHECK(json["gpus"][0]["unexplained_bytes"] == 0);
}
