// Threads and devices: every record has the right thread and device.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

// The first thread of a leak that has this name; null when there is none.
nlohmann::json thread_named(const Group& group, const std::string& name) {
  for (const nlohmann::json& thread : group.json.at("threads")) {
    if (thread.at("name") == name) return thread;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a leak knows its thread by name and whether it has ended", "[threads]") {
  const Run run = run_preloaded("thread_leak");
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  const std::vector<Group> ended = report.through("leak_in_ended_thread");
  const std::vector<Group> alive = report.through("leak_in_living_thread");
  REQUIRE(ended.size() == 1);
  REQUIRE(alive.size() == 1);
  INFO(ended[0].json.dump(1) << alive[0].json.dump(1));
  const nlohmann::json ended_thread = thread_named(ended[0], "worker-ended");
  const nlohmann::json alive_thread = thread_named(alive[0], "worker-alive");
  REQUIRE_FALSE(ended_thread.is_null());
  REQUIRE_FALSE(alive_thread.is_null());
  CHECK(ended_thread.at("ended") == true);
  CHECK(alive_thread.at("ended") == false);
}

TEST_CASE("16 threads that free each other's memory are counted exactly", "[threads]") {
  const Run run = run_preloaded("many_threads", {on_gpu() ? "100" : "5000"});
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 16);
  CHECK(report.leaked_bytes() == 16 * 11001);
  CHECK(report.error_count() == 0);
  for (const Group& group : report.leaks) CHECK(group.has_frame("allocate_many"));
}

TEST_CASE("two devices with the same addresses are kept apart", "[threads]") {
  if (on_gpu()) {
    WARN("skipped: asks the simulator for two devices with the same addresses");
    return;
  }
  RunOptions options;
  options.environment["SIMCUDA_DEVICES"] = "2";
  options.environment["SIMCUDA_SAME_ADDRESSES"] = "1";
  const Run run = run_preloaded("two_devices", {}, options);
  REQUIRE(run.exit_code == 0);
  REQUIRE(run.out == "same address: 1\n");
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].bytes == 20001);
  CHECK(report.leaks[0].device == 1);
  CHECK(report.leaks[0].has_frame("allocate_on_second"));
  CHECK(report.error_count() == 0);
  const nlohmann::json& devices = report.json.at("devices");
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].at("uuid") != devices[1].at("uuid"));
  CHECK(devices[0].at("uuid").get<std::string>().rfind("GPU-", 0) == 0);
}

TEST_CASE("memory that a thread leaves by pthread_exit or cancellation is marked, memory that it freed is not",
          "[threads]") {
  for (const char* mode : {"", "pending"}) {
    INFO(mode);
    if (on_gpu() && *mode != '\0') continue;  // NVIDIA's driver has cancellation points of its own
    std::vector<std::string> arguments;
    if (*mode != '\0') arguments.push_back(mode);
    const Report report = read_report(run_preloaded("cancelled_threads", arguments).dump());
    int forced = 0;
    for (const nlohmann::json& leak : report.json.at("leaks")) {
      for (const nlohmann::json& evidence : leak.at("evidence")) {
        if (evidence.at("type") == "exception" && evidence.at("forced") == true) {
          CHECK(leak.at("cause") == "exception");
          ++forced;
        }
      }
    }
    // A thread that is cancelled before its first CUDA call is not known to the library.
    CHECK(forced == (*mode == '\0' ? 2 : 1));
  }
}

}  // namespace culprit::test
