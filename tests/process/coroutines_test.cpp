// Memory that coroutines allocate, and the exceptions that abandon it: two compilers, unoptimized and optimized.
#include <filesystem>
#include <functional>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

void for_each_compiler(const std::string& way, const std::function<void(const std::vector<Group>&)>& check) {
  int tried = 0;
  for (const char* variant : {"coroutines_O0", "coroutines_O2", "coroutines_clang_O0", "coroutines_clang_O2"}) {
    if (!std::filesystem::exists(subject_path(variant))) continue;
    ++tried;
    INFO(variant << " " << way);
    RunOptions options;
    options.environment["CULPRIT_QUIET"] = "1";
    const Run run = run_preloaded(variant, {way}, options);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    check(read_report(run.dump()).leaks);
  }
  CHECK(tried >= 2);
}

nlohmann::json exception_of(const Group& group) {
  for (const nlohmann::json& evidence : group.json.at("evidence")) {
    if (evidence.at("type") == "exception") return evidence;
  }
  return {};
}

}  // namespace

TEST_CASE("an exception that leaves a coroutine's body abandons the memory of that body", "[coroutines]") {
  const std::vector<std::pair<std::string, std::uint64_t>> ways = {
      {"same_part", 1}, {"at_once", 1}, {"later_part", 1}, {"at_once_and_later", 1},
      {"several", 3},   {"member", 1},  {"template", 1},   {"lambda", 1}};
  for (const auto& [way, count] : ways) {
    const std::uint64_t expected = count;
    for_each_compiler(way, [&](const std::vector<Group>& leaks) {
      std::uint64_t blamed = 0;
      for (const Group& leak : leaks) {
        CHECK(leak.bytes == 1001 * leak.count);
        CHECK(leak.cause == "exception");
        blamed += leak.count;
        const nlohmann::json evidence = exception_of(leak);
        REQUIRE(evidence.is_object());
        CHECK(evidence.at("what") == "residual is NaN");
        CHECK(evidence.at("caught") == true);
      }
      CHECK(blamed == expected);
    });
  }
}

TEST_CASE("an exception passes from a coroutine to the one that waits for it", "[coroutines]") {
  for_each_compiler("parent", [](const std::vector<Group>& leaks) {
    REQUIRE(leaks.size() == 2);
    for (const Group& leak : leaks) {
      // g++ may make two handlers around the body of the waiting one: then nothing tells them from the program's own.
      const bool may_be_unknown = leak.bytes == 1004;
      if (!may_be_unknown || leak.cause != "never-freed") CHECK(leak.cause == "exception");
    }
  });
}

TEST_CASE("memory of a coroutine that no exception ended is not blamed on one", "[coroutines]") {
  for (const char* way : {"dropped", "caught_inside", "borrows", "two_instances"}) {
    for_each_compiler(way, [](const std::vector<Group>& leaks) {
      REQUIRE(leaks.size() == 1);
      CHECK(leaks[0].bytes == 1002);
      CHECK(leaks[0].is_unexplained());
      CHECK(exception_of(leaks[0]).is_null());
    });
  }
}

TEST_CASE("a coroutine whose memory has an owner leaks nothing when it throws", "[coroutines]") {
  for_each_compiler("many_times", [](const std::vector<Group>& leaks) { CHECK(leaks.empty()); });
}

TEST_CASE("the hint names a coroutine that was destroyed while it waited", "[coroutines]") {
  const Run run = run_preloaded("coroutines_O0", {"dropped"});
  REQUIRE(run.exit_code == 0);
  const Finished report = run_culprit({"report", run.dump().string()});
  INFO(report.out);
  CHECK(contains(report.out, "dropped is a coroutine: when it is destroyed while it waits"));
}

}  // namespace culprit::test
