// If exceptions cannot be recorded, the report says so.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

bool has_note(const std::string& subject) {
  const Run run = run_preloaded(subject, {"destroy"});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code >= 0);
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() >= 1);
  for (const nlohmann::json& note : report.json.at("notes")) {
    if (contains(note, "could not be observed")) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a leak of a program with a C++ runtime inside has a note that its exceptions were not seen", "[throws]") {
  CHECK(has_note("unseen_throw"));
  CHECK(has_note("unseen_throw_stripped"));
}

TEST_CASE("a leak of a program with a shared C++ runtime has no such note", "[throws]") {
  CHECK_FALSE(has_note("leak_one"));
}

}  // namespace culprit::test
