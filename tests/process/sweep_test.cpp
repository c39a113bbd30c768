// culprit sweep: reports what leaks, crashes or hangs only when an allocation fails.
#include <csignal>
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

struct SweepRun {
  Run run;
  nlohmann::json json;
  // How many runs had this outcome.
  long outcomes(const std::string& name) const {
    long count = 0;
    for (const nlohmann::json& one : json.at("runs")) count += one.at("outcome") == name ? 1 : 0;
    return count;
  }
};

SweepRun sweep(const std::vector<std::string>& command, std::vector<std::string> sweep_options = {}) {
  TemporaryFolder folder;
  const std::string file = (folder.path() / "sweep.json").string();
  sweep_options.insert(sweep_options.end(), {"--format", "json", "-o", file});
  SweepRun result = {culprit_command("sweep", sweep_options, command), {}};
  INFO(result.run.err);
  REQUIRE(std::filesystem::exists(file));
  std::ifstream stream(file);
  result.json = nlohmann::json::parse(stream);
  return result;
}

std::string example(const std::string& name) {
  return (subject_path("").parent_path().parent_path() / "examples" / name).string();
}

}  // namespace

TEST_CASE("a sweep finds the leak on the failure path of the second allocation and nothing else", "[sweep]") {
  const SweepRun found = sweep({"sweep_target", "leak"});
  CHECK(found.run.exit_code == 0);
  CHECK(found.run.out == "built\n");  // output of the clean run only
  INFO(found.json.dump(1));
  CHECK(found.json.at("sites") == 3);
  REQUIRE(found.json.at("leaks").size() == 1);
  const nlohmann::json& leak = found.json["leaks"][0];
  CHECK(leak.at("bytes") == 11001);
  CHECK(leak.at("count") == 1);
  CHECK(leak.at("cause") == "error-return");
  CHECK(has_frame(read_stack(leak.at("stack")), "make_first"));
  REQUIRE(leak.at("runs").size() == 1);
  const nlohmann::json& run = found.json["runs"][leak["runs"][0].get<std::size_t>()];
  CHECK(run.at("api") == "cudaMallocAsync");
  CHECK(run.at("outcome") == "found");
  CHECK(has_frame(read_stack(run.at("stack")), "build"));
  CHECK(found.outcomes("fine") == 2);
  CHECK(found.json.at("errors").empty());
}

TEST_CASE("a sweep names the line, the failure and how to see it again", "[sweep]") {
  const Run run = culprit_command("sweep", {}, {"sweep_target", "leak"});
  INFO(run.err);
  CHECK(has(run.err, "1 leak that the clean run does not have"));
  CHECK(has(run.err, "sweep_target.cpp:24"));
  CHECK(has(run.err, "cudaMallocAsync at sweep_target.cpp:40 build fails"));
  const std::size_t again = run.err.find("CULPRIT_FAIL=alloc-site:");
  REQUIRE(again != std::string::npos);
  RunOptions options;
  options.environment["CULPRIT_FAIL"] = run.err.substr(again + 13, 27);
  const Run repeated = culprit_run({"--fail-on", "leaks"}, {"sweep_target", "leak"}, options);
  CHECK(repeated.exit_code == 1);
  CHECK(repeated.out == "not built\n");
  CHECK(has(repeated.err, "ERROR RETURN"));
}

TEST_CASE("a sweep of a program that frees everything finds nothing", "[sweep]") {
  const SweepRun found = sweep({"sweep_target", "clean"}, {"--fail-on", "leaks,errors"});
  CHECK(found.run.exit_code == 0);
  CHECK(found.json.at("leaks").empty());
  CHECK(found.json.at("errors").empty());
  CHECK(found.outcomes("fine") == 3);
}

TEST_CASE("a sweep reports crashes and hangs", "[sweep]") {
  const SweepRun crash = sweep({"sweep_target", "crash"}, {"--fail-on", "errors"});
  CHECK(crash.run.exit_code == 1);
  CHECK(crash.outcomes("crash") == 1);
  CHECK(crash.outcomes("fine") == 2);
  CHECK(crash.json.at("runs")[1].at("signal") == "SIGSEGV");
  CHECK(crash.json.at("leaks").empty());

  const SweepRun hang = sweep({"sweep_target", "hang"}, {"--timeout", "2", "--jobs", "3", "--error-exitcode", "9"});
  CHECK(hang.run.exit_code == 9);
  CHECK(hang.json.at("runs")[1].at("outcome") == "hang");
}

TEST_CASE("a sweep reports frees that only go wrong after a failure", "[sweep]") {
  const SweepRun found = sweep({"sweep_target", "double"});
  INFO(found.json.dump(1));
  CHECK(found.json.at("leaks").empty());
  REQUIRE(found.json.at("errors").size() == 1);
  CHECK(found.json["errors"][0].at("type") == "double-free");
  CHECK(found.json["runs"][2].at("outcome") == "found");
}

TEST_CASE("memory of a program that gives up by exit is not counted", "[sweep]") {
  const SweepRun found = sweep({"sweep_target", "exit"});
  INFO(found.json.dump(1));
  CHECK(found.json.at("leaks").empty());
  CHECK(found.outcomes("gave-up") == 3);
  CHECK(has_frame(read_stack(found.json["runs"][1].at("exit_stack")), "give_up"));
}

TEST_CASE("a leak that the clean run has too counts as far as it grew", "[sweep]") {
  const SweepRun found = sweep({"sweep_target", "grow"}, {"--fail-on", "leaks"});
  INFO(found.json.dump(1));
  CHECK(found.run.exit_code == 1);
  CHECK(found.json.at("clean").at("leaks") == 1);
  REQUIRE(found.json.at("leaks").size() == 1);
  CHECK(found.json["leaks"][0].at("count") == 1);
  CHECK(found.json["leaks"][0].at("bytes") == 11001);
}

TEST_CASE("a sweep takes some of the sites only, and says which do not exist", "[sweep]") {
  const SweepRun all = sweep({"sweep_target", "leak"}, {"--max-runs", "2"});
  CHECK(all.json.at("sites") == 3);
  REQUIRE(all.json.at("runs").size() == 2);
  const SweepRun one = sweep({"sweep_target", "leak"}, {"--site", all.json["runs"][1].at("site")});
  REQUIRE(one.json.at("runs").size() == 1);
  CHECK(one.json.at("leaks").size() == 1);
  const Run wrong = culprit_command("sweep", {"--site", "0123456789abcdef"}, {"sweep_target", "leak"});
  CHECK(wrong.exit_code == 3);
  CHECK(has(wrong.err, "no such allocation site"));
}

TEST_CASE("a sweep passes the clean run's exit code through and leaves no dumps", "[sweep]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  options.environment["TMPDIR"] = options.folder->path().string();
  const Run failing = culprit_command("sweep", {"--show-output"}, {"sweep_target", "failing"}, options);
  CHECK(failing.exit_code == 5);
  CHECK(has(failing.err, "ends with 5 although nothing was made to fail"));
  CHECK(has(failing.out, "not built"));
  CHECK(std::filesystem::is_empty(options.folder->path()));

  const std::filesystem::path kept = options.folder->path() / "kept";
  const Run keeping = culprit_command("sweep", {"--out", kept.string()}, {"sweep_target", "leak"}, options);
  CHECK(keeping.exit_code == 0);
  for (const char* part : {"clean", "1", "2", "3"}) CHECK_FALSE(std::filesystem::is_empty(kept / part));
}

TEST_CASE("a sweep of a program that allocates nothing says so", "[sweep]") {
  const Run none = culprit_command("sweep", {}, {"no_cuda"});
  CHECK(has(none.err, "no allocation was seen"));
  CHECK(culprit_command("sweep", {}, {"/no/such/program"}).exit_code == 127);
  const Run killed = culprit_command("sweep", {}, {"end_how", "kill"});
  CHECK((killed.signal == SIGKILL || killed.exit_code == 128 + SIGKILL));
  CHECK(has(killed.err, "although nothing was made to fail"));
}

// A script that does something in the clean run of a sweep, and something else in the runs with a failure.
std::vector<std::string> by_run(const std::string& clean, const std::string& failing) {
  return {"/bin/sh", "-c", "case $CULPRIT_FAIL in sites) " + clean + ";; *) " + failing + ";; esac"};
}

TEST_CASE("a sweep is not green when something was not recorded, and says what", "[sweep][verdict]") {
  const std::string target = subject_path("sweep_target").string();
  const std::string remove = "; rm -f \"$(dirname \"$CULPRIT_OUT\")\"/culprit.*";
  struct Row {
    const char* name;
    std::vector<std::string> command;
    const char* reason;
  };
  const Row rows[] = {
      {"the clean run lacks its dump",
       {"/bin/sh", "-c", target + " clean" + remove},
       "the clean run: 1 more process recorded, but the dump was not found"},
      {"the others lack theirs", by_run(target + " clean", target + " clean" + remove),
       "3 runs: 1 more process recorded, but the dump was not found"},
      {"no run comes to its site", by_run(target + " clean", "true"),
       "3 runs did not come to their allocation site: nothing failed there"},
      {"a damaged dump",
       by_run(target + " clean", target + " clean; truncate -s 9000 \"$(dirname \"$CULPRIT_OUT\")\"/culprit.*"),
       "3 runs were not started, or left a dump that cannot be read"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    for (const std::vector<std::string>& gate :
         {std::vector<std::string>{"--fail-on", "leaks"}, {"--fail-on", "leaks,errors"}, {"--error-exitcode", "9"}}) {
      const Run run = culprit_command("sweep", gate, row.command);
      INFO(run.err);
      CHECK(run.exit_code == 4);
      CHECK(has("\n" + run.err, std::string("\nNOT KNOWN: ") + row.reason));
      CHECK(has(run.err, "NOT KNOWN: no new leak among the recorded allocations"));
      CHECK_FALSE(has(run.err, "NOTHING NEW LEAKED"));
    }
    // Without a gate the verdict is said. Only a clean run of which nothing was seen ends with 4, as `culprit run`
    // does.
    const int code = row.reason[0] == 't' ? 4 : 0;
    const SweepRun asked_nothing = sweep(row.command);
    CHECK(asked_nothing.run.exit_code == code);
    CHECK(asked_nothing.json["summary"]["verdict"] == "not-known");
    CHECK(has(asked_nothing.json["summary"]["not_known"].dump(), row.reason));
    CHECK(sweep(row.command, {"--fail-on", "leaks"}).run.exit_code == 4);
    CHECK(sweep(row.command, {"--fail-on", "none"}).run.exit_code == code);
  }
}

TEST_CASE("a sweep that finds a leak ends with 1, complete or not", "[sweep][verdict]") {
  const std::string target = subject_path("sweep_target").string();
  const SweepRun complete = sweep({"sweep_target", "leak"}, {"--fail-on", "leaks"});
  CHECK(complete.run.exit_code == 1);
  CHECK(complete.json["summary"]["verdict"] == "found");
  CHECK(complete.json["summary"]["not_known"].empty());
  CHECK(sweep({"sweep_target", "clean"}).json["summary"]["verdict"] == "clean");
  // A process without a dump beside one that has it.
  const std::vector<std::string> command = {
      "/bin/sh", "-c", target + " clean; rm -f \"$(dirname \"$CULPRIT_OUT\")\"/culprit.*; " + target + " leak"};
  const Run run = culprit_command("sweep", {"--fail-on", "leaks"}, command);
  INFO(run.err);
  CHECK(run.exit_code == 1);
  CHECK(has(run.err, " leak that the clean run does not have · NOT KNOWN what else"));
}

TEST_CASE("a sweep whose report cannot be written keeps the dumps", "[sweep][verdict]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  options.environment["TMPDIR"] = options.folder->path().string();
  const std::string gone = options.folder->file("gone");
  REQUIRE(std::filesystem::create_directory(gone));
  const Run run = culprit_command(
      "sweep", {"-o", gone + "/report.txt"},
      {"/bin/sh", "-c", "rm -rf " + gone + "; " + subject_path("sweep_target").string() + " leak"}, options);
  INFO(run.err);
  CHECK(run.exit_code == 3);
  const std::string begin = "culprit: the dumps are kept: ";
  REQUIRE(has(run.err, begin));
  std::string path = run.err.substr(run.err.find(begin) + begin.size());
  path.resize(path.find(','));
  CHECK_FALSE(std::filesystem::is_empty(path));
  // That of the run with the leak.
  CHECK_FALSE(std::filesystem::is_empty(std::filesystem::path(path).parent_path() / "2"));
}

TEST_CASE("the example that forgets its first buffer is found by a sweep", "[sweep]") {
  if (!std::filesystem::exists(example("out_of_memory_second_buffer"))) {
    WARN("skipped: the examples are not here");
    return;
  }
  for (const char* name : {"out_of_memory_second_buffer", "out_of_memory_second_buffer_static"}) {
    if (on_gpu() && std::string(name) != "out_of_memory_second_buffer") continue;
    const SweepRun found = sweep({example(name)});
    INFO(found.json.dump(1));
    CHECK(found.run.exit_code == 0);
    CHECK(found.json.at("sites") == 3);
    REQUIRE(found.json.at("leaks").size() == 1);
    CHECK(found.json["leaks"][0].at("bytes") == std::size_t{64} << 20);
    CHECK(found.json["leaks"][0].at("cause") == "error-return");
    CHECK(found.outcomes("fine") == 2);
  }
}

}  // namespace culprit::test
