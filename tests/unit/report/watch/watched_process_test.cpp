// Rows from dumps, as a running program would leave them at each sample.
#include "report/watch/watched_process.h"

#include <map>
#include <string>
#include <vector>

#include "../../../catch.h"
#include "report/dump/dump_reader.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/watch/watch_result.h"
#include "tests/support/dump_builder.h"

using namespace culprit;
using namespace culprit::report;
using namespace culprit::format;
using culprit::test::DumpBuilder;

namespace {

constexpr std::uint64_t kSecond = 1000000000;

// The program at one second of its life.
class Second {
 public:
  explicit Second(std::uint64_t second) : second_(second) {
    builder_.header().process_state = ProcessState::kRunning;
    module_ = builder_.add_module("/no/app");
    api_ = builder_.add_api("cuMemAlloc_v2");
    DeviceRecord device = {};
    device.state = 1;
    device.first.total_bytes = 8ULL << 30;
    device.live_bytes = 1ULL << 30;
    builder_.add_device(device);
  }
  DumpBuilder& builder() { return builder_; }
  Ref stack(std::uint64_t offset) { return builder_.add_stack({DumpBuilder::frame(module_, offset)}); }
  void add(Ref stack, Kind kind, std::uint64_t bytes, std::uint64_t born) {
    AllocationRecord record = {};
    record.state = 1U << kStateBits | static_cast<std::uint32_t>(AllocationState::kLive);
    record.stack = stack;
    record.handle = 0x1000 + next_++ * 0x1000;
    record.bytes = bytes;
    record.time_ns = born * kSecond;
    record.api = api_;
    record.kind = kind;
    builder_.add_allocation(record);
  }
  WatchedProcess::Look look(WatchedProcess* watched, const std::map<std::string, DeviceAnswer>& answers = {}) {
    const std::vector<char>& bytes = builder_.bytes();
    const Dump dump = Dump::from_bytes(bytes.data(), bytes.size(), "test");
    return watched->sample(dump, second_ * kSecond, answers);
  }

 private:
  DumpBuilder builder_;
  const std::uint64_t second_;
  std::uint32_t module_ = 0;
  std::uint16_t api_ = 0;
  std::uint64_t next_ = 0;
};

WatchedProcess without_symbols() {
  return WatchedProcess([](std::vector<ModuleSymbols>&) {});
}

const JudgedRow* row_of_kind(const std::vector<JudgedRow>& rows, const std::string& kind) {
  for (const JudgedRow& row : rows) {
    if (row.row->kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("Bytes, objects and the driver's own memory are rows of a watched process") {
  WatchedProcess watched = without_symbols();
  for (std::uint64_t second = 1; second <= 120; ++second) {
    Second now(second);
    const Ref leaking = now.stack(0x100);
    const Ref streams = now.stack(0x200);
    const Ref steady = now.stack(0x300);
    for (std::uint64_t born = 1; born <= second; ++born) {
      now.add(leaking, Kind::kDevice, 1 << 20, born);
      if (born % 2 == 0) now.add(streams, Kind::kStream, 0, born);
    }
    now.add(steady, Kind::kPinnedHost, 4096, second);
    CallChargeRecord charge = {};
    charge.state = 1;
    charge.stack = now.stack(0x400);
    charge.bytes = static_cast<std::int64_t>(second << 21);
    charge.count = second;
    charge.what = DriverMemory::kGraphExecutables;
    now.builder().add_call_charge(charge);
    ContextRecord context = {};
    context.state = ContextState::kAlive;
    context.stack = now.stack(0x500);
    context.kind = Kind::kContext;
    now.builder().add_context(context);
    CHECK(now.look(&watched) == WatchedProcess::Look::kSampled);
  }
  const std::vector<JudgedRow> rows = watched.judge(0);
  CHECK(rows.size() == 5);
  const JudgedRow* const device = row_of_kind(rows, "device");
  REQUIRE(device != nullptr);
  CHECK(device->judgement.verdict == WatchVerdict::kLeaking);
  CHECK(device->judgement.per_minute == Approx(60 << 20).epsilon(0.02));
  CHECK(device->live == 120 << 20);
  // 7 GiB are left, by this process alone, at 60 MiB a minute.
  REQUIRE(device->seconds_until_full);
  CHECK(device->at_most);
  CHECK(*device->seconds_until_full == Approx(7.0 * 1024).epsilon(0.05));
  const JudgedRow* const streams = row_of_kind(rows, "stream");
  REQUIRE(streams != nullptr);
  CHECK(streams->row->objects);
  CHECK(streams->judgement.verdict == WatchVerdict::kLeaking);
  CHECK(streams->judgement.per_minute == Approx(30).epsilon(0.1));
  CHECK_FALSE(streams->seconds_until_full);
  const JudgedRow* const pinned = row_of_kind(rows, "pinned-host");
  REQUIRE(pinned != nullptr);
  CHECK(pinned->judgement.verdict == WatchVerdict::kSteady);
  const JudgedRow* const driver = row_of_kind(rows, "driver-graph-executables");
  REQUIRE(driver != nullptr);
  CHECK(driver->judgement.verdict == WatchVerdict::kLeaking);
  CHECK(driver->judgement.per_minute == Approx(120 << 20).epsilon(0.02));
  const JudgedRow* const context = row_of_kind(rows, "context");
  REQUIRE(context != nullptr);
  CHECK(context->judgement.verdict == WatchVerdict::kSteady);
  const WatchResult result = {{{&watched, rows}}, {}};
  CHECK(outcome_of(result) == WatchOutcome::kLeaking);
}

TEST_CASE("A watched row has the id of the group in a report") {
  Second now(5);
  now.add(now.stack(0x100), Kind::kDevice, 4096, 2);
  WatchedProcess watched = without_symbols();
  now.look(&watched);
  LoadOptions options;
  options.lookup = [](std::vector<ModuleSymbols>&) {};
  const std::vector<char>& bytes = now.builder().bytes();
  const Report report = load_report(Dump::from_bytes(bytes.data(), bytes.size(), "test"), options);
  REQUIRE(report.leaks.size() == 1);
  CHECK(watched.judge(0).front().row->id == report.leaks.front().id);
}

TEST_CASE("While recording is off the watch takes no sample, and it ends with the process") {
  WatchedProcess watched = without_symbols();
  CHECK(Second(1).look(&watched) == WatchedProcess::Look::kSampled);
  Second off(2);
  off.builder().header().recording_state = RecordingState::kOff;
  CHECK(off.look(&watched) == WatchedProcess::Look::kOff);
  Second exiting(3);
  exiting.builder().header().process_state = ProcessState::kExiting;
  CHECK(exiting.look(&watched) == WatchedProcess::Look::kEnded);
  CHECK(watched.history().samples() == 1);
}

TEST_CASE("NVML's figure for the device says when it is full") {
  WatchedProcess watched = without_symbols();
  const std::string uuid = "GPU-00000000-0000-0000-0000-000000000000";
  for (std::uint64_t second = 1; second <= 60; ++second) {
    Second now(second);
    const Ref leaking = now.stack(0x100);
    for (std::uint64_t born = 1; born <= second; ++born) now.add(leaking, Kind::kDevice, 1 << 20, born);
    now.look(&watched, {{uuid, {4ULL << 30, std::nullopt}}});
  }
  const std::vector<JudgedRow> rows = watched.judge(0);
  REQUIRE(rows.front().seconds_until_full);
  CHECK_FALSE(rows.front().at_most);
  CHECK(*rows.front().seconds_until_full == Approx(4.0 * 1024).epsilon(0.05));
  CHECK(watched.judge(1e12).front().judgement.verdict == WatchVerdict::kSteady);
}

TEST_CASE("A watch that warms up, or that missed something, does not know") {
  WatchedProcess watched = without_symbols();
  for (std::uint64_t second = 1; second <= 10; ++second) {
    Second now(second);
    const Ref growing = now.stack(0x100);
    for (std::uint64_t born = 1; born <= second; ++born) now.add(growing, Kind::kDevice, 4096, born);
    now.look(&watched);
  }
  WatchResult result = {{{&watched, watched.judge(0)}}, {}};
  CHECK(outcome_of(result) == WatchOutcome::kNotKnown);
  result.processes.clear();
  CHECK(outcome_of(result) == WatchOutcome::kSteady);
  result.reasons.emplace_back("a reason");
  CHECK(outcome_of(result) == WatchOutcome::kNotKnown);
}

TEST_CASE("The words of a rate and of a long time") {
  WatchedRow row;
  CHECK(rate_text(row, 1 << 20) == "+1.00 MiB/min");
  CHECK(rate_text(row, -2048) == "-2.00 KiB/min");
  row.objects = true;
  CHECK(rate_text(row, 2.5) == "+2.5 objects/min");
  CHECK(long_time_text(30) == "30 s");
  CHECK(long_time_text(600) == "10 min");
  CHECK(long_time_text(7200) == "2.0 h");
  CHECK(long_time_text(86400.0 * 40) == "40 days");
  CHECK(long_time_text(1e12) == "years");
}

TEST_CASE("Rows of a watched process beyond its room are left out and counted") {
  WatchedProcess watched = without_symbols();
  watched.limit_rows(2);
  // Without symbols, rows of one kind have one id.
  const std::vector<Kind> kinds = {Kind::kDevice, Kind::kManaged, Kind::kPitched, Kind::kArray, Kind::kPinnedHost};
  Second now(1);
  for (const Kind kind : kinds) now.add(now.stack(0x100), kind, 4096, 1);
  CHECK(now.look(&watched) == WatchedProcess::Look::kSampled);
  CHECK(watched.judge(0).size() == 2);
  CHECK(watched.left_out() == 3);
  watched.limit_rows(WatchedProcess::kMostRows + 1);
  Second later(2);
  for (const Kind kind : kinds) later.add(later.stack(0x100), kind, 4096, 1);
  later.add(later.stack(0x100), Kind::kStream, 0, 2);
  CHECK(later.look(&watched) == WatchedProcess::Look::kSampled);
  CHECK(watched.judge(0).size() == 3);
}

TEST_CASE("The idle bytes of a heap, and those outside of its largest hole, are rows of a watched process") {
  constexpr std::uint64_t kMiB = 1 << 20;
  WatchedProcess watched = without_symbols();
  Second now(1);
  const Ref pool = now.stack(0x100);
  const Ref piece = now.stack(0x200);
  const auto add = [&](Ref stack, Kind kind, std::uint64_t address, std::uint64_t bytes) {
    AllocationRecord record = {};
    record.state = 1U << kStateBits | static_cast<std::uint32_t>(AllocationState::kLive);
    record.stack = stack;
    record.handle = address;
    record.bytes = bytes;
    record.time_ns = kSecond;
    record.kind = kind;
    now.builder().add_allocation(record);
  };
  // Two allocations of 64 MiB: with holes of 16 and 24 MiB, and with one of 40 MiB.
  for (const std::uint64_t begin : {1ULL << 32, 2ULL << 32}) add(pool, Kind::kDevice, begin, 64 * kMiB);
  add(piece, Kind::kRegion, 1ULL << 32, 16 * kMiB);
  add(piece, Kind::kRegion, (1ULL << 32) + 32 * kMiB, 8 * kMiB);
  add(piece, Kind::kRegion, 2ULL << 32, 24 * kMiB);
  CHECK(now.look(&watched) == WatchedProcess::Look::kSampled);
  const std::vector<JudgedRow> rows = watched.judge(0);
  CHECK(rows.size() == 4);
  const JudgedRow* const idle = row_of_kind(rows, "heap-idle");
  REQUIRE(idle != nullptr);
  CHECK(idle->live == 80 * kMiB);
  CHECK_FALSE(idle->row->objects);
  const JudgedRow* const scattered = row_of_kind(rows, "heap-scattered");
  REQUIRE(scattered != nullptr);
  CHECK(scattered->live == 16 * kMiB);
  const JudgedRow* const regions = row_of_kind(rows, "region");
  REQUIRE(regions != nullptr);
  CHECK(regions->live == 48 * kMiB);
  CHECK(idle->row->id != scattered->row->id);
  CHECK(idle->row->id != row_of_kind(rows, "device")->row->id);
}
