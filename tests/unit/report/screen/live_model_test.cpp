// The figures of culprit top: changes, rates, order, filter and groups.
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "report/screen/live_model.h"
#include "report/screen/top_json.h"
#include "tests/catch.h"
#include "tests/support/json.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::format;
using namespace culprit::report;
using culprit::test::live_allocation;
using culprit::test::Program;

namespace {

constexpr std::uint64_t kMibBytes = 1 << 20;

// A program with the live bytes of some functions, at one moment.
LiveProcess process_with(const std::vector<std::pair<std::string, std::uint64_t>>& functions,
                         std::uint32_t pid = 4242) {
  Program program;
  DeviceRecord device = {};
  device.state = 1;
  device.first.total_bytes = 100 * kMibBytes;
  program.dump.add_device(device);
  program.dump.header().pid = pid;
  unsigned line = 10;
  for (const auto& [function, bytes] : functions) {
    AllocationRecord record = live_allocation(program.stack({function, "main"}, line), bytes);
    record.device = 0;
    record.time_ns = 1000000000ULL * line;
    line += 10;
    if (bytes != 0) program.dump.add_allocation(record);
  }
  JudgeOptions judge;
  judge.strict = true;
  LiveProcess process = live_process_of(std::make_shared<Report>(program.report(judge)), GpuUsers());
  process.now_ns = 100000000000ULL;
  return process;
}

LiveLook look_at(double seconds, std::vector<LiveProcess> processes) {
  LiveLook look;
  look.seconds = seconds;
  look.processes = std::move(processes);
  return look;
}

// "a b c": the functions of the rows, in their order.
std::string order_of(const LiveModel& model, const LiveChoice& choice) {
  std::string names;
  for (const LiveRow& row : model.rows(choice)) {
    const std::string& text = row.row->text;
    names += (names.empty() ? "" : " ") + text.substr(text.rfind(' ') == std::string::npos ? 0 : text.rfind(' ') + 1);
  }
  return names;
}

}  // namespace

TEST_CASE("changes count from the first look and from the mark", "[report][screen]") {
  LiveModel model;
  model.add(look_at(0, {process_with({{"a", 8 * kMibBytes}, {"b", kMibBytes}})}));
  model.add(look_at(2, {process_with({{"a", 8 * kMibBytes}, {"b", 3 * kMibBytes}, {"c", 100}})}));
  std::vector<LiveRow> rows = model.rows(LiveChoice());
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].since_start == 0);
  CHECK(rows[1].since_start == 2 * kMibBytes);
  CHECK(rows[2].since_start == 100);
  CHECK_FALSE(rows[1].since_mark);
  CHECK_FALSE(rows[1].per_minute);  // two looks are too few
  model.set_mark();
  model.add(look_at(4, {process_with({{"a", 2 * kMibBytes}, {"b", 5 * kMibBytes}, {"c", 100}, {"d", 64}})}));
  rows = model.rows(LiveChoice());
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].since_start == 4 * kMibBytes);  // b
  CHECK(rows[0].since_mark == std::int64_t{2 * kMibBytes});
  CHECK(rows[1].since_start == -6 * static_cast<std::int64_t>(kMibBytes));
  CHECK(rows[1].since_mark == -6 * static_cast<std::int64_t>(kMibBytes));
  CHECK(rows[3].since_mark == 64);
  CHECK(model.seconds_since_mark() == 2.0);
}

TEST_CASE("a rate is that of the newest looks, and one step does not make it", "[report][screen]") {
  LiveModel model;
  for (int look = 0; look < 100; ++look) {
    const std::uint64_t grown = kMibBytes * static_cast<std::uint64_t>(look + 1);
    const std::uint64_t step = look < 95 ? 8 * kMibBytes : 80 * kMibBytes;
    model.add(look_at(2.0 * look, {process_with({{"grows", grown}, {"steps", step}, {"stays", kMibBytes}})}));
  }
  LiveChoice choice;
  choice.sort = LiveSort::kRate;
  const std::vector<LiveRow> rows = model.rows(choice);
  REQUIRE(rows.size() == 3);
  CHECK(order_of(model, choice).rfind("grows", 0) == 0);
  CHECK(*rows[0].per_minute == Approx(30.0 * kMibBytes));
  CHECK(*rows[1].per_minute == 0);
  CHECK(*rows[2].per_minute == 0);
  const std::vector<LiveDeviceSum> devices = model.devices();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].history.size() == 100);
  CHECK(devices[0].history.back() == 181.0 * kMibBytes);
  CHECK(devices[0].live == 181 * kMibBytes);
}

TEST_CASE("a row that appears late has its rate from nothing", "[report][screen]") {
  LiveModel model;
  for (int look = 0; look < 10; ++look)
    model.add(look_at(look, {process_with({{"base", 100}, {"late", look < 9 ? 0U : 60U}})}));
  LiveChoice choice;
  choice.filter = "late";
  const std::vector<LiveRow> rows = model.rows(choice);
  REQUIRE(rows.size() == 1);
  CHECK(*rows[0].per_minute == 0);
  CHECK(rows[0].since_start == 60);
}

TEST_CASE("rows are sorted by each column, both ways", "[report][screen]") {
  LiveModel model;
  model.add(look_at(0, {process_with({{"old", 30}, {"small", 1}, {"large", 100}})}));
  model.add(look_at(1, {process_with({{"old", 30}, {"small", 50}, {"large", 100}})}));
  LiveChoice choice;
  CHECK(order_of(model, choice) == "large small old");
  choice.reversed = true;
  CHECK(order_of(model, choice) == "old small large");
  choice.reversed = false;
  choice.sort = LiveSort::kSinceStart;
  CHECK(order_of(model, choice) == "small large old");
  choice.sort = LiveSort::kOldest;
  CHECK(order_of(model, choice) == "old small large");
  const std::vector<LiveRow> rows = model.rows(choice);
  CHECK(*rows[0].oldest_seconds == Approx(90));
  CHECK(*rows[2].oldest_seconds == Approx(70));
}

TEST_CASE("rows are filtered by their words, and grouped", "[report][screen]") {
  LiveModel model;
  model.add(look_at(0, {process_with({{"Alpha", 30}, {"beta", 20}}, 11), process_with({{"beta", 5}}, 12)}));
  LiveChoice choice;
  choice.filter = "ALPHA";
  CHECK(order_of(model, choice) == "Alpha");
  choice.filter = "12";  // a process
  CHECK(model.rows(choice).size() == 1);
  choice.filter = "nothing has this";
  CHECK(model.rows(choice).empty());
  choice.filter = "";
  for (const std::string& by : live_groupings()) {
    INFO(by);
    choice.by = by;
    std::uint64_t bytes = 0;
    for (const LiveRow& row : model.rows(choice)) bytes += row.row->total.bytes;
    CHECK(bytes == 55);
  }
  choice.by = "line";
  CHECK(order_of(model, choice) == "app.cu:10 app.cu:20 app.cu:10");
  choice.by = "cause";
  CHECK(order_of(model, choice) == "never-freed never-freed");
  choice.only = model.look().processes.at(1).key;
  CHECK(model.rows(choice).size() == 1);
}

TEST_CASE("calls a second are those between two looks, and never negative", "[report][screen]") {
  LiveModel model;
  LiveProcess process = process_with({{"a", 1}});
  process.allocations = 100;
  process.frees = 90;
  model.add(look_at(0, {process}));
  CHECK_FALSE(model.allocations_per_second());
  process.allocations = 300;
  process.frees = 89;  // read while a thread adds its part
  model.add(look_at(4, {process}));
  CHECK(*model.allocations_per_second() == 50);
  CHECK(*model.frees_per_second() == 0);
}

TEST_CASE("the parts of a device add up", "[report][screen]") {
  LiveDeviceSum device;
  device.live = 100;
  device.in_use = 500;
  device.parts = {{BalancePart::kAllocations, 70},
                  {BalancePart::kCached, 30},
                  {BalancePart::kContexts, 200},
                  {BalancePart::kRest, -5},
                  {BalancePart::kStreams, 10}};
  CHECK(device.allocated() == 70);
  CHECK(device.cached() == 30);
  CHECK(device.driver() == 210);
  CHECK(device.others() == 190);
  device.in_use = 20;  // read at another moment
  CHECK(device.others() == 0);
  device.in_use.reset();
  CHECK(device.others() == 0);
}

TEST_CASE("processes of a GPU without culprit are listed once, by what NVML charges", "[report][screen]") {
  LiveLook look = look_at(0, {process_with({{"a", 1}}, 11)});
  DeviceUsers gpu;
  for (const auto& [pid, bytes] : std::vector<std::pair<std::uint32_t, std::uint64_t>>{{11, 5}, {20, 10}, {30, 40}}) {
    GpuUser user;
    user.pid = user.here = pid;
    user.name = "p" + std::to_string(pid);
    user.bytes = bytes;
    gpu.users.push_back(user);
  }
  look.users.devices = {gpu, gpu};
  LiveModel model;
  model.add(std::move(look));
  const std::vector<LiveProcess> others = model.not_recorded();
  REQUIRE(others.size() == 2);
  CHECK(others[0].pid == 30);
  CHECK(others[0].charged == std::uint64_t{80});
  CHECK(others[1].name == "p20");
}

TEST_CASE("the figures of top are one line of JSON", "[report][screen]") {
  LiveModel model;
  for (int look = 0; look < 3; ++look)
    model.add(look_at(look, {process_with({{"a\x1b[31m", 1000U * static_cast<unsigned>(look + 1)}, {"b", 7}})}));
  std::ostringstream out;
  render_top_json(model, LiveChoice(), 1, "host", out);
  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.find('\x1b') == std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json.at("schema") == "culprit.top/1");
  CHECK(json.at("rows").size() == 1);
  CHECK(json.at("rows_left_out") == 1);
  CHECK(json.at("rows").at(0).at("bytes") == 3000);
  CHECK(json.at("rows").at(0).at("change_bytes") == 2000);
  CHECK(json.at("rows").at(0).at("bytes_per_minute") == 60000);
  CHECK(json.at("processes").at(0).at("pid") == 4242);
  CHECK(json.at("devices").at(0).at("live_bytes") == 3007);
}
