// Situation 11: threads by the thousand, on processors that other programs keep busy.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

BothWays crowd(const char* how, const char* count) {
  Situation situation{"thread_crowd", {how, count}};
  situation.fake_driver_only =
      how == std::string("fork");  // NVIDIA's does not work in a child of an initialized parent
  situation.seconds = 100;
  return both_ways(situation);
}

}  // namespace

TEST_CASE("a thousand threads that end at the same moment end", "[threads]") {
  check_live_or_dropped(crowd("together", on_gpu() ? "200" : "1200"));
}

TEST_CASE("many threads end detached, by a cancellation, or one after the other", "[threads]") {
  for (const char* how : {"detached", "cancelled", "in-turn"})
    check_live_or_dropped(crowd(how, on_gpu() ? "100" : "400"));
}

TEST_CASE("many threads end while their process forks", "[threads]") { crowd("fork", "400"); }

// The limit of interpose/LIMITS.md: one of 1,024 keys is the library's.
TEST_CASE("a program's first keys have the numbers that they have alone, and 1,023 keys are its own", "[threads]") {
  Situation situation{"thread_keys", {}};
  situation.fake_driver_only = true;  // NVIDIA's takes keys itself
  const BothWays runs = both_ways(situation);
  if (!runs.ran) return;
  CHECK(runs.alone.out == "the first key is 0, the next 30 follow, the destructor was called 4 times\n");
  CHECK(figure(runs.figures_under, "keys") == figure(runs.figures_alone, "keys") - 1);
  REQUIRE(runs.under.dumps.size() == 1);
  const Report report = read_report(runs.under.dump());
  CHECK(report.leaked_count() == static_cast<std::uint64_t>(figure(runs.figures_under, "live")));
  CHECK(report.json.at("summary").at("dropped") == 0);
}

}  // namespace culprit::test
