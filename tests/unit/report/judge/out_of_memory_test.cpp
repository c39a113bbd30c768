// Failures with out of memory, explained: each rule of would_fit.def, and the lines that held memory.
#include "report/judge/out_of_memory.h"
#include "report/judge/explainer.h"

#include "report/judge/python_caches.h"
#include "report/judge/would_fit.h"
#include "report/model/frames.h"
#include "report/model/report.h"
#include "tests/catch.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::has;

namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

// A device of 80 GiB with `free_bytes`, of which `asked` were asked for.
struct Failure : OutOfMemory {
  Failure(std::uint64_t asked, std::uint64_t free_bytes) {
    own_breakdown.out_of_memory = true;
    own_breakdown.device = 0;
    own_breakdown.asked_bytes = asked;
    own_breakdown.memory = {1, free_bytes, 80 * kGiB};
    breakdown = &own_breakdown;
    balance = &own_balance;
    missing = asked > free_bytes ? asked - free_bytes : 0;
    own_balance.items = {{BalancePart::kRest, 0}};
  }
  void add_line(const std::string& file, std::uint64_t bytes) {
    HolderLine line;
    line.what = LineOf::kTensors;
    line.file = file;
    line.line = 7;
    line.bytes = bytes;
    line.count = 1;
    lines.push_back(line);
  }
  std::string explained() {
    choose_rule(this);
    return std::string(rule) + ": " + would_fit;
  }
  Breakdown own_breakdown;
  Balance own_balance;
  CacheInside cache;
};

}  // namespace

TEST_CASE("each rule names what would have been enough", "[out-of-memory]") {
  CHECK(has(Failure(81 * kGiB, 9 * kGiB).explained(), "never: would never have fit: the request is larger than GPU 0"));
  CHECK(has(Failure(9 * kGiB, 9 * kGiB).explained(), "had-room: would have fit: 9.00 GiB were free"));
  Failure unknown(9 * kGiB, kGiB);
  unknown.own_breakdown.memory = {};
  CHECK(has(unknown.explained(), "not-known: "));
  Failure launch(0, kGiB);
  launch.own_breakdown.api = "cuGraphLaunch";
  launch.add_line("hog.py", 40 * kGiB);
  launch.idle = {{"idle in the default pool", BalancePart::kPoolReserve, 2 * kGiB, nullptr}};
  CHECK(launch.explained() ==
        "not-known: whether it would have fit is not known: cuGraphLaunch does not say how much memory it needs, and "
        "1.00 GiB were free; 2.00 GiB were idle in the default pool");

  Failure lines(10 * kGiB, 4 * kGiB);
  lines.add_line("hog.py", 40 * kGiB);
  lines.add_line("enough.py", 6 * kGiB);
  lines.add_line("small.py", 5 * kGiB);
  CHECK(lines.explained() ==
        "line: would have fit without the 6.00 GiB of enough.py:7, or without the 40.0 GiB of hog.py:7");

  Failure both(20 * kGiB, 4 * kGiB);
  both.add_line("a.py", 9 * kGiB);
  both.add_line("b.py", 8 * kGiB);
  CHECK(has(both.explained(), "lines: would have fit without the 2 largest lines, 17.0 GiB together"));

  Failure others(20 * kGiB, 4 * kGiB);
  others.others_at_most = 60 * kGiB;
  CHECK(has(others.explained(), "other-processes: would have fit without other processes"));
  others.others_at_most = 600 << 20;
  CHECK(has(others.explained(), "empty: would have fit on an empty GPU only"));

  // NVML's list names them, and says more than the bound.
  others.others_at_most = 60 * kGiB;
  others.own_breakdown.charges.resize(1);
  GpuCharges& charges = others.own_breakdown.charges.front();
  charges.others = {{11, "big", true, 30 * kGiB}, {12, "small", true, 20 * kGiB}, {13, "", true, kGiB}};
  CHECK(others.explained() == "other-processes: would have fit without the 20.0 GiB of process 12 (small)");
  charges.others[0].bytes = charges.others[1].bytes = 9 * kGiB;
  CHECK(others.explained() == "other-processes: would have fit without the 3 other processes, which had 19.0 GiB");
  charges.others[1].bytes = kGiB;
  CHECK(has(others.explained(), "empty: would have fit on an empty GPU only"));
  charges.others[1].bytes_known = false;
  CHECK(has(others.explained(), "other-processes: would have fit without other processes: they and"));
  charges.others[0].bytes = 30 * kGiB;
  charges.foreign_numbers = true;  // this process may be number 11
  CHECK(has(others.explained(), "other-processes: would have fit without other processes: they and"));
  charges.foreign_numbers = false;
  charges.problem = "NVML cannot be used";
  CHECK(has(others.explained(), "other-processes: would have fit without other processes: they and"));

  Failure driver(80 * kGiB, 4 * kGiB);
  driver.own_balance.items = {{BalancePart::kLocalMemory, 8LL << 30}, {BalancePart::kRest, 0}};
  CHECK(has(driver.explained(), "never: would never have fit: the request and the driver's own memory, 8.00 GiB"));
  Failure limit(10 * kGiB, 4 * kGiB);
  limit.own_balance.items = {{BalancePart::kLocalMemory, 8LL << 30}, {BalancePart::kRest, 0}};
  CHECK(has(limit.explained(), "driver-memory: would have fit without the 8.00 GiB of local memory of kernels: "));
}

TEST_CASE("idle memory comes before memory in use", "[out-of-memory]") {
  Failure failure(10 * kGiB, 4 * kGiB);
  failure.add_line("hog.py", 40 * kGiB);
  failure.cache.idle = {{IdleReason::kHoles, 5 * kGiB, kGiB}, {IdleReason::kPending, kGiB, 0}};
  failure.idle = {{"PyTorch caching allocator", BalancePart::kCached, 7 * kGiB, &failure.cache}};
  CHECK(has(failure.explained(),
            "idle-cache: would have fit if the 7.00 GiB that are idle in the PyTorch caching allocator were in one "
            "piece: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  failure.cache.idle.front().why = IdleReason::kPrivatePool;
  CHECK(has(failure.explained(), "were not kept for CUDA graphs"));
  failure.idle.front().bytes = 5 * kGiB;
  failure.idle.push_back({"idle in the default pool", BalancePart::kPoolReserve, 2 * kGiB, nullptr});
  CHECK(has(failure.explained(), "all-idle: would have fit without all idle memory, 7.00 GiB in 2 pools and caches"));
  failure.idle.back().bytes = 6 * kGiB;
  CHECK(has(failure.explained(), "trim: would have fit after a trim: 6.00 GiB were idle in the default pool: "));
}

TEST_CASE("allocations are added up by line, with the callers where stacks differ", "[out-of-memory]") {
  Frame line, wrapper, one, other;
  line.function = "Buffer::Buffer";
  wrapper.function = "make_buffer";
  one.function = "hog";
  other.function = "scratch";
  line.place = 1;
  wrapper.place = 2;
  one.place = 3;
  other.place = 4;
  const auto stack_of = [&](const Frame* caller) {
    ResolvedStack stack;
    stack.frames = {&line, &wrapper, caller};
    stack.caller = &line;
    return stack;
  };
  const ResolvedStack large = stack_of(&one), small = stack_of(&other);
  Report report;
  Breakdown breakdown;
  breakdown.out_of_memory = true;
  breakdown.entries = {{&large, "cudaMalloc", culprit::format::Kind::kDevice, 30, 3, ""},
                       {&small, "cudaMalloc", culprit::format::Kind::kDevice, 10, 1, ""}};
  const OutOfMemory failure = Explainer(report).explain(breakdown);
  REQUIRE(failure.lines.size() == 1);
  CHECK(failure.lines[0].bytes == 40);
  CHECK(failure.lines[0].count == 4);
  REQUIRE(failure.lines[0].callers.size() == 2);
  CHECK(failure.lines[0].callers[0].frame == &one);
  CHECK(failure.lines[0].callers[0].bytes == 30);
}

TEST_CASE("tensors take the place of the segments that they lie in", "[out-of-memory]") {
  ResolvedStack segments;
  Report report;
  Breakdown breakdown;
  breakdown.out_of_memory = true;
  breakdown.entries = {{&segments, "cudaMalloc", culprit::format::Kind::kDevice, 100, 5, "PyTorch caching allocator"}};
  CHECK(Explainer(report).explain(breakdown).lines.at(0).what == LineOf::kSegments);
  CacheInside cache;
  cache.pool = "PyTorch caching allocator";
  cache.live_bytes = 90;
  cache.idle_bytes = 10;
  cache.largest = {{40, 2, "train.py", 4, "step", "`a`"}, {30, 1, "train.py", 4, "step", "`b`"}};
  breakdown.caches.push_back(cache);
  const OutOfMemory failure = Explainer(report).explain(breakdown);
  REQUIRE(failure.lines.size() == 2);
  CHECK(failure.lines[0].bytes == 70);
  CHECK(line_place(failure.lines[0]) == "train.py:4  step, held by `a`");
  CHECK(line_place(failure.lines[1]) == "(line not recorded)");
  CHECK(failure.lines[1].bytes == 20);
  REQUIRE(failure.idle.size() == 1);
  CHECK(failure.idle[0].bytes == 10);
}

TEST_CASE("idle memory of a cache has the reason why it did not serve", "[out-of-memory]") {
  PythonView view;
  view.taken = "out-of-memory";
  const auto add = [&](std::uint64_t bytes, std::uint64_t largest, std::uint64_t pending) -> PythonView::Segment& {
    PythonView::Segment segment;
    segment.address = (view.segments.size() + 1) << 40;
    segment.bytes = bytes;
    segment.live_bytes = bytes / 2;
    segment.largest_idle = largest;
    segment.pending_bytes = pending;
    view.segments.push_back(segment);
    return view.segments.back();
  };
  add(20 * kGiB, kGiB, 2 * kGiB);
  add(12 * kGiB, 6 * kGiB, 0);
  add(8 * kGiB, 4 * kGiB, 0).private_pool = true;
  add(6 * kGiB, 1 << 20, 0).small = true;
  add(100 * kGiB, 50 * kGiB, 0).device = 1;
  const std::vector<CacheInside> caches = look_inside_ran_out(view, 0, 5 * kGiB);
  REQUIRE(caches.size() == 1);
  CHECK(caches[0].idle_bytes == 23 * kGiB);
  const std::vector<CacheInside::Idle>& idle = caches[0].idle;
  REQUIRE(idle.size() == 5);
  CHECK((idle[0].why == IdleReason::kHoles && idle[0].bytes == 8 * kGiB && idle[0].largest == kGiB));
  CHECK((idle[1].why == IdleReason::kOtherStream && idle[1].bytes == 6 * kGiB && idle[1].largest == 6 * kGiB));
  CHECK((idle[2].why == IdleReason::kPrivatePool && idle[2].bytes == 4 * kGiB));
  CHECK((idle[3].why == IdleReason::kSmallPool && idle[3].bytes == 3 * kGiB));
  CHECK((idle[4].why == IdleReason::kPending && idle[4].bytes == 2 * kGiB));
  view.taken = "exit";
  CHECK(look_inside_ran_out(view, 0, 5 * kGiB).empty());
}
