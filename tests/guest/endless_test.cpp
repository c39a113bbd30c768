// Situation 8: programs that never repeat themselves.
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

constexpr long long kMiB = 1 << 20;

// Checks that the dump's size on the disk, and the additional memory of the process, stay below those after the first
// few stacks.
void check_flat(const char* what, const char* count) {
  Situation situation{"endless", {what, count}};
  situation.seconds = 100;
  const BothWays runs = both_ways(situation);
  check_leaks_or_dropped(runs, 1);
  if (!runs.ran || runs.figures_under.count("resident") == 0) return;
  const long long grown = figure(runs.figures_under, "resident") - figure(runs.figures_alone, "resident");
  INFO(what << ": " << grown / kMiB << " MiB of memory more than alone");
  CHECK(grown < 32 * kMiB);
  struct stat status = {};
  REQUIRE(stat(runs.under.dump().c_str(), &status) == 0);
  INFO(what << ": " << status.st_blocks * 512 / kMiB << " MiB of dump");
  CHECK(status.st_blocks * 512 < 48 * kMiB);
}

}  // namespace

// On a GPU beside other programs a pair of calls takes 0.4 ms, a thread that uses CUDA 5 ms, a context 0.5 s.
TEST_CASE("a program with ever new stacks has a dump that stays small", "[endless]") {
  check_flat("stacks", on_gpu() ? "4000" : "200000");
}
TEST_CASE("a program with ever new threads has a dump that stays small", "[endless]") {
  check_flat("threads", on_gpu() ? "2000" : "20000");
}
TEST_CASE("a program with ever new marks has a dump that stays small", "[endless]") {
  check_flat("labels", on_gpu() ? "4000" : "200000");
}
TEST_CASE("a program with ever new contexts has a dump that stays small", "[endless]") {
  check_flat("contexts", on_gpu() ? "12" : "50000");
}

}  // namespace culprit::test
