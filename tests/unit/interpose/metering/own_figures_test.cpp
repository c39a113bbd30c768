#include "interpose/metering/own_figures.h"

#include "tests/catch.h"

using namespace culprit;
using format::DriverMemory;

namespace {

constexpr std::int64_t kMiB = 1 << 20;
std::int64_t bytes_of(const OwnFigures::Settled& settled, DriverMemory what) {
  return settled.bytes[static_cast<std::size_t>(what)];
}

constexpr std::uint16_t kStreams = bit_of(DriverMemory::kStreams);
constexpr std::uint16_t kModules = bit_of(DriverMemory::kModules);

// The process has 518 MiB, by a first figure.
OwnFigures begun() {
  OwnFigures figures = {};
  figures.begin_at_nothing(7);
  CHECK(figures.growth_until({518 * kMiB, 7}) == 518 * kMiB);
  figures.settle({518 * kMiB, 7}, 518 * kMiB);
  return figures;
}

}  // namespace

TEST_CASE("what the process grew between two figures is that of the calls in between", "[own-figures]") {
  OwnFigures figures = begun();
  REQUIRE_FALSE(figures.has_unsettled());
  for (int i = 0; i < 3; ++i) figures.add_unsettled(DriverMemory::kStreams, 1, false, 0);
  REQUIRE(figures.has_unsettled());
  const OwnFigures::Settled settled = figures.settle({(518 + 34) * kMiB, 7}, 0);
  CHECK(settled.known);
  CHECK_FALSE(settled.doubtful);
  CHECK(bytes_of(settled, DriverMemory::kModules) == 0);
  CHECK(bytes_of(settled, DriverMemory::kStreams) == 34 * kMiB);
  CHECK(settled.not_given == 3);
  CHECK_FALSE(figures.has_unsettled());
}

TEST_CASE("a figure corrects what cuMemGetInfo gave a call", "[own-figures]") {
  OwnFigures figures = begun();
  // 300 MiB, of which a neighbour gave 228 MiB back meanwhile; then a call with a figure of its own.
  figures.add_unsettled(DriverMemory::kModules, 1, true, 72 * kMiB);
  CHECK(figures.given_kinds() == kModules);
  const OwnFigures::Settled settled = figures.settle({(518 + 300 + 2) * kMiB, 7}, 2 * kMiB);
  CHECK(settled.known);
  CHECK(bytes_of(settled, DriverMemory::kModules) == 228 * kMiB);
  CHECK(settled.not_given == 0);
  CHECK(figures.given_kinds() == 0);
}

TEST_CASE("calls of two kinds are known only if the figure agrees with what they were given", "[own-figures]") {
  OwnFigures figures = begun();
  figures.add_unsettled(DriverMemory::kModules, 1, true, 72 * kMiB);
  figures.add_unsettled(DriverMemory::kStreams, 1, true, 2 * kMiB);
  SECTION("it agrees") {
    const OwnFigures::Settled settled = figures.settle({(518 + 74) * kMiB, 7}, 0);
    CHECK(settled.known);
    CHECK(bytes_of(settled, DriverMemory::kModules) == 0);
    CHECK(bytes_of(settled, DriverMemory::kStreams) == 0);
    CHECK_FALSE(settled.doubtful);
  }
  SECTION("it does not") {
    const OwnFigures::Settled settled = figures.settle({(518 + 300) * kMiB, 7}, 0);
    CHECK_FALSE(settled.known);
    CHECK(settled.doubtful);
    CHECK(settled.kinds == (kModules | kStreams));
  }
}

TEST_CASE("calls of two kinds that were given nothing have what cuMemGetInfo showed if it adds up", "[own-figures]") {
  OwnFigures figures = begun();
  figures.add_unsettled(DriverMemory::kModules, 2, false, 90 * kMiB);
  figures.add_unsettled(DriverMemory::kStreams, 1, false, 8 * kMiB);
  SECTION("it does") {
    const OwnFigures::Settled settled = figures.settle({(518 + 98) * kMiB, 7}, 0);
    CHECK(settled.known);
    CHECK(bytes_of(settled, DriverMemory::kModules) == 90 * kMiB);
    CHECK(bytes_of(settled, DriverMemory::kStreams) == 8 * kMiB);
    CHECK(settled.not_given == 3);
  }
  SECTION("another process took memory meanwhile") { CHECK_FALSE(figures.settle({(518 + 34) * kMiB, 7}, 0).known); }
  SECTION("two disturbances cancel each other out") {
    figures.add_unsettled(DriverMemory::kStreams, 1, false, -64 * kMiB);
    figures.add_unsettled(DriverMemory::kModules, 1, false, 64 * kMiB);
    CHECK_FALSE(figures.settle({(518 + 98) * kMiB, 7}, 0).known);
  }
  SECTION("a call has no reading") {
    figures.add_unread(kStreams);
    CHECK_FALSE(figures.settle({(518 + 98) * kMiB, 7}, 0).known);
  }
}

TEST_CASE("nothing is known where something else changed the process's bytes", "[own-figures]") {
  OwnFigures figures = begun();
  CHECK_FALSE(figures.is_known(8));
  figures.add_unsettled(DriverMemory::kStreams, 2, false, 0);
  SECTION("an allocation") { CHECK_FALSE(figures.settle({(518 + 36) * kMiB, 8}, 0).known); }
  SECTION("the end of a module: streams give nothing back") { CHECK_FALSE(figures.settle({500 * kMiB, 7}, 0).known); }
  SECTION("the end of a context") {
    CHECK(figures.forget().not_given == 2);
    CHECK_FALSE(figures.is_known(7));
    CHECK_FALSE(figures.has_unsettled());
  }
}

TEST_CASE("the first context is corrected by the first figure", "[own-figures]") {
  OwnFigures figures = {};
  CHECK_FALSE(figures.is_known(0));
  figures.begin_at_nothing(3);
  figures.add_unsettled(DriverMemory::kContexts, 1, true, 1040 * kMiB);
  const OwnFigures::Settled settled = figures.settle({518 * kMiB, 3}, 0);
  CHECK(settled.known);
  CHECK(bytes_of(settled, DriverMemory::kContexts) == (518 - 1040) * kMiB);
}

TEST_CASE("local memory of a call without a figure is no code", "[own-figures]") {
  OwnFigures figures = begun();
  figures.add_unsettled(DriverMemory::kModules, 1, false, 0);
  figures.add_given(bit_of(DriverMemory::kLocalMemory), 3960 * kMiB);
  CHECK(bytes_of(figures.settle({(518 + 3960 + 2) * kMiB, 7}, 0), DriverMemory::kModules) == 2 * kMiB);
}
