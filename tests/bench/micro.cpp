// Measures parts of the hot path separately, with Google Benchmark. Prints "row=nanoseconds" like the other programs.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "interpose/dump/live_table.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/stack_table.h"
#include "interpose/system/clock.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

constexpr int kFrames = 32;

// A dump of its own for each measurement.
struct Tracker {
  Tracker() {
    if (dump->start(folder.file("micro.dump").c_str()) == 0) return;
    std::fprintf(stderr, "micro: the dump cannot be created\n");
    std::exit(3);
  }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
};

// add, take and retire of one allocation while `live` others exist.
void live_table(benchmark::State& state) {
  Tracker tracker;
  Zeroed<LiveTable> table;
  Zeroed<ThreadRecords> own;
  prepare_to_meet_threads();
  table->start_young();
  table->begin_thread(&*own);
  format::AllocationRecord record = {};
  record.kind = format::Kind::kStreamOrdered;
  record.bytes = 4096;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    record.handle = 0x700000000000 + static_cast<std::uint64_t>(i) * 4096;
    table->add(record, *tracker.dump, &*own);
  }
  record.handle = 0x600000000000;
  const std::uint8_t space = static_cast<std::uint8_t>(space_of(record.kind));
  for (auto _ : state) {
    table->add(record, *tracker.dump, &*own);
    format::Ref ref = table->take(
        space, record.handle, [] { return std::uint8_t{0}; }, *tracker.dump, &*own);
    if (ref == 0) state.SkipWithError("the allocation was not found");
    table->retire(ref, *tracker.dump, {}, &*own);
  }
}

void stack_memo(benchmark::State& state) {
  Zeroed<StackMemo> memo;
  static std::uint64_t words[8 * kFrames + 16];
  StackChecks checks = {};
  checks.complete = true;
  for (int i = 0; i < kFrames; ++i) checks.slots[checks.count++] = reinterpret_cast<std::uint64_t>(&words[4 + 8 * i]);
  for (std::uint64_t i = 0; i < std::size(words); ++i) words[i] = 1000 + i;
  memo->remember(words, 1, 42, 7, checks);
  std::uint32_t path = 0;
  for (auto _ : state) {
    if (memo->look_up(words, 1, &path) != 42) state.SkipWithError("the stack was not known");
  }
}

void stack_table(benchmark::State& state) {
  Tracker tracker;
  Zeroed<ModuleTable> modules;
  Zeroed<StackTable> stacks;
  RawStack stack = {};
  for (int i = 0; i < kFrames; ++i) {
    stack.frames[stack.count++] = reinterpret_cast<std::uint64_t>(&capture_stack) + 4 + static_cast<std::uint64_t>(i);
  }
  const format::Ref known = stacks->intern(stack, *modules, *tracker.dump, nullptr);
  for (auto _ : state) {
    if (stacks->intern(stack, *modules, *tracker.dump, nullptr) != known) state.SkipWithError("another stack");
  }
}

void clock_now(benchmark::State& state) {
  static Clock clock;
  clock.start();
  EventTimes times = {};
  for (auto _ : state) benchmark::DoNotOptimize(clock.event(&times));
}

class Printer : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) {
        std::fprintf(stderr, "micro: %s: %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
        std::exit(3);
      }
      std::printf("%s=%.3f\n", run.run_name.function_name.c_str(), run.GetAdjustedCPUTime());
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("micro_live_empty", live_table)->Arg(0);
  benchmark::RegisterBenchmark("micro_live_full", live_table)->Arg(1000000);
  benchmark::RegisterBenchmark("micro_memo", stack_memo);
  benchmark::RegisterBenchmark("micro_intern", stack_table);
  benchmark::RegisterBenchmark("micro_clock", clock_now);
  benchmark::Initialize(&argc, argv);
  Printer printer;
  benchmark::RunSpecifiedBenchmarks(&printer);
  return 0;
}
