// culprit scan PID: which memory of a running process is lost.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "tests/catch.h"
#include "tests/support/json.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

constexpr std::uint64_t kScanServerBytes = 11001;

RunOptions quiet_server() {
  RunOptions options;
  options.environment["CULPRIT_QUIET"] = "1";
  return options;
}

// Runs scan_server, and calls look(pid) while it waits.
void while_scan_server_runs(const std::string& how, const std::function<void(const std::string&)>& look,
                            RunOptions options = quiet_server(), const char* subject = "scan_server") {
  bool looked = false;
  options.when_ready = [&](pid_t pid) {
    look(std::to_string(pid));
    looked = true;
  };
  const Run run = run_preloaded(subject, {how}, options);
  INFO(how << ": " << run.err);
  CHECK(run.exit_code == 0);
  CHECK(looked);
}

nlohmann::json scan_json_of(const std::string& pid, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"scan", pid, "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const Finished finished = run_culprit(words);
  INFO(finished.err);
  REQUIRE(!finished.out.empty());
  nlohmann::json json = nlohmann::json::parse(finished.out);
  CHECK(finished.exit_code == (json.at("search").at("state") == "done" ? 0 : 4));
  return json;
}

// The number of a child of the process; 0: it has none. (Not every kernel has /proc/*/task/*/children.)
pid_t child_of(const std::string& pid) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::isdigit(name[0]) != 0 && std::getline(status, line);) {
      if (line == "PPid:\t" + pid) return std::stoi(name);
    }
  }
  return 0;
}

// Starts culprit scan, and stops the copy in the middle of its search. Empty: the search was faster.
std::optional<pid_t> scan_that_waits(const std::string& pid) {
  const pid_t command = start_culprit({"scan", pid});
  while (waitpid(command, nullptr, WNOHANG) == 0) {
    const pid_t copy = child_of(pid);
    if (copy == 0) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it has begun
    if (kill(copy, SIGSTOP) != 0) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (waitpid(command, nullptr, WNOHANG) == 0) return command;
    break;
  }
  return std::nullopt;
}

nlohmann::json scan_of(const std::string& how) {
  nlohmann::json json;
  while_scan_server_runs(how, [&](const std::string& pid) { json = scan_json_of(pid); });
  return json;
}

}  // namespace

TEST_CASE("culprit scan names what a server with threads has lost", "[scan]") {
  while_scan_server_runs("loses", [](const std::string& pid) {
    const nlohmann::json json = scan_json_of(pid);
    CHECK(json.at("schema") == "culprit.scan/1");
    CHECK(json.at("search").at("state") == "done");
    if (!on_gpu()) CHECK(json.at("search").at("threads") == 4);  // NVIDIA's driver has some of its own
    CHECK(json.at("live_allocations") == 11);
    CHECK(json.at("lost_allocations") == 5);
    CHECK(json.at("lost_bytes") == 5 * kScanServerBytes);
    REQUIRE(json.at("leaks").size() == 1);
    CHECK(json.at("leaks")[0].at("cause") == "lost");
    CHECK(has_frame(read_stack(json.at("leaks")[0].at("stack")), "lose_one"));
    const Finished text = run_culprit({"scan", pid});
    INFO(text.err);
    CHECK(text.exit_code == 0);
    CHECK(has(text.out, "LOST 53.7 KiB in 5 allocations, 1 group, of 118 KiB in 11 allocations live\n"));
    CHECK(has(text.out, "lost       no pointer to them is left\n"));
    CHECK(has(text.err, (on_gpu() ? " threads stopped for " : "4 threads stopped for ")));
  });
}

TEST_CASE("culprit scan looks through all memory of a device", "[scan]") {
  const nlohmann::json json = scan_of("weights");
  CHECK(json.at("search").at("state") == "done");
  CHECK(json.at("live_allocations") == 14);
  CHECK(json.at("lost_allocations") == 3);
  CHECK(json.at("search").at("bytes") > 100 << 20);
}

TEST_CASE("culprit scan looks through very many allocations on a device", "[scan]") {
  const nlohmann::json json = scan_of("chain-on-device");
  CHECK(json.at("search").at("state") == "done");
  CHECK(json.at("live_allocations") == 1001);
  CHECK(json.at("lost_allocations") == 1);
}

TEST_CASE("culprit scan calls nothing lost that a thread, a map or a device has", "[scan]") {
  for (const char* how : {"keeps", "register", "vector", "device", "pinned"}) {
    INFO(how);
    const nlohmann::json json = scan_of(how);
    CHECK(json.at("search").at("state") == "done");
    CHECK(json.at("lost_allocations") == 0);
    CHECK(json.at("live_allocations") >= 1);
  }
  // Otherwise the registers and the device would prove nothing.
  for (const char* how : {"no-register", "no-vector"}) {
    INFO(how);
    CHECK(scan_of(how).at("lost_allocations") == 1);
  }
  // NVIDIA's driver has a copy of what was copied last.
  if (!on_gpu()) CHECK(scan_of("lost-on-device").at("lost_allocations") == 2);
}

TEST_CASE("culprit scan reads the variables of device code", "[scan]") {
  for (const auto& [how, lost] : {std::pair{"wait", 0}, std::pair{"wait-lost", 1}}) {
    INFO(how);
    while_scan_server_runs(
        how,
        [lost = lost](const std::string& pid) {
          const nlohmann::json json = scan_json_of(pid);
          CHECK(json.at("search").at("state") == "done");
          CHECK(json.at("lost_allocations") == lost);
        },
        quiet_server(), "device_code");
  }
}

TEST_CASE("culprit scan does not make a stream wait for another one", "[scan]") {
  while_scan_server_runs(
      "wait-for-other",
      [](const std::string& pid) {
        const nlohmann::json json = scan_json_of(pid);
        CHECK(json.at("search").at("state") == "done");
        CHECK(json.at("lost_allocations") == 0);
      },
      quiet_server(), "device_code");
}

TEST_CASE("culprit scan looks at no thread of the driver", "[scan]") {
  if (on_gpu()) return;
  RunOptions options = quiet_server();
  options.environment["SIMCUDA_THREADS"] = "3";
  while_scan_server_runs(
      "loses",
      [](const std::string& pid) {
        const nlohmann::json json = scan_json_of(pid);
        CHECK(json.at("search").at("threads") == 7);
        CHECK(json.at("lost_allocations") == 5);
      },
      options);
}

TEST_CASE("an address that libc has of a stack keeps no memory before the stack", "[scan]") {
  while_scan_server_runs(
      "stack", [](const std::string& pid) { CHECK(scan_json_of(pid).at("lost_allocations") == 1); }, quiet_server(),
      "lost_neighbours");
}

TEST_CASE("a signal ends culprit scan together with the copy", "[scan]") {
  while_scan_server_runs("large", [](const std::string& pid) {
    for (const int number : {SIGINT, SIGTERM}) {
      std::optional<pid_t> command;
      for (int tries = 0; tries < 20 && !command; ++tries) command = scan_that_waits(pid);
      REQUIRE(command);
      kill(*command, number);
      int status = 0;
      REQUIRE(waitpid(*command, &status, 0) == *command);
      CHECK(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == number);
      CHECK(child_of(pid) == 0);
    }
    CHECK(scan_json_of(pid).at("lost_allocations") == 0);
  });
}

TEST_CASE("culprit scan names the variable that was overwritten", "[scan][overwritten]") {
  const nlohmann::json local = scan_of("local");
  CHECK(local.at("lost_allocations") == 4);
  REQUIRE(local.at("overwritten").size() == 1);
  CHECK(local.at("overwritten")[0].at("variable") == "buffer");
  CHECK(local.at("overwritten")[0].at("function") == "serve_local");
  CHECK(local.at("overwritten")[0].at("place") == "local");
  CHECK(local.at("overwritten")[0].at("count") == 4);
  CHECK(local.at("overwritten")[0].at("bytes") == 4 * kScanServerBytes);
  const nlohmann::json global = scan_of("global");
  REQUIRE(global.at("overwritten").size() == 1);
  CHECK(global.at("overwritten")[0].at("variable") == "g_slot");
  CHECK(global.at("overwritten")[0].at("place") == "variable");
  // The variables of threads have one allocation each, and the map has five.
  CHECK_FALSE(scan_of("loses").contains("overwritten"));
  while_scan_server_runs("local", [](const std::string& pid) {
    const std::string text = run_culprit({"scan", pid}).out;
    CHECK(has(text, "OVERWRITTEN: buffer of serve_local() was overwritten 4 times without a free, 43.0 KiB lost\n"));
    // The fifth call's memory is live.
    CHECK_FALSE(has(text, "freed in"));
  });
}

TEST_CASE("culprit scan never loses pointers that move", "[scan]") {
  while_scan_server_runs("moving", [](const std::string& pid) {
    for (int i = 0; i < 10; ++i) {
      const nlohmann::json json = scan_json_of(pid);
      CHECK(json.at("search").at("state") == "done");
      CHECK(json.at("lost_allocations") == 0);
    }
  });
}

TEST_CASE("culprit scan says what it cannot know", "[scan]") {
  while_scan_server_runs("dontfork", [](const std::string& pid) {
    CHECK(scan_json_of(pid).at("search").at("state") == "unreadable");
    const Finished text = run_culprit({"scan", pid});
    CHECK(text.exit_code == 4);
    CHECK(has(text.out, "NOT KNOWN: not all memory, threads or descriptors of the process could be read\n"));
  });
  while_scan_server_runs("nothing", [](const std::string& pid) {
    CHECK(has(run_culprit({"scan", pid}).out, "NOTHING LOST: no GPU memory is live\n"));
  });
}

TEST_CASE("culprit scan refuses what it cannot look at, with a reason", "[scan]") {
  while_scan_server_runs("large", [](const std::string& pid) {
    const Finished large = run_culprit({"scan", pid, "--longest-stop", "1ms"});
    CHECK(large.exit_code == 3);
    CHECK(has(large.err, "of private memory, and a copy of it may stop it for more than 1.00 ms"));
    CHECK(has(large.err, "--longest-stop"));
    // It can still be looked at.
    CHECK(scan_json_of(pid).at("lost_allocations") == 0);
    CHECK(has(run_culprit({"scan", pid}).out, "NO LOSS FOUND of 53.7 KiB in 5 allocations live (stale"));
  });
  RunOptions without = quiet_server();
  without.preload = false;
  while_scan_server_runs(
      "keeps",
      [](const std::string& pid) {
        const Finished refused = run_culprit({"scan", pid});
        CHECK(refused.exit_code == 3);
        CHECK(has(refused.err, "does not run under culprit"));
        CHECK(has(refused.err, "start it with culprit run"));
      },
      without);
}

}  // namespace culprit::test
