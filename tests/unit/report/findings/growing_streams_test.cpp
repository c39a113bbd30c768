// Which streams grow: a pool, a stream for each thread and streams that are mostly destroyed do not.
#include "report/findings/finding.h"
#include "tests/catch.h"
#include "tests/unit/report/findings/examples.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// 96 streams that one line made from second 1 to second 61, when the program ended.
class Streams {
 public:
  Streams() { add_example<FindingKind::kGrowingStreams>({&stack_, "cudaStreamCreate"}, 0, &report); }
  Group& group() { return report.resources.front(); }
  std::vector<Finding> found() const { return findings_of(report, FindingKind::kGrowingStreams); }

  Report report;

 private:
  ResolvedStack stack_;
};

}  // namespace

TEST_CASE("streams that one line makes over the whole run grow", "[report][findings]") {
  Streams streams;
  REQUIRE(streams.found().size() == 1);
  CHECK(streams.found().front().headline == "96 kept from 1.00 s to 61.0 s");
  CHECK(streams.found().front().count == 96);
  // Some were destroyed, and most were not.
  streams.group().freed = 4;
  REQUIRE(streams.found().size() == 1);
  CHECK(streams.found().front().headline == "96 kept from 1.00 s to 61.0 s (4 others were destroyed)");
}

TEST_CASE("many streams are no growth where they are a pool, few, or one for each thread", "[report][findings]") {
  Streams streams;
  Group& group = streams.group();
  SECTION("a pool that was made at the start") { group.last_ns = group.first_ns + 11 * kSecond; }
  SECTION("a pool that was made at the end") { group.first_ns = group.last_ns - 9 * kSecond; }
  SECTION("fewer than a pool of PyTorch's has") { group.count = 63; }
  SECTION("most were destroyed") { group.freed = 97; }
  SECTION("one for each thread") { group.threads.resize(96); }
  SECTION("a library's own") { group.library = "libcublas.so.13"; }
  SECTION("events") { group.kind = culprit::format::Kind::kEvent; }
  SECTION("the program went on without more of them") { streams.report.process.end_time_ns = 90 * kSecond; }
  CHECK(streams.found().empty());
}

TEST_CASE("the streams of each process of a job are counted apart", "[report][findings]") {
  Streams streams;
  streams.report.job.resize(2);
  streams.report.job[1].rank = 1;
  streams.group().shares = {{0, 0, 60}, {1, 0, 36}};
  CHECK(streams.found().empty());
  streams.group().shares = {{0, 0, 4}, {1, 0, 92}};
  REQUIRE(streams.found().size() == 1);
  CHECK(streams.found().front().headline == "rank 1: 92 kept from 1.00 s to 61.0 s");
  CHECK(streams.found().front().processes == std::vector<std::uint32_t>{1});
}
