#include "interpose/metering/live_bytes.h"

#include <memory>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

namespace culprit {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;  // all tests of the folder are one translation unit

}  // namespace

TEST_CASE("a breakdown is due when a device has grown by a sixteenth and a MiB", "[live-bytes]") {
  const auto peaks = std::make_unique<PeakBreakdowns>();
  CHECK_FALSE(peaks->wants(0, kMebibyte - 1));
  CHECK(peaks->wants(0, kMebibyte));
  peaks->note_taken(0, 160 * kMebibyte);
  CHECK_FALSE(peaks->wants(0, 171 * kMebibyte - 1));
  CHECK(peaks->wants(0, 171 * kMebibyte));
  CHECK(peaks->wants(1, kMebibyte));
}

TEST_CASE("at exit a breakdown is due when a device has grown at all", "[live-bytes]") {
  const auto peaks = std::make_unique<PeakBreakdowns>();
  CHECK_FALSE(peaks->wants(0, 0, true));
  peaks->note_taken(0, 160 * kMebibyte);
  CHECK_FALSE(peaks->wants(0, 160 * kMebibyte, true));
  CHECK(peaks->wants(0, 160 * kMebibyte + 1, true));
}

TEST_CASE("a device beyond the last one has no breakdown and no graph memory", "[live-bytes]") {
  const auto peaks = std::make_unique<PeakBreakdowns>();
  const auto graphs = std::make_unique<GraphBytes>();
  constexpr std::uint8_t kBeyond = ContextTable::kMostDevices;
  CHECK_FALSE(peaks->wants(kBeyond, 1ULL << 40, true));
  graphs->change(kBeyond, 100);
  CHECK(graphs->live(0) == 0);
}

TEST_CASE("changes of graph memory count once graphs allocate", "[live-bytes]") {
  const auto graphs = std::make_unique<GraphBytes>();
  graphs->note_change();
  CHECK(graphs->changes() == 0);
  graphs->expect();
  graphs->change(2, 4096);
  graphs->change(2, -96);
  graphs->note_change();
  CHECK(graphs->changes() == 3);
  CHECK(graphs->live(2) == 4000);
  graphs->set_live(2, 7);
  CHECK(graphs->live(2) == 7);
}

TEST_CASE("one of two that want to do the same work skips it", "[skip-lock]") {
  Zeroed<SkipLock> lock;
  CHECK(lock->try_lock());
  CHECK_FALSE(lock->try_lock());
  lock->unlock();
  CHECK(lock->try_lock());
}

}  // namespace culprit
