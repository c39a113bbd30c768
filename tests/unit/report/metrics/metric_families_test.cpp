// The metrics of a process: their series, their limits, and the two formats.
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "report/metrics/exposition.h"
#include "report/metrics/process_sample.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::format;
using namespace culprit::report;
using culprit::test::DumpBuilder;
using culprit::test::has;
using culprit::test::live_allocation;
using culprit::test::Program;

namespace {

// The values by name and labels. Fails for a line that is none of the format, and for a series that is there twice.
std::map<std::string, std::string> series_in(const std::string& text) {
  std::map<std::string, std::string> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t blank = line.rfind(' ');
    REQUIRE(blank != std::string::npos);
    INFO(line);
    CHECK(result.emplace(line.substr(0, blank), line.substr(blank + 1)).second);
  }
  return result;
}

std::map<std::string, std::string> series_of(const ProcessSample& sample) {
  Observation observation;
  observation.processes.push_back(sample);
  return series_in(exposition_of(observation).prometheus);
}

std::size_t series_named(const std::map<std::string, std::string>& series, const std::string& name) {
  std::size_t count = 0;
  for (const auto& [key, value] : series) count += key.compare(0, name.size() + 1, name + "{") == 0 ? 1 : 0;
  return count;
}

ProcessSample sample_in(Program& program, const SampleLimits& limits = {}) {
  return sample_of(program.report(), GpuUsers(), limits);
}

AllocationRecord on_device(AllocationRecord record, std::uint8_t device) {
  record.device = device;
  return record;
}

}  // namespace

TEST_CASE("memory becomes series by device, kind and cause, and by stack", "[report][metrics]") {
  Program program;
  const Ref step = program.stack({"step", "main"}, 31);
  program.dump.add_allocation(on_device(live_allocation(step, 4096), 0));
  program.dump.add_allocation(on_device(live_allocation(step, 1000), 1));
  program.dump.add_allocation(live_allocation(program.stack({"pin"}), 64, Kind::kPinnedHost));
  program.dump.header().allocations = 7;
  program.dump.header().frees = 4;
  program.dump.header().dropped_stacks = 2;
  auto series = series_of(sample_in(program));
  CHECK(series["culprit_live_bytes{pid=\"4242\",device=\"0\",kind=\"device\",cause=\"never-freed\"}"] == "4096");
  CHECK(series["culprit_live_bytes{pid=\"4242\",device=\"1\",kind=\"device\",cause=\"never-freed\"}"] == "1000");
  CHECK(series["culprit_live_allocations{pid=\"4242\",device=\"1\",kind=\"device\",cause=\"never-freed\"}"] == "1");
  CHECK(series_named(series, "culprit_live_bytes") == 3);
  CHECK(series["culprit_allocations_total{pid=\"4242\"}"] == "7");
  CHECK(series["culprit_frees_total{pid=\"4242\"}"] == "4");
  CHECK(series["culprit_not_recorded_events_total{pid=\"4242\"}"] == "2");
  CHECK(series["culprit_process_up{pid=\"4242\"}"] == "1");
  CHECK(series["culprit_process_running{pid=\"4242\"}"] == "0");
  // Both devices have the id of one leak: one series.
  CHECK(series_named(series, "culprit_stack_bytes") == 3);
  const std::string id = program.report().leaks.at(0).id;
  CHECK(series["culprit_stack_bytes{pid=\"4242\",id=\"" + id + "\",function=\"step\",place=\"app.cu:31\"}"] == "5096");
  CHECK(series["culprit_stack_bytes{pid=\"4242\",id=\"other\",function=\"other\",place=\"\"}"] == "0");
}

TEST_CASE("memory of caching allocators is cached and not live", "[report][metrics]") {
  Program program;
  const std::string c10 = "/venv/torch/lib/libc10_cuda.so";
  const std::uint32_t module = program.dump.add_module(c10);
  const Ref stack = program.dump.add_stack(
      {program.frame(c10, module, "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::alloc_block", 0),
       program.frame("/bin/app", program.module, "forward", 77)});
  program.dump.add_allocation(on_device(live_allocation(stack, 2 << 20), 0));
  auto series = series_of(sample_in(program));
  CHECK(series["culprit_cached_bytes{pid=\"4242\",device=\"0\",kind=\"device\"}"] == "2097152");
  CHECK(series["culprit_cached_segments{pid=\"4242\",device=\"0\",kind=\"device\"}"] == "1");
  CHECK(series_named(series, "culprit_live_bytes") == 0);
  CHECK(series_named(series, "culprit_stack_bytes") == 2);
}

TEST_CASE("names in labels are escaped, printable and of limited length", "[report][metrics]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"say(\"hi\")\\\n\x1b[31m\xff"}), 64));
  program.dump.add_allocation(live_allocation(program.stack({std::string(5000, 'x') + "\xc3\xa4"}), 32));
  Observation observation;
  observation.processes.push_back(sample_in(program));
  const std::string text = exposition_of(observation).prometheus;
  series_in(text);
  CHECK(has(text, "function=\"say(\\\"hi\\\")\\\\??[31m?\""));
  CHECK(has(text, "function=\"" + std::string(200, 'x') + "\""));
  CHECK_FALSE(has(text, std::string(201, 'x')));
}

TEST_CASE("a process has a limited number of series, whose sums are complete", "[report][metrics]") {
  constexpr int kStacks = 500;
  Program program;
  std::uint64_t bytes = 0;
  for (int i = 0; i < kStacks; ++i) {
    const std::uint64_t size = 1000 + static_cast<std::uint64_t>(i);
    program.dump.add_allocation(
        on_device(live_allocation(program.stack({"f" + std::to_string(i)}), size), static_cast<std::uint8_t>(i % 100)));
    bytes += size;
  }
  SampleLimits limits;
  limits.stacks = GENERATE(0, 1, 20, 1000);
  limits.series = 10;
  const ProcessSample sample = sample_in(program, limits);
  CHECK(sample.stacks.size() == std::min<std::size_t>(limits.stacks, kStacks) + 1);
  CHECK(sample.stacks.back().id == "other");
  CHECK(sample.live.size() == limits.series + 1);
  std::uint64_t of_stacks = 0;
  std::uint64_t of_live = 0;
  std::uint64_t count = 0;
  for (const StackSum& sum : sample.stacks) of_stacks += sum.bytes;
  for (const MemorySum& sum : sample.live) {
    of_live += sum.bytes;
    count += sum.count;
  }
  CHECK(of_stacks == bytes);
  CHECK(of_live == bytes);
  CHECK(count == kStacks);
  if (limits.stacks == 1) CHECK(sample.stacks.front().bytes == 1000 + kStacks - 1);
  auto series = series_of(sample);
  CHECK(series.count("culprit_live_bytes{pid=\"4242\",device=\"other\",kind=\"other\",cause=\"other\"}") == 1);
}

TEST_CASE("a device that a dump names twice has one series", "[report][metrics]") {
  Program program;
  DeviceRecord record = {};
  record.state = 1;
  record.uuid[0] = 7;
  program.dump.add_device(record);
  program.dump.add_device(record);
  CHECK(series_named(series_of(sample_in(program)), "culprit_device_info") == 1);
}

TEST_CASE("a process that cannot be read has one series", "[report][metrics]") {
  Observation observation;
  observation.left_out = 3;
  ProcessSample unreadable;
  unreadable.pid = 7;
  observation.processes.push_back(unreadable);
  auto series = series_in(exposition_of(observation).prometheus);
  CHECK(series["culprit_process_up{pid=\"7\"}"] == "0");
  CHECK(series["culprit_processes_left_out"] == "3");
  CHECK(series.size() == 4);
  CHECK(series_in(exposition_of(Observation()).prometheus).size() == 3);
}

TEST_CASE("the formats have the same series", "[report][metrics]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"# TYPE culprit_frees_total counter"}), 64));
  Observation observation;
  observation.processes.push_back(sample_in(program));
  const Exposition text = exposition_of(observation);
  CHECK(series_in(text.prometheus) == series_in(text.openmetrics));
  CHECK(has(text.prometheus, "# TYPE culprit_frees_total counter\nculprit_frees_total{"));
  CHECK(has(text.openmetrics, "# TYPE culprit_frees counter\nculprit_frees_total{"));
  CHECK(has(text.openmetrics, "# HELP culprit_frees Frees"));
  CHECK(has(text.openmetrics, "function=\"# TYPE culprit_frees_total counter\""));
  CHECK(text.openmetrics.substr(text.openmetrics.size() - 7) == "\n# EOF\n");
  CHECK_FALSE(has(text.prometheus, "# EOF"));
}

TEST_CASE("OpenMetrics is for clients that ask for it", "[report][metrics]") {
  CHECK(accepts_openmetrics("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"));
  CHECK_FALSE(accepts_openmetrics("text/plain;version=0.0.4"));
  CHECK_FALSE(accepts_openmetrics(""));
}

TEST_CASE("verdicts of watch become series of rows, in bytes and in objects", "[report][metrics]") {
  Program program;
  ProcessSample sample = sample_in(program);
  for (const auto& [key, value] : series_of(sample)) {
    INFO(key);
    CHECK_FALSE(has(key, "culprit_row"));
    CHECK_FALSE(has(key, "culprit_watched"));
  }
  // Before any verdict is known, the number of looks says so.
  sample.watched_looks = 3;
  CHECK(series_of(sample)["culprit_watched_looks{pid=\"4242\"}"] == "3");
  CHECK(series_named(series_of(sample), "culprit_rows") == 0);
  sample.verdicts = {{"leaking", 2}, {"steady", 0}};
  sample.watched = {{"1f", "device", "step", "solver.cu:31", "leaking", false, 1048576.5},
                    {"2f", "stream", "begin", "queue.cu:5", "leaking", true, 12}};
  sample.watched_seconds = 60;
  sample.watched_looks = 30;
  sample.not_watched = 3;
  auto series = series_of(sample);
  CHECK(series["culprit_rows{pid=\"4242\",verdict=\"leaking\"}"] == "2");
  CHECK(series["culprit_rows{pid=\"4242\",verdict=\"steady\"}"] == "0");
  CHECK(series["culprit_rows_left_out{pid=\"4242\"}"] == "3");
  CHECK(series["culprit_watched_seconds{pid=\"4242\"}"] == "60");
  CHECK(series["culprit_watched_looks{pid=\"4242\"}"] == "30");
  const std::string device = "id=\"1f\",kind=\"device\",function=\"step\",place=\"solver.cu:31\"";
  CHECK(series["culprit_row_verdict{pid=\"4242\"," + device + ",verdict=\"leaking\"}"] == "1");
  CHECK(series["culprit_row_bytes_per_minute{pid=\"4242\"," + device + "}"] == "1048576.5");
  CHECK(series_named(series, "culprit_row_bytes_per_minute") == 1);
  CHECK(series_named(series, "culprit_row_objects_per_minute") == 1);
}
