// The listeners for Catch2 and GoogleTest: tests as marks, and tests that fail because they leak.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

constexpr char kLeftBehind[] = "left 11001 bytes of GPU memory in 1 allocation behind";

struct Program {
  std::string name;
  std::string leaks;   // its test that leaks 11001 bytes
  std::string clean;   // one that does not
  std::string failed;  // the output when the leaking tests fail too
  int tests;
};

std::vector<Program> programs() {
  std::vector<Program> found = {{"tests_catch2", "leaks", "clean", "test cases:  4 |  1 passed | 3 failed", 4}};
  // Built where GoogleTest is installed.
  if (fs::exists(subject_path("tests_gtest")))
    found.push_back({"tests_gtest", "Suite.Leaks", "Suite.Clean", " 2 FAILED TESTS", 3});
  return found;
}

}  // namespace

TEST_CASE("leaks are listed by test", "[listeners]") {
  for (const Program& program : programs()) {
    const Run run = run_preloaded(program.name);
    INFO(run.out << run.err);
    CHECK_FALSE(has(run.out, kLeftBehind));
    const Report report = read_report(run.dump());
    std::string test;
    for (const Group& group : report.leaks) {
      if (group.bytes == 11001) test = group.json.at("marks").at(0).at("mark").get<std::string>();
    }
    CHECK(test == "test: " + program.leaks);
  }
}

TEST_CASE("a test that leaks fails when that is asked for", "[listeners]") {
  for (const Program& program : programs()) {
    RunOptions options;
    options.environment["CULPRIT_FAIL_TESTS"] = "1";
    const Run run = run_preloaded(program.name, {}, options);
    INFO(run.out << run.err);
    CHECK(run.exit_code != 0);
    CHECK(has(run.out, kLeftBehind));
    CHECK(has(run.out, program.failed));
    options.preload = false;
    const Run plain = run_preloaded(program.name, {}, options);
    CHECK_FALSE(has(plain.out, "left"));
  }
}

TEST_CASE("a test whose memory was not recorded fails when leaking tests fail", "[listeners]") {
  for (const Program& program : programs()) {
    RunOptions options;
    options.environment["CULPRIT_FAIL_TESTS"] = "1";
    options.environment["CULPRIT_OUT"] = "/proc/nowhere/a.dump";
    const Run run = run_preloaded(program.name, {program.clean}, options);
    INFO(run.out << run.err);
    CHECK(run.exit_code != 0);
    CHECK(has(run.out, "it is not known whether the test left GPU memory behind"));
  }
}

TEST_CASE("the JUnit report has a case for each test", "[listeners]") {
  for (const Program& program : programs()) {
    const Run run = run_preloaded(program.name);
    const Finished junit =
        run_program({culprit_path().string(), "report", "--format", "junit", run.dump().string()}, ProgramOptions());
    INFO(junit.out);
    CHECK(has(junit.out, "tests=\"" + std::to_string(program.tests) + "\""));
    CHECK(has(junit.out,
              ".tests\" name=\"" + program.leaks + "\">\n      <failure message=\"10.7 KiB in 1 allocation never"));
    CHECK(has(junit.out, ".tests\" name=\"" + program.clean + "\"/>"));
    CHECK_FALSE(has(junit.out, ".leaks\""));
  }
}

}  // namespace culprit::test
