// Libraries that are closed, and others that lie at their addresses.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

// Each of the two libraries leaked so often, under its own name.
void check_named(const Report& report, const std::string& library, std::uint64_t count, std::uint64_t bytes) {
  const std::string function = "leak_in_" + library;
  INFO(function);
  std::uint64_t found = 0;
  for (const Group& group : report.through(function)) {
    found += group.count;
    CHECK(group.bytes == group.count * bytes);
    CHECK(std::filesystem::path(group.stack.at(0).module).filename() == "twin_" + library + ".so");
  }
  CHECK(found == count);
}

}  // namespace

TEST_CASE("a library at the addresses of another one that was closed has its own name", "[same-place]") {
  for (const char* how : {"own", "libc", "namespace", "fork", "code"}) {
    const std::string mode = how;
    if (mode == "fork" && skip_fork_child()) continue;
    INFO(how);
    const Run run = run_preloaded(
        "same_place", {how, subject_path("twin_first.so").string(), subject_path("twin_other.so").string()});
    INFO("stderr: " << run.err);
    REQUIRE(run.exit_code == 0);
    REQUIRE(run.dumps.size() == (mode == "fork" ? 2 : 1));
    for (const std::filesystem::path& dump : run.dumps) {
      const Report report = read_report(dump);
      if (report.leaked_count() == 1) continue;  // the parent of `fork`
      check_named(report, "first", 2, 11001);
      check_named(report, "other", 2, 20001);
      CHECK(report.leaked_count() == (mode == "code" ? 6 : 4));
    }
  }
}

}  // namespace culprit::test
