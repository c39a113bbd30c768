// A memoized stack is the real one: every hit is compared with a real unwind.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

void check_storm(const char* rounds, const char* threads, const char* reload, long least) {
  RunOptions options;
  options.timeout_seconds = 3600;
  options.environment["CULPRIT_VERIFY_STACKS"] = "1";
  const Run run =
      run_preloaded("stack_storm", {subject_path("storm_plugin.so").string(), rounds, threads, reload}, options);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 0);
  const nlohmann::json& summary = report.json.at("summary");
  CHECK(summary.at("stacks_verified").get<long>() > least);
  CHECK(summary.at("stack_mismatches") == 0);
  CHECK(summary.at("context_mismatches") == 0);
}

// The output of endless_stacks.
struct Sizes {
  std::uint64_t stacks, dump, private_bytes;
};

std::vector<Sizes> sizes_of(const std::string& output) {
  std::vector<Sizes> all;
  std::istringstream lines(output);
  std::string word;
  Sizes one = {};
  while (lines >> word >> one.stacks >> word >> one.dump >> word >> one.private_bytes) all.push_back(one);
  return all;
}

// The number of a path: its first step is its lowest bit, and the outermost frame.
std::uint64_t number_of(const Group& group) {
  std::uint64_t number = 0;
  for (const Frame& frame : group.stack) {
    const bool one = contains(frame.function, "step_one");
    if (one || contains(frame.function, "step_zero")) number = number << 1 | (one ? 1 : 0);
  }
  return number;
}

}  // namespace

// Before unused stacks were freed, this took 93 MB of dump and 115 MB of memory.
TEST_CASE("a program whose stacks never repeat has a small dump, and every leak keeps its own stack", "[stacks]") {
  for (const char* threads : {"1", "4"}) {
    RunOptions options;
    options.timeout_seconds = 600;
    const char* stacks = threads[0] == '1' ? "134000" : "40000";
    const Run run = run_preloaded("endless_stacks", {stacks, threads, "20"}, options);
    REQUIRE(run.exit_code == 0);
    const std::vector<Sizes> sizes = sizes_of(run.out);
    REQUIRE(sizes.size() >= 4);
    const Sizes& warm = sizes[sizes.size() / 2];
    CHECK(sizes.back().dump <= 16 << 20);
    CHECK(sizes.back().dump <= warm.dump + (2 << 20));
    for (std::size_t i = sizes.size() / 2; i < sizes.size(); ++i) CHECK(sizes[i].private_bytes <= 48 << 20);

    const Report report = read_report(run.dump());
    const std::uint64_t planted = 20 * std::stoull(threads);
    CHECK(report.leaked_count() == planted);
    REQUIRE(report.leaks.size() == planted);
    for (const Group& group : report.leaks) {
      INFO(group.id);
      CHECK(group.count == 1);
      CHECK(group.bytes == (1U << 20) + 256 * number_of(group));
      CHECK(group.json.at("stack_merged") == false);
    }
    const nlohmann::json& summary = report.json.at("summary");
    CHECK(summary.at("dropped") == 0);
    CHECK(summary.at("merged_stacks") == 0);
    CHECK(summary.at("reused_stacks").get<std::uint64_t>() > 100000);
  }
}

TEST_CASE("remembered stacks are right where stacks never repeat", "[stacks]") {
  RunOptions options;
  options.timeout_seconds = 600;
  options.environment["CULPRIT_VERIFY_STACKS"] = "1";
  const Run run = run_preloaded("endless_stacks", {"20000", "3", "5"}, options);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaks.size() == 15);
  CHECK(report.json.at("summary").at("stack_mismatches") == 0);
  CHECK(report.json.at("summary").at("reused_stacks").get<std::uint64_t>() > 10000);
}

TEST_CASE("remembered stacks are right in recursion, alloca, exceptions, generators, signals, dlclose", "[stacks]") {
  check_storm("1000", "1", "64", 400);
}

TEST_CASE("remembered stacks are right in 16 threads", "[stacks]") { check_storm("150", "16", "64", 300); }

TEST_CASE("new stacks are walked while other threads close libraries", "[stacks]") {
  // Without verifying every stack, which would slow down the threads that unwind.
  for (int i = 0; i < 4; ++i) {
    const Run run = run_preloaded("stack_storm", {subject_path("storm_plugin.so").string(), "300", "16", "4"});
    CHECK(run.signal == 0);
    CHECK(run.exit_code == 0);
  }
}

TEST_CASE("a stripped program is advised to keep its debug information", "[stacks]") {
  const auto advice = [](const std::string& subject, const std::vector<std::string>& arguments) {
    const Report report = read_report(run_preloaded(subject, arguments).dump());
    std::string found;
    for (const nlohmann::json& note : report.json.at("notes")) {
      if (contains(note, "-g")) found += note.get<std::string>();
    }
    return found;
  };
  CHECK(advice("unseen_throw_stripped", {"destroy"}) ==
        subject_path("unseen_throw_stripped").string() +
            " has no debug information: compile it with -g, and do not strip it, to see source lines");
  CHECK(advice("leak_one", {}).empty());
}

// Ten million captures take minutes: run with [storm] by hand.
TEST_CASE("remembered stacks stay right for ten million captures", "[.storm]") {
  check_storm("100000", "16", "4096", 10000000);
}

}  // namespace culprit::test
