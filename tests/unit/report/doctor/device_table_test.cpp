// The table of all processes of a device: it adds up to the memory in use, and has what dumps say of the processes.
#include "report/doctor/device_table.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/doctor/render_doctor_json.h"
#include "report/doctor/render_doctor_text.h"
#include "tests/catch.h"
#include "tests/support/dump_builder.h"
#include "tests/unit/report/doctor/fake_machine.h"
#include "tests/unit/report/fixture.h"

using namespace culprit;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

constexpr std::uint64_t kMi = 1 << 20;

std::string num(std::uint64_t value) { return std::to_string(value); }

// One GPU with `used` MiB in use.
std::string gpu_of(std::uint64_t used) {
  return "gpu name=H200 uuid=GPU-01010101-0101-0101-0101-010101010101 minor=0 total=" + num(4096 * kMi) +
         " reserved=0 free=" + num((4096 - used) * kMi) + "\n";
}

std::string charge(std::uint32_t pid, std::uint64_t mib, const std::string& use = "compute") {
  return "process " + use + " " + num(pid) + " " + num(mib * kMi) + "\n";
}

// A process under culprit with 100 MiB that are live. `own_number`: in a PID namespace of its own; 0: it has none.
void add_recorded(const FakeMachine& machine, std::uint32_t pid, std::uint32_t own_number = 0) {
  DumpBuilder dump;
  format::DeviceRecord device = {};
  device.state = 1;
  std::fill(std::begin(device.uuid), std::end(device.uuid), std::uint8_t{1});
  dump.add_device(device);
  dump.add_allocation(live_allocation(0, 100 * kMi));
  dump.header().process_state = format::ProcessState::kRunning;
  dump.header().pid = own_number != 0 ? own_number : pid;
  FakeProcess process = cuda_process(pid, "recorded");
  process.own_number = own_number;
  const std::string path = "/tmp/culprit.app." + num(pid) + ".dump";
  process.maps = {"7f0000200000-7f0000201000 rw-s 00000000 08:01 42 " + path};
  machine.add(process);
  std::filesystem::create_directories(machine.proc() + "/" + num(pid) + "/root/tmp");
  dump.write(machine.proc() + "/" + num(pid) + "/root" + path);
}

Json table_in(const Diagnosis& diagnosis) {
  std::ostringstream out;
  render_doctor_json(diagnosis, out);
  return Json::parse(out.str())["gpus"][0]["table"];
}

std::string shown_text(const Diagnosis& diagnosis, bool colours = false) {
  std::ostringstream out;
  render_doctor_text(diagnosis, colours, out);
  return out.str();
}

// The rows, and what is charged to no process, are the memory in use.
void check_sum(const Json& table) {
  INFO(table.dump(1));
  std::int64_t sum = table["uncharged_bytes"].get<std::int64_t>();
  for (const Json& row : table["rows"]) sum += row["bytes"].is_null() ? 0 : row["bytes"].get<std::int64_t>();
  CHECK(sum == table["in_use_bytes"].get<std::int64_t>());
  CHECK(table["charged_bytes"].get<std::int64_t>() + table["uncharged_bytes"].get<std::int64_t>() == sum);
}

}  // namespace

TEST_CASE("the table of a GPU adds up, and knows the processes that culprit records", "[doctor][table]") {
  FakeMachine machine;
  machine.set_nvml(gpu_of(1000) + charge(761, 600) + charge(762, 300) + charge(900, 50) + charge(763, 30, "graphics"));
  add_recorded(machine, 761);
  machine.add(cuda_process(762, "other"));
  machine.add(cuda_process(763, "Xorg"));
  const Diagnosis diagnosis = machine.diagnose();
  const std::string shown = shown_text(diagnosis);
  INFO(shown);
  CHECK(has(shown,
            "   BYTES     PID  USER  PROCESS      RECORDED BY CULPRIT\n"
            "   600 MiB   761  root  recorded     100 MiB: 100 MiB live\n"
            "   300 MiB   762  root  other        -\n"
            "   50.0 MiB  900  -     (has ended)  -\n"
            "   30.0 MiB  763  root  Xorg         -\n"
            "   20.0 MiB  charged to no process\n"
            "   1000 MiB  in use on GPU 0\n"));
  CHECK_FALSE(has(shown, "\x1b"));
  CHECK(has(shown_text(diagnosis, true), "\x1b[1;31m(has ended)"));
  const Json table = table_in(diagnosis);
  check_sum(table);
  CHECK(table["uncharged_bytes"] == 20 * kMi);
  CHECK(table["problem"].is_null());
  const Json& first = table["rows"][0];
  CHECK(first["pid"] == 761);
  CHECK(first["user"] == "root");
  CHECK(first["kind"] == "process");
  CHECK(first["recorded"]["bytes"] == 100 * kMi);
  CHECK(first["recorded"]["live_bytes"] == 100 * kMi);
  CHECK(first["recorded"]["lost_bytes"] == 0);
  CHECK(first["recorded"]["cached_bytes"] == 0);
  CHECK(first["recorded"]["dump"] == "/tmp/culprit.app.761.dump");
  CHECK(table["rows"][1]["recorded"].is_null());
  CHECK(table["rows"][2]["kind"] == "ghost");
  CHECK(table["rows"][2]["name"].is_null());
}

TEST_CASE("a process that draws and computes has one row", "[doctor][table]") {
  FakeMachine machine;
  machine.set_nvml(gpu_of(400) + charge(761, 300) + charge(761, 300, "graphics") + charge(761, 300, "mps"));
  machine.add(cuda_process(761, "app"));
  const Json table = table_in(machine.diagnose());
  check_sum(table);
  CHECK(table["rows"].size() == 1);
  CHECK(table["uncharged_bytes"] == 100 * kMi);
}

TEST_CASE("memory that is charged to several processes makes the table add up with a negative row", "[doctor][table]") {
  FakeMachine machine;
  machine.set_nvml(gpu_of(500) + charge(761, 400) + charge(762, 400));
  machine.add(cuda_process(761, "app"));
  machine.add(cuda_process(762, "app"));
  const Diagnosis diagnosis = machine.diagnose();
  check_sum(table_in(diagnosis));
  CHECK(table_in(diagnosis)["uncharged_bytes"] == -300 * static_cast<std::int64_t>(kMi));
  CHECK(has(shown_text(diagnosis), "   -300 MiB  charged more than once: memory that several processes share\n"));
}

TEST_CASE("a process of a PID namespace of its own is joined by its numbers", "[doctor][table]") {
  FakeMachine machine;
  add_recorded(machine, 761, 7);
  SECTION("NVML names the number here") { machine.set_nvml(gpu_of(600) + charge(761, 500)); }
  SECTION("NVML names the number there") { machine.set_nvml(gpu_of(600) + charge(7, 500)); }
  SECTION("a process here has that number, and uses no GPU") {
    machine.set_nvml(gpu_of(600) + charge(7, 500));
    machine.add({7, "kthreadd"});
  }
  const Diagnosis diagnosis = machine.diagnose();
  const std::string shown = shown_text(diagnosis);
  INFO(shown);
  CHECK(has(shown, "recorded (7 in its PID namespace)  100 MiB: 100 MiB live\n"));
  const Json table = table_in(diagnosis);
  check_sum(table);
  REQUIRE(table["rows"].size() == 1);
  CHECK(table["rows"][0]["own_pid"] == 7);
  CHECK(table["rows"][0]["recorded"]["bytes"] == 100 * kMi);
  // The same process is described below, and no other.
  REQUIRE(diagnosis.gpus.at(0).holders.size() == 1);
  CHECK(diagnosis.gpus[0].holders[0].kind == HolderKind::kProcess);
  CHECK(diagnosis.gpus[0].holders[0].inside);
  CHECK(diagnosis.gpus[0].reset.pids == std::vector<std::uint32_t>{761});
}

TEST_CASE("a number that two processes have in their namespaces is neither", "[doctor][table]") {
  FakeMachine machine;
  machine.set_nvml(gpu_of(600) + charge(7, 500));
  add_recorded(machine, 761, 7);
  add_recorded(machine, 762, 7);
  const Json table = table_in(machine.diagnose());
  check_sum(table);
  REQUIRE(table["rows"].size() == 3);
  CHECK(table["rows"][0]["kind"] == "ghost");
  CHECK(table["rows"][0]["recorded"].is_null());
  // They record, and have used the device: each has a row without a figure.
  for (const std::size_t i : {1, 2}) {
    CHECK(table["rows"][i]["listed"] == false);
    CHECK(table["rows"][i]["bytes"].is_null());
    CHECK(table["rows"][i]["recorded"]["bytes"] == 100 * kMi);
  }
}

TEST_CASE("in a container with foreign numbers no row is said to be a process here", "[doctor][table]") {
  FakeMachine machine;
  machine.enter_namespace();
  machine.set_nvml(gpu_of(600) + charge(4242, 500));
  add_recorded(machine, 7);
  const Diagnosis diagnosis = machine.diagnose();
  const std::string shown = shown_text(diagnosis);
  INFO(shown);
  CHECK(has(shown, "(number only)  not known: only its number is known\n"));
  CHECK(has(shown, "100 MiB: 100 MiB live (not in NVML's list)\n"));
  CHECK(has(shown, "   not known: NVML names processes by the numbers of another PID namespace"));
  CHECK(has(shown, "100 MiB   charged to no process, or to one without a figure\n"));
  check_sum(table_in(diagnosis));
  CHECK(contains(table_in(diagnosis)["problem"].get<std::string>(), "another PID namespace"));
}

TEST_CASE("a process that may not be looked at is no process without a dump", "[doctor][table]") {
  FakeMachine machine;
  machine.set_nvml(gpu_of(600) + charge(761, 500));
  machine.add(cuda_process(761, "secret"));
  machine.forbid(761, "maps");
  const Diagnosis diagnosis = machine.diagnose(true);
  CHECK(has(shown_text(diagnosis), "  secret   not known: Permission denied\n"));
  CHECK(table_in(diagnosis)["rows"][0]["not_examined"] == "Permission denied");
}

TEST_CASE("what NVML does not tell is not counted as empty", "[doctor][table]") {
  FakeMachine machine;
  machine.add(cuda_process(761, "app"));
  SECTION("the list") {
    std::string refused = gpu_of(600);
    refused.insert(refused.size() - 1, " processes=4");
    machine.set_nvml(refused);
    const Diagnosis diagnosis = machine.diagnose();
    INFO(shown_text(diagnosis));
    CHECK(has(shown_text(diagnosis),
              "   600 MiB   of processes that are not known: the list of its processes: Insufficient Permissions"));
    CHECK(contains(table_in(diagnosis)["problem"].get<std::string>(), "Insufficient Permissions"));
    check_sum(table_in(diagnosis));
  }
  SECTION("a figure") {
    machine.set_nvml(gpu_of(600) + "process compute 761 -\n");
    const Diagnosis diagnosis = machine.diagnose();
    CHECK(has(shown_text(diagnosis), "   ?         761  root  app      -\n"));
    CHECK(has(shown_text(diagnosis), "   600 MiB   charged to no process, or to one without a figure\n"));
    CHECK(table_in(diagnosis)["rows"][0]["bytes"].is_null());
    check_sum(table_in(diagnosis));
  }
  SECTION("the memory") {
    machine.set_nvml("gpu name=H200 uuid=GPU-0 minor=0 memory=4\n" + charge(761, 300));
    const Diagnosis diagnosis = machine.diagnose();
    CHECK(has(shown_text(diagnosis), "   300 MiB   charged; the memory in use on the device is not known\n"));
    CHECK(table_in(diagnosis)["in_use_bytes"].is_null());
    CHECK(table_in(diagnosis)["uncharged_bytes"].is_null());
    CHECK(table_in(diagnosis)["charged_bytes"] == 300 * kMi);
  }
}

TEST_CASE("each MIG instance has a table, and is a row of its GPU's", "[doctor][table]") {
  FakeMachine machine;
  const auto instance = [](int gi, int ci, std::uint64_t used) {
    return "mig gi=" + num(gi) + " ci=" + num(ci) + " uuid=MIG-" + num(gi) + "-" + num(ci) +
           " name=slice total=" + num(1000 * kMi) + " reserved=0 free=" + num((1000 - used) * kMi) + "\n";
  };
  // The second and the third are compute instances of one GPU instance, whose memory they share.
  machine.set_nvml(gpu_of(1000) + instance(3, 0, 400) + charge(761, 390) + instance(4, 0, 500) + charge(762, 200) +
                   instance(4, 1, 500) + charge(763, 250));
  for (const std::uint32_t pid : {761, 762, 763}) machine.add(cuda_process(pid, "app"));
  const Diagnosis diagnosis = machine.diagnose();
  const std::string shown = shown_text(diagnosis);
  INFO(shown);
  CHECK(has(shown, "in use on MIG 0 of GPU 0\n"));
  std::ostringstream out;
  render_doctor_json(diagnosis, out);
  const Json gpu = Json::parse(out.str())["gpus"][0];
  check_sum(gpu["table"]);
  REQUIRE(gpu["table"]["rows"].size() == 2);
  CHECK(gpu["table"]["rows"][0]["mig_uuid"] == "MIG-4-0");
  CHECK(gpu["table"]["rows"][0]["pid"].is_null());
  CHECK(gpu["table"]["rows"][0]["bytes"] == 500 * kMi);
  CHECK(gpu["table"]["uncharged_bytes"] == 100 * kMi);
  for (const Json& mig : gpu["mig_devices"]) check_sum(mig["table"]);
  CHECK(gpu["mig_devices"][0]["table"]["uncharged_bytes"] == 10 * kMi);
  CHECK(gpu["mig_devices"][1]["table"]["rows"].size() == 2);
  CHECK(gpu["mig_devices"][1]["table"]["uncharged_bytes"] == 50 * kMi);
  CHECK(gpu["mig_devices"][2]["table"]["uncharged_bytes"] == 50 * kMi);
}

TEST_CASE("a dump that cannot be read is said so in the table", "[doctor][table]") {
  FakeMachine machine;
  machine.set_nvml(gpu_of(600) + charge(761, 500));
  add_recorded(machine, 761);
  // Its first page is there, the rest is damaged.
  const std::string dump = machine.proc() + "/761/root/tmp/culprit.app.761.dump";
  std::filesystem::resize_file(dump, 200);
  const Diagnosis diagnosis = machine.diagnose();
  CHECK(has(shown_text(diagnosis), "its dump cannot be read: "));
  CHECK(table_in(diagnosis)["rows"][0]["recorded"]["problem"].is_string());
  CHECK_FALSE(table_in(diagnosis)["rows"][0]["recorded"].contains("bytes"));
}
