// Situation 11: threads by the thousand, on processors that other programs keep busy.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

BothWays crowd(const char* how, const char* count) {
  Situation situation{"thread_crowd", {how, count}};
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

TEST_CASE("many threads end while their process forks", "[threads]") { crowd("fork", on_gpu() ? "100" : "400"); }

}  // namespace culprit::test
