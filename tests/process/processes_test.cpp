// Processes: children have dumps of their own, and a process without CUDA calls leaves no dump.
#include <map>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// The reports of all dumps of a run by the process id that they name.
std::map<int, Report> reports_by_pid(const Run& run) {
  std::map<int, Report> reports;
  for (const std::filesystem::path& dump : run.dumps) {
    const Report report = read_report(dump);
    reports[report.json.at("process").at("pid").get<int>()] = report;
  }
  return reports;
}

void check_one_leak(const Report& report, std::uint64_t bytes, const std::string& function) {
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].bytes == bytes);
  CHECK(report.leaks[0].count == 1);
  CHECK(report.leaks[0].has_frame(function));
}

// Parent and child of `run` must both have reported their leak and nothing of each other.
void check_parent_and_child(const Run& run, const std::string& parent_function, std::uint64_t child_bytes,
                            const std::string& child_function) {
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code >= 0);
  std::map<int, Report> reports = reports_by_pid(run);
  REQUIRE(reports.size() == 2);
  REQUIRE(reports.count(run.pid) == 1);
  check_one_leak(reports[run.pid], 11001, parent_function);
  reports.erase(run.pid);
  check_one_leak(reports.begin()->second, child_bytes, child_function);
}

}  // namespace

TEST_CASE("a process without CUDA leaves no file and no trace", "[processes]") {
  for (const char* program : {"no_cuda", "/bin/true"}) {
    RunOptions without;
    without.preload = false;
    const Run plain = run_preloaded(program, {}, without);
    const Run preloaded = run_preloaded(program);
    INFO(program << ", stderr: " << preloaded.err);
    CHECK(preloaded.exit_code == plain.exit_code);
    CHECK(preloaded.out == plain.out);  // no_cuda prints how many threads and descriptors it has
    CHECK(preloaded.err == plain.err);
    CHECK(preloaded.dumps.empty());
  }
}

TEST_CASE("a shell pipeline under the library is untouched", "[processes]") {
  const Run run = run_preloaded("/bin/sh", {"-c", "echo one two | wc -w; exit 4"});
  CHECK(run.exit_code == 4);
  CHECK(run.out == "2\n");
  CHECK(run.err.empty());
  CHECK(run.dumps.empty());
}

TEST_CASE("a child of fork that uses CUDA first has its own dump", "[processes]") {
  const Run run = run_preloaded("fork_child", {"parent-last", "allocates"});
  CHECK(run.exit_code == 0);
  check_parent_and_child(run, "leak_in_parent", 20001, "leak_in_child");
}

TEST_CASE("a child of fork whose parent has used CUDA has its own dump", "[processes]") {
  if (skip_fork_child()) return;
  const Run run = run_preloaded("fork_child", {"parent-first", "allocates"});
  CHECK(run.exit_code == 0);
  check_parent_and_child(run, "leak_in_parent", 20001, "leak_in_child");
}

TEST_CASE("an idle child of fork leaves no dump and the parent's alone", "[processes]") {
  for (const char* when : {"parent-first", "parent-last"}) {
    INFO(when);
    const Run run = run_preloaded("fork_child", {when, "idle"});
    CHECK(run.exit_code == 0);
    const Report report = read_report(run.dump());
    CHECK(report.json.at("process").at("pid") == run.pid);
    CHECK(report.json.at("process").at("ended") == "exit");
    check_one_leak(report, 11001, "leak_in_parent");
  }
}

TEST_CASE("a child alone that uses CUDA is the only one with a dump", "[processes]") {
  const Run run = run_preloaded("fork_child", {"parent-never", "allocates"});
  CHECK(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.json.at("process").at("pid") != run.pid);
  check_one_leak(report, 20001, "leak_in_child");
}

TEST_CASE("programs started by fork vfork and posix_spawn have their own dumps", "[processes]") {
  for (const char* how : {"fork", "vfork", "spawn"}) {
    INFO(how);
    const Run run = run_preloaded("start_other", {how, subject_path("leak_one").string()});
    CHECK(run.exit_code == 7);
    CHECK(run.out == "done\n");
    check_parent_and_child(run, "leak_in_starter", 11001, "leak_here");
  }
}

TEST_CASE("exec in the same process leaves two dumps", "[processes]") {
  const Run run = run_preloaded("start_other", {"exec", subject_path("leak_one").string()});
  CHECK(run.exit_code == 7);
  REQUIRE(run.dumps.size() == 2);
  int before = 0;
  int after = 0;
  for (const std::filesystem::path& dump : run.dumps) {
    const Report report = read_report(dump);
    CHECK(report.json.at("process").at("pid") == run.pid);
    before += static_cast<int>(report.through("leak_in_starter").size());
    after += static_cast<int>(report.through("leak_here").size());
    CHECK(report.leaks.size() == 1);
  }
  CHECK(before == 1);
  CHECK(after == 1);
}

TEST_CASE("memory opened through IPC belongs to the exporter", "[processes]") {
  const Run run = run_preloaded("ipc_processes");
  INFO("stderr: " << run.err);
  if (run.exit_code == 77) {
    WARN("skipped: this driver has no IPC between processes");
    return;
  }
  REQUIRE(run.exit_code == 0);
  std::map<int, Report> reports = reports_by_pid(run);
  REQUIRE(reports.size() == 2);
  CHECK(reports[run.pid].leaks.empty());
  CHECK(reports[run.pid].error_count() == 0);
  reports.erase(run.pid);
  const Report& child = reports.begin()->second;
  CHECK(child.leaked_bytes() == 0);
  const std::vector<Group> opened = child.through("open_in_child");
  REQUIRE(opened.size() >= 1);
  CHECK(opened[0].kind == "ipc-memory");
  CHECK(opened[0].api == "cudaIpcOpenMemHandle");
}

TEST_CASE("a signal handler may end the process wherever it interrupts it", "[processes]") {
  RunOptions options;
  options.timeout_seconds = 30;
  options.environment["SIMCUDA_FREE_CALLS"] = "1";  // then most of the time is spent in the library
  for (int delay = 2000; delay < 4500; delay += 101) {
    CAPTURE(delay);
    const Run run = run_preloaded("exit_in_handler", {std::to_string(delay)}, options);
    REQUIRE_FALSE(run.timed_out);
    REQUIRE(run.exit_code == 7);
    const Report report = read_report(run.dump());
    CHECK(report.json.at("process").at("ended") == "exit");
    CHECK(report.leaked_bytes() >= 20001);
  }
}

TEST_CASE("a signal handler that interrupts malloc may end the process", "[processes]") {
  RunOptions options;
  options.timeout_seconds = 30;
  for (int delay = 2000; delay < 3000; delay += 101) {
    CAPTURE(delay);
    const Run run = run_preloaded("exit_in_handler", {std::to_string(delay), "malloc"}, options);
    REQUIRE_FALSE(run.timed_out);
    REQUIRE(run.exit_code == 7);
    CHECK(has(run.err, "19.53 KiB in 1 allocation not freed"));
    CHECK(read_report(run.dump()).leaked_bytes() == 20001);
  }
}

TEST_CASE("a child without CUDA of a process with CUDA runs untouched", "[processes]") {
  for (const char* how : {"fork", "vfork", "spawn"}) {
    INFO(how);
    const Run run = run_preloaded("start_other", {how, "/bin/sh", "-c", "exit 6"});
    CHECK(run.exit_code == 6);
    check_one_leak(read_report(run.dump()), 11001, "leak_in_starter");
  }
}

}  // namespace culprit::test
