// The formats of profilers whose readers are programs: what of a report is in them, hostile numbers, several processes.
// formats_test.py reads the golden files with those programs' own schemas.
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "report/merge/report_merger.h"
#include "report/render/formats.h"
#include "report/render/pickle.h"
#include "report/render/render_memory_viz.h"
#include "report/render/render_perfetto.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/in_format.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// The fields of a message: numbers, and texts or messages, by field.
struct ProtobufFields {
  std::multimap<unsigned, std::uint64_t> numbers;
  std::multimap<unsigned, std::string> texts;

  explicit ProtobufFields(const std::string& bytes) {
    std::size_t at = 0;
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (unsigned shift = 0; at < bytes.size(); shift += 7) {
        const auto one = static_cast<unsigned char>(bytes[at++]);
        value |= std::uint64_t{one & 0x7fU} << shift;
        if (one < 0x80) break;
      }
      return value;
    };
    while (at < bytes.size()) {
      const std::uint64_t tag = varint();
      if ((tag & 7) == 0) {
        numbers.emplace(tag >> 3, varint());
      } else {
        REQUIRE((tag & 7) == 2);
        const std::uint64_t size = varint();
        REQUIRE(size <= bytes.size() - at);
        texts.emplace(tag >> 3, bytes.substr(at, size));
        at += size;
      }
    }
  }
  std::uint64_t number(unsigned field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
  std::string text(unsigned field) const {
    const auto found = texts.find(field);
    return found == texts.end() ? "" : found->second;
  }
};

struct TraceEvent {
  std::uint64_t time;
  std::uint64_t type;
  std::string track;
  std::string name;
  std::uint64_t value;
};

// The events of a trace in their order, and the names of its tracks.
struct Trace {
  std::map<std::uint64_t, std::string> tracks;
  std::vector<std::uint64_t> pids;
  std::vector<TraceEvent> events;

  explicit Trace(const std::string& bytes) {
    const ProtobufFields all(bytes);
    for (const auto& [field, packet_bytes] : all.texts) {
      const ProtobufFields packet(packet_bytes);
      if (packet.texts.count(60) != 0) {
        const ProtobufFields track(packet.text(60));
        CHECK(tracks.emplace(track.number(1), track.text(2)).second);
        if (track.texts.count(3) != 0) pids.push_back(ProtobufFields(track.text(3)).number(1));
      }
      if (packet.texts.count(11) == 0) continue;
      const ProtobufFields event(packet.text(11));
      events.push_back(
          {packet.number(8), event.number(9), tracks.at(event.number(11)), event.text(23), event.number(30)});
    }
  }
  std::vector<TraceEvent> of(const std::string& track) const {
    std::vector<TraceEvent> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const TraceEvent& event) { return event.track == track; });
    return found;
  }
};

std::string in_perfetto(const std::vector<Report>& reports, std::vector<std::string>* left_out = nullptr) {
  RenderOptions options;
  options.left_out = left_out;
  std::ostringstream out;
  render_perfetto(reports, options, out);
  return out.str();
}

std::string in_memory_viz(const std::vector<Report>& reports, std::vector<std::string>* left_out = nullptr) {
  RenderOptions options;
  options.left_out = left_out;
  std::ostringstream out;
  render_memory_viz(reports, options, out);
  return out.str();
}

// A leak of a rank, with single allocations.
Report rank_with_leak(std::uint32_t rank, std::uint32_t pid) {
  Program program;
  program.dump.header().pid = pid;
  program.dump.header().rank = rank + 1;
  AllocationRecord record = live_allocation(program.stack({"keep", "main"}), 4096);
  record.time_ns = 1000;
  program.dump.add_allocation(record);
  record.handle += 4096;
  record.time_ns = 3000;
  program.dump.add_allocation(record);
  LoadOptions options;
  options.each = true;
  return report_of(program.dump, program.symbols, options);
}

std::vector<Report> merged_job() {
  ReportMerger merger;
  merger.add(rank_with_leak(0, 100));
  merger.add(rank_with_leak(1, 101));
  std::vector<Report> job;
  job.push_back(merger.finish(false));
  return job;
}

std::string pickled(void (*write)(PickleWriter*)) {
  std::ostringstream out;
  PickleWriter pickle(out);
  write(&pickle);
  pickle.finish();
  return out.str();
}

}  // namespace

TEST_CASE("perfetto: a leak is a slice from its first to its last allocation", "[report][trace]") {
  Report report = rank_with_leak(0, 100);
  report.process.start_realtime_ns = 5000000;
  const Trace trace(in_perfetto({report}));
  const std::vector<TraceEvent> slices = trace.of("not freed");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].name == "app.cu:10  keep");
  CHECK(slices[0].time == 5001000);
  CHECK(slices[1].time == 5003000);
  CHECK((slices[0].type == 1 && slices[1].type == 2));
}

TEST_CASE("perfetto: marks, use and what the driver said stand at their times", "[report][trace]") {
  Program program;
  program.dump.add_mark("epoch", MarkKind::kMark, 7000);
  program.dump.add_mark("forward", MarkKind::kRange, 8000);
  DeviceRecord device = {};
  device.state = 1;
  device.first = {100, 900, 1000};
  device.exit = {20000, 300, 1000};
  program.dump.add_device(device);
  TimeLineRecord line = {};
  line.state = 2;
  line.used = 2;
  line.bucket_ns = 10000;
  line.buckets[0] = {0, 50, 40};
  line.buckets[1] = {30, 60, 45};
  program.dump.add_time_line(line);
  Report report = program.report();
  report.process.start_realtime_ns = 0;
  report.process.end_time_ns = 15000;
  const Trace trace(in_perfetto({report}));
  CHECK(trace.of("marks").at(0).name == "epoch");
  CHECK(trace.of("marks").at(0).time == 7000);
  CHECK(trace.of("NVTX ranges").at(0).time == 8000);
  const std::vector<TraceEvent> high = trace.of("GPU 0: live bytes, highest");
  REQUIRE(high.size() == 3);
  CHECK((high[0].value == 50 && high[1].value == 60 && high[2].value == 45));
  CHECK((high[0].time == 0 && high[1].time == 10000 && high[2].time == 15000));
  CHECK(trace.of("GPU 0: live bytes, lowest").at(0).value == 0);
  const std::vector<TraceEvent> in_use = trace.of("GPU 0: in use, all processes (driver)");
  REQUIRE(in_use.size() == 2);
  CHECK((in_use[0].value == 100 && in_use[1].value == 700));
}

TEST_CASE("perfetto: times and sizes of a damaged dump stay in range and in order", "[report][trace]") {
  constexpr std::uint64_t kMost = ~0ULL;
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{1700000000000000000}, kMost}) {
    Report report = rank_with_leak(0, 100);
    report.process.start_realtime_ns = start;
    report.process.end_time_ns = kMost;
    report.leaks[0].first_ns = kMost;
    report.leaks[0].last_ns = 1;
    report.marks.push_back({"late", MarkKind::kMark, kMost, 3, kMost});
    DeviceInfo device;
    device.first = {kMost, 5, kMost};
    device.peak = {1, kMost, 5};
    device.time_line.bucket_ns = kMost;
    device.time_line.buckets = {{kMost, kMost, kMost}, {0, 0, 0}};
    report.devices = {device};
    const Trace trace(in_perfetto({report}));
    std::uint64_t before = 0;
    for (const TraceEvent& event : trace.events) {
      CHECK(event.time >= before);
      CHECK(event.time >> 63 == 0);
      CHECK(event.value >> 63 == 0);
      before = event.time;
    }
    CHECK(trace.of("not freed").size() == 2);
  }
}

TEST_CASE("perfetto: each process has a track and a pid of its own", "[report][trace]") {
  // Containers have the same pids.
  const Trace trace(in_perfetto({rank_with_leak(0, 7), rank_with_leak(1, 7), rank_with_leak(2, 0)}));
  REQUIRE(trace.pids.size() == 3);
  CHECK(trace.pids[0] == 7);
  for (std::size_t i = 1; i < 3; ++i) CHECK(trace.pids[i] > 1 << 22);
  CHECK(trace.pids[1] != trace.pids[2]);
  CHECK(trace.of("not freed").size() == 6);
}

TEST_CASE("perfetto: a merged report has the share of each process", "[report][trace]") {
  const std::vector<Report> job = merged_job();
  std::vector<std::string> left_out;
  const Trace trace(in_perfetto(job, &left_out));
  CHECK(trace.pids == std::vector<std::uint64_t>{100, 101});
  CHECK(trace.of("not freed").size() == 4);
  REQUIRE(left_out.size() == 1);
  CHECK(has(left_out[0], "no use over time"));
}

TEST_CASE("perfetto: the first stacks only, with a message", "[report][trace]") {
  Report report = rank_with_leak(0, 100);
  const Group group = report.leaks[0];
  report.leaks.assign(1001, group);
  std::vector<std::string> left_out;
  const Trace trace(in_perfetto({report}, &left_out));
  CHECK(trace.of("not freed").size() == 2000);
  REQUIRE(left_out.size() == 1);
  CHECK(has(left_out[0], "of the 1001 stacks of rank 0: "));
}

TEST_CASE("memory-viz: single allocations are loaded for this format only", "[report][trace]") {
  CHECK(rank_with_leak(0, 100).leaks.at(0).each.size() == 2);
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"keep"}), 4096));
  CHECK(program.report().leaks.at(0).each.empty());
}

TEST_CASE("memory-viz: memory of GPUs only, and memory without an address behind all other", "[report][trace]") {
  Program program;
  const Ref stack = program.stack({"keep"});
  program.dump.add_allocation(live_allocation(stack, 4096, Kind::kPinnedHost));
  program.dump.add_allocation(live_allocation(stack, 0, Kind::kStream));
  LoadOptions options;
  options.each = true;
  CHECK_FALSE(has(in_memory_viz({report_of(program.dump, program.symbols, options)}), "active_allocated"));
  const std::string first("\x8a\7\0\0\0\0\0\0\x10", 9), second("\x8a\7\0\0\x20\0\0\0\x10", 9);
  // The driver's objects for arrays lie closer together than the arrays are large.
  AllocationRecord array = live_allocation(stack, 2 << 20, Kind::kArray);
  program.dump.add_allocation(array);
  array.handle += 64;
  program.dump.add_allocation(array);
  const std::string two = in_memory_viz({report_of(program.dump, program.symbols, options)});
  CHECK((has(two, first) && has(two, second)));
  // A damaged dump may have more bytes than there are addresses.
  array.bytes = ~0ULL;
  for (int i = 0; i < 3; ++i) program.dump.add_allocation(array);
  CHECK(has(in_memory_viz({report_of(program.dump, program.symbols, options)}), "active_allocated"));
}

TEST_CASE("memory-viz: a merged report has no single allocations, and a message says so", "[report][trace]") {
  const std::vector<Report> job = merged_job();
  std::vector<std::string> left_out;
  in_memory_viz(job, &left_out);
  REQUIRE(left_out.size() == 1);
  CHECK(has(left_out[0], "memory-viz: 4 allocations are left out"));
  left_out.clear();
  const std::string apart = in_memory_viz({rank_with_leak(0, 100), rank_with_leak(1, 101)}, &left_out);
  CHECK(left_out.empty());
  CHECK(has(apart, "rank 1, process 101 on"));
  CHECK_FALSE(has(in_memory_viz({rank_with_leak(0, 100)}), "process 100 on"));
}

TEST_CASE("the ranks of a job stay apart in the formats that have times and addresses", "[report][trace]") {
  const TemporaryFolder folder;
  std::string dumps;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Program program;
    program.dump.header().pid = 100 + rank;
    program.dump.header().rank = rank + 1;
    program.dump.header().hook_calls = 1;
    program.dump.add_allocation(live_allocation(program.stack({"keep"}), 4096));
    program.dump.write(folder.file(std::to_string(rank) + ".dump"));
    dumps += " " + folder.file(std::to_string(rank) + ".dump");
  }
  CHECK(Trace(shell("CULPRIT report --format perfetto" + dumps + " 2>/dev/null").out).pids.size() == 2);
  CHECK(has(shell("CULPRIT report --format memory-viz" + dumps + " 2>/dev/null").out, "rank 1, process 101"));
  const std::string merged = folder.file("merged.pickle");
  CHECK(has(shell("CULPRIT report --merge -o " + merged + dumps + " 2>&1").out, "2 allocations are left out"));
}

TEST_CASE("a pickle has the codes of protocol 2", "[report][trace]") {
  CHECK(pickled([](PickleWriter* pickle) { pickle->number(255); }) == "\x80\x02K\xff.");
  CHECK(pickled([](PickleWriter* pickle) { pickle->number(256); }) == std::string("\x80\x02M\0\1.", 6));
  CHECK(pickled([](PickleWriter* pickle) { pickle->number(0x7fffffff); }) == "\x80\x02J\xff\xff\xff\x7f.");
  CHECK(pickled([](PickleWriter* pickle) { pickle->number(0x80000000); }) ==
        std::string("\x80\x02\x8a\5\0\0\0\x80\0.", 10));
  CHECK(pickled([](PickleWriter* pickle) { pickle->number(~0ULL); }) ==
        std::string("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0.", 14));
  CHECK(pickled([](PickleWriter* pickle) {
          pickle->begin_list();
          pickle->end_list(0);
        }) == "\x80\x02].");
}
