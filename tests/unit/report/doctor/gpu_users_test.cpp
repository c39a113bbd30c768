// The processes that NVML charges with memory, and the figure of one of them.
#include "report/doctor/gpu_users.h"

#include <chrono>
#include <thread>

#include "report/doctor/dump_places.h"
#include "report/doctor/nvml_question.h"
#include "report/doctor/nvml_users.h"
#include "tests/catch.h"
#include "tests/support/dump_builder.h"
#include "tests/support/environment_variable.h"
#include "tests/unit/report/doctor/fake_machine.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

const std::string kOneGpu = "gpu name=H200 uuid=GPU-0 minor=0 total=1000 reserved=0 free=100\n";

GpuUsers users_on(const FakeMachine& machine) {
  const EnvironmentVariable file("CULPRIT_FAKE_NVML", machine.nvml_file());
  const NvmlFacts nvml = read_nvml(CULPRIT_FAKE_NVML_LIBRARY);
  std::set<std::uint32_t> named;
  for (const GpuFacts& gpu : nvml.gpus) {
    for (const GpuProcess& process : gpu.processes) named.insert(process.pid);
  }
  return users_of(nvml, read_proc(machine.proc(), named));
}

}  // namespace

TEST_CASE("NVML's figure for a process", "[doctor][gpu-users]") {
  FakeMachine machine;
  machine.add(cuda_process(761, "app"));
  machine.add(cuda_process(762, "other"));
  machine.set_nvml(kOneGpu + "process compute 761 300\nprocess compute 762 -\nprocess graphics 9 500\n");
  const GpuUsers users = users_on(machine);
  CHECK(charge_of(users, "GPU-0", 761).bytes == std::uint64_t{300});
  CHECK(charge_of(users, "GPU-0", 762).problem == "NVML gives no figure for it");
  CHECK(charge_of(users, "GPU-0", 763).problem == "NVML does not list this process");
  CHECK(charge_of(users, "GPU-1", 761).problem == "NVML does not show this GPU");
  REQUIRE(users.of("GPU-0"));
  REQUIRE(users.of("GPU-0")->users.size() == 3);
  CHECK(users.of("GPU-0")->users[0].pid == 9);
  CHECK(users.of("GPU-0")->users[0].name.empty());
  CHECK(users.of("GPU-0")->users[1].name == "app");

  // Through a pipe.
  const GpuUsers copy = unpacked(packed(users));
  CHECK(packed(copy) == packed(users));
  CHECK_FALSE(copy.of("GPU-0")->users[2].bytes);
}

TEST_CASE("in a container NVML's numbers count only if all of them are of GPU users here", "[doctor][gpu-users]") {
  FakeMachine machine;
  machine.enter_namespace();
  machine.add(cuda_process(7, "app"));
  machine.set_nvml(kOneGpu + "process compute 7 300\n");
  CHECK(charge_of(users_on(machine), "GPU-0", 7).bytes == std::uint64_t{300});
  // 1 is no user of a GPU here, so the numbers are of another namespace, and 7 is any process.
  for (const char* number : {"1", "4242"}) {
    machine.set_nvml(kOneGpu + "process compute 7 300\nprocess compute " + number + " 400\n");
    const GpuUsers users = users_on(machine);
    CHECK_FALSE(charge_of(users, "GPU-0", 7).bytes);
    CHECK(contains(charge_of(users, "GPU-0", 7).problem, "the numbers of another PID namespace"));
    CHECK(users.of("GPU-0")->foreign_numbers);
    for (const GpuUser& user : users.of("GPU-0")->users) CHECK(user.name.empty());
  }
  machine.set_nvml(kOneGpu);
  CHECK(charge_of(users_on(machine), "GPU-0", 7).problem == "NVML does not list this process");
}

TEST_CASE("NVML that refuses, and MIG devices", "[doctor][gpu-users]") {
  FakeMachine machine;
  machine.add(cuda_process(761, "app"));
  machine.set_nvml("init 9\n");
  CHECK(contains(charge_of(users_on(machine), "GPU-0", 761).problem, "NVML cannot be used: Driver Not Loaded"));
  machine.set_nvml("gpu name=H200 uuid=GPU-0 minor=0 total=9 reserved=0 free=9 processes=4\n");
  CHECK(contains(charge_of(users_on(machine), "GPU-0", 761).problem, "Insufficient Permissions"));
  machine.set_nvml(kOneGpu + "mig gi=3 ci=0 uuid=MIG-3 name=slice total=1000 reserved=0 free=400\n" +
                   "process compute 761 600\nmig gi=4 ci=0 uuid=MIG-4 name=slice total=1000 reserved=0 free=1000\n");
  const GpuUsers users = users_on(machine);
  CHECK(charge_of(users, "MIG-3", 761).bytes == std::uint64_t{600});
  CHECK(charge_of(users, "MIG-4", 761).problem == "NVML does not list this process");
}

TEST_CASE("without NVML a process that culprit records has an entry for each GPU", "[doctor][gpu-users]") {
  FakeMachine machine;
  machine.set_nvml("init 9\n");
  DumpBuilder dump;
  for (std::uint8_t gpu = 1; gpu <= 2; ++gpu) {
    culprit::format::DeviceRecord device = {};
    device.state = 1;
    device.ordinal = gpu - 1U;
    std::fill(std::begin(device.uuid), std::end(device.uuid), gpu);
    dump.add_device(device);
  }
  dump.header().process_state = culprit::format::ProcessState::kRunning;
  dump.header().pid = 761;
  FakeProcess process = cuda_process(761, "app");
  process.maps = {"7f0000200000-7f0000201000 rw-s 00000000 08:01 42 /tmp/culprit.app.761.dump"};
  machine.add(process);
  machine.add(cuda_process(762, "other"));
  std::filesystem::create_directories(machine.proc() + "/761/root/tmp");
  dump.write(machine.proc() + "/761/root/tmp/culprit.app.761.dump");
  const Diagnosis diagnosis = machine.diagnose();
  REQUIRE(diagnosis.holders.size() == 3);
  REQUIRE(diagnosis.holders[0].inside);
  CHECK(diagnosis.holders[0].inside->gpu == "GPU-01010101-0101-0101-0101-010101010101");
  CHECK(contains(diagnosis.holders[0].inside->charge.problem, "NVML cannot be used"));
  CHECK(diagnosis.holders[1].inside->gpu == "GPU-02020202-0202-0202-0202-020202020202");
  CHECK_FALSE(diagnosis.holders[2].inside);
}

TEST_CASE("what is no answer is an answer with a problem", "[doctor][gpu-users]") {
  for (const char* text : {"", "{", "[]", "{\"problem\":1}", "{\"problem\":\"\",\"devices\":[{}]}",
                           "{\"problem\":\"\",\"devices\":[{\"uuid\":\"\",\"problem\":\"\",\"foreign\":false,"
                           "\"users\":[[1]]}]}"}) {
    INFO(text);
    CHECK_FALSE(unpacked(text).problem.empty());
  }
}

TEST_CASE("a question to NVML ends", "[doctor][gpu-users]") {
  FakeMachine machine;
  const EnvironmentVariable file("CULPRIT_FAKE_NVML", machine.nvml_file());
  const EnvironmentVariable library("CULPRIT_NVML", CULPRIT_FAKE_NVML_LIBRARY);
  const EnvironmentVariable proc("CULPRIT_PROC", machine.proc());
  machine.add(cuda_process(761, "app"));
  machine.set_nvml(kOneGpu + "process compute 761 300\n");
  {
    NvmlQuestion patient(std::chrono::minutes(1));  // the machine may be busy
    CHECK(charge_of(ask_for_users(&patient), "GPU-0", 761).bytes == std::uint64_t{300});
    machine.set_nvml("crash\n");
    CHECK(contains(ask_for_users(&patient).problem, "without an answer"));
    machine.set_nvml("hang\n");
    NvmlQuestion question(std::chrono::milliseconds(1500));
    question.begin();
    CHECK_FALSE(question.answer(std::chrono::milliseconds(0)));
    CHECK_FALSE(question.answer(std::chrono::milliseconds(50)));
    const std::optional<GpuUsers> late = question.answer(std::chrono::minutes(1));
    REQUIRE(late);
    CHECK(late->problem == "NVML did not answer within 1.50 s");
    // It is forgotten, and the next question is a new one.
    machine.set_nvml(kOneGpu + "process compute 761 300\n");
    bool answered = false;
    for (int i = 0; i < 40 && !answered; ++i)
      answered = charge_of(ask_for_users(&question), "GPU-0", 761).bytes == std::uint64_t{300};
    CHECK(answered);
    machine.set_nvml("hang\n");
    question.begin();
  }
}

TEST_CASE("NVML that left a question open is asked again later, one that refused is not", "[doctor][gpu-users]") {
  FakeMachine machine;
  const EnvironmentVariable file("CULPRIT_FAKE_NVML", machine.nvml_file());
  const EnvironmentVariable library("CULPRIT_NVML", CULPRIT_FAKE_NVML_LIBRARY);
  const EnvironmentVariable proc("CULPRIT_PROC", machine.proc());
  machine.add(cuda_process(761, "app"));
  const std::string answer = kOneGpu + "process compute 761 300\n";
  using std::chrono::seconds;
  const auto begin = std::chrono::steady_clock::now();
  DumpPlaces places({}, seconds(60));  // the machine may be busy
  // The kernel may need a moment to end a copy that was given up, and no copy is made meanwhile.
  auto ask_when_ended = [&](seconds after) {
    GpuUsers users;
    for (int i = 0; i < 100; ++i) {
      users = places.ask(begin + after);
      if (users.unanswered || !users.devices.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return users;
  };
  SECTION("left open") {
    machine.set_nvml("crash\n");
    CHECK(places.ask(begin).unanswered);
    machine.set_nvml(answer);
    CHECK(places.ask(begin + seconds(29)).devices.empty());
    CHECK(charge_of(ask_when_ended(seconds(31)), "GPU-0", 761).bytes == std::uint64_t{300});
    // The pause is the first one again.
    machine.set_nvml("crash\n");
    CHECK(ask_when_ended(seconds(40)).unanswered);
    CHECK_FALSE(places.ask(begin + seconds(69)).unanswered);
    CHECK(ask_when_ended(seconds(1000)).unanswered);
    CHECK_FALSE(places.ask(begin + seconds(1059)).unanswered);  // twice as long
  }
  SECTION("refused") {
    machine.set_nvml("init 9\n");
    CHECK_FALSE(places.ask(begin).problem.empty());
    machine.set_nvml(answer);
    CHECK(places.ask(begin + std::chrono::hours(24)).devices.empty());
  }
}
