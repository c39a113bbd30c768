// Filters and baselines: which leaks a report shows, and how it compares them with an earlier run.
#include <fstream>
#include <nlohmann/json.hpp>

#include "report/select/selection.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// One GPU allocation of 4 KiB, one managed of 64 KiB on the second GPU, one pinned of 1 MiB.
struct ThreeLeaks : Program {
  ThreeLeaks() {
    AllocationRecord record = live_allocation(stack({"small", "main"}), 4096);
    record.device = 0;
    dump.add_allocation(record);
    record = live_allocation(stack({"middle", "main"}), 65536, Kind::kManaged);
    record.device = 1;
    dump.add_allocation(record);
    dump.add_allocation(live_allocation(stack({"large", "main"}), 1 << 20, Kind::kPinnedHost));
    dump.add_allocation(live_allocation(stack({"stream", "main"}), 0, Kind::kStream));
  }
};

std::vector<Report> selected(ThreeLeaks* program, const SelectionOptions& options) {
  std::vector<Report> reports = {program->report()};
  Selection(options).apply(false, &reports);
  return reports;
}

std::string functions(const Report& report) {
  std::string text;
  for (const Group& group : report.leaks) text += group.stack->frames.front()->function + " ";
  return text;
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// A baseline file in a folder of its own.
struct BaselineFile {
  TemporaryFolder folder;
  std::string baseline = folder.file("baseline.json");
};

}  // namespace

TEST_CASE("sizes are read as people write them", "[report][selection]") {
  CHECK(parse_bytes("0") == 0U);
  CHECK(parse_bytes("4096") == 4096U);
  CHECK(parse_bytes("4096 B") == 4096U);
  CHECK(parse_bytes("64K") == 65536U);
  CHECK(parse_bytes("64KiB") == 65536U);
  CHECK(parse_bytes("1.5 gib") == 1610612736U);
  CHECK(parse_bytes("2MB") == 2097152U);
  CHECK(parse_bytes("18446744073709551615") == 18446744073709551615U);
  for (const char* bad :
       {"", " ", "-1", "x", "1X", "1KiBs", "1e3", "0x10", "99999999T", "18446744073709551616", "1%"}) {
    INFO(bad);
    CHECK_FALSE(parse_bytes(bad).has_value());
  }
  CHECK(parse_growth("10%")->percent == 10);
  CHECK(parse_growth("2.5%")->percent == 2.5);
  CHECK(parse_growth("1M")->bytes == 1048576);
  for (const char* bad : {"", "%", "-1%", "10%%", "ten"}) CHECK_FALSE(parse_growth(bad).has_value());
}

TEST_CASE("a leak has grown when it exceeds what is allowed", "[report][selection]") {
  CHECK_FALSE(has_grown(100, 100, {}));
  CHECK(has_grown(100, 101, {}));
  CHECK_FALSE(has_grown(100, 110, {10, 0}));
  CHECK(has_grown(100, 111, {10, 0}));
  CHECK_FALSE(has_grown(100, 108, {0, 8}));
  CHECK(has_grown(100, 109, {0, 8}));
  CHECK_FALSE(has_grown(100, 5, {}));
}

TEST_CASE("filters choose leaks and the totals follow", "[report][selection]") {
  ThreeLeaks program;
  SelectionOptions options;
  SECTION("none") {
    const Report report = selected(&program, options).front();
    CHECK(functions(report) == "large middle small ");
    CHECK_FALSE(report.filtered.has_value());
    CHECK(report.resources.size() == 1);
  }
  SECTION("size") {
    options.min_bytes = "64K";
    const Report report = selected(&program, options).front();
    CHECK(functions(report) == "large middle ");
    CHECK(report.summary.groups == 2);
    CHECK(report.summary.leaked_bytes == 65536 + (1 << 20));
    CHECK(report.summary.totals.size() == 2);
    CHECK(report.filtered->bytes == 4096);
    CHECK(report.resources.size() == 1);
  }
  SECTION("kind") {
    options.kinds = {"device", "managed"};
    const Report report = selected(&program, options).front();
    CHECK(functions(report) == "middle small ");
    CHECK(report.resources.empty());
    CHECK(report.summary.resources == 0);
  }
  SECTION("device") {
    options.devices = {"1"};
    CHECK(functions(selected(&program, options).front()) == "middle ");
    options.devices = {"host"};
    CHECK(functions(selected(&program, options).front()) == "large ");
    options.devices = {"0", "host"};
    CHECK(functions(selected(&program, options).front()) == "large small ");
  }
  SECTION("cause") {
    options.causes = {"exception"};
    const Report report = selected(&program, options).front();
    CHECK(report.leaks.empty());
    CHECK(report.summary.leaked_bytes == 0);
    CHECK(report.filtered->groups == 3);
    options.causes = {"exception", "never-freed"};
    CHECK(selected(&program, options).front().leaks.size() == 3);
  }
}

TEST_CASE("a leak is new or grown or known", "[report][selection]") {
  BaselineFile files;
  ThreeLeaks program;
  std::vector<Report> reports = {program.report()};
  Baseline before = baseline_of(reports, false);
  REQUIRE(before.leaks.size() == 3);
  const std::string large = reports[0].leaks[0].id;
  const std::string middle = reports[0].leaks[1].id;
  before.leaks.erase(large);
  before.leaks[middle].bytes = 60000;
  before.leaks["00000000000000ff"] = {1, 1, "device", "held", "cudaMalloc", "gone in app", ""};
  write_baseline(files.baseline, before);

  SelectionOptions options;
  options.baseline = files.baseline;
  reports = selected(&program, options);
  CHECK(reports[0].leaks[0].comparison == Comparison::kNew);
  CHECK(reports[0].leaks[1].comparison == Comparison::kGrown);
  CHECK(reports[0].leaks[1].baseline_bytes == 60000);
  CHECK(reports[0].leaks[2].comparison == Comparison::kKnown);
  CHECK(reports[0].baseline->gone == std::vector<std::string>{"00000000000000ff"});
  options.allow_growth = "10%";
  CHECK(selected(&program, options)[0].leaks[1].comparison == Comparison::kKnown);

  SECTION("several processes count as one") {
    reports = {program.report(), program.report()};
    Selection(options).apply(false, &reports);
    CHECK(reports[0].leaks[2].comparison == Comparison::kGrown);
    CHECK(reports[0].baseline->gone.empty());
    CHECK(reports[1].baseline->gone.size() == 1);
  }
}

TEST_CASE("a baseline is readable and keeps its comments", "[report][selection]") {
  BaselineFile files;
  ThreeLeaks program;
  const std::vector<Report> reports = {program.report()};
  SelectionOptions options;
  options.write_baseline = files.baseline;
  Selection(options).write(false, reports);
  std::string text = file_text(files.baseline);
  nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["schema"] == "culprit.baseline/1");
  REQUIRE(json["leaks"].size() == 3);
  CHECK(json["leaks"][0]["id"] < json["leaks"][1]["id"]);
  CHECK(has(text, "\"where\": \"small in app\""));
  CHECK(std::count(text.begin(), text.end(), '\n') == 7);  // one line a leak

  json["comment"] = "agreed on Monday";
  json["leaks"][1]["comment"] = "waits for issue 12";
  write_file(files.baseline, json.dump());
  Selection(options).write(false, reports);
  CHECK(has(file_text(files.baseline), "agreed on Monday"));
  CHECK(nlohmann::json::parse(file_text(files.baseline))["leaks"][1]["comment"] == "waits for issue 12");
  const std::string once = file_text(files.baseline);
  Selection(options).write(false, reports);
  CHECK(file_text(files.baseline) == once);
}

TEST_CASE("a bad baseline is refused and stays as it is", "[report][selection]") {
  BaselineFile files;
  SelectionOptions options;
  options.write_baseline = files.baseline;
  const std::string leak = R"({"id": "00000000000000ff", "bytes": 1, "count": 1})";
  const std::string head = R"({"schema": "culprit.baseline/1", "leaks": )";
  for (const std::string& bad :
       {std::string("my notes"), std::string("[]"), std::string(R"({"schema": "culprit.report/1"})"),
        std::string(R"({"schema": "culprit.baseline/1"})"), head + "[1]}", head + R"([{"bytes": 1, "count": 1}]})",
        head + R"([{"id": "xyz", "bytes": 1, "count": 1}]})",
        head + R"([{"id": "00000000000000ff", "bytes": -1, "count": 1}]})", head + "[" + leak + ", " + leak + "]}",
        R"({"comment": 7, "schema": "culprit.baseline/1", "leaks": []})" + std::string()}) {
    INFO(bad);
    write_file(files.baseline, bad);
    CHECK_THROWS_WITH(read_baseline(files.baseline), Catch::StartsWith(files.baseline + ": no baseline"));
    CHECK_THROWS_AS(Selection(options), FileError);
    CHECK_THROWS_AS(write_baseline(files.baseline, {}), FileError);
    CHECK(file_text(files.baseline) == bad);
  }
  CHECK_THROWS_WITH(read_baseline("/nonexistent/b"), Catch::Contains("/nonexistent/b: cannot be read"));
  CHECK_THROWS_WITH(write_baseline("/nonexistent/b", {}), Catch::Contains("/nonexistent/b: cannot be written"));
}

TEST_CASE("fail-on new fails on what the baseline does not have", "[report][selection][cli]") {
  BaselineFile files;
  const std::string dump = files.folder.file("a.dump");
  DumpBuilder builder;
  builder.add_allocation(live_allocation(0, 11001));
  builder.write(dump);
  const std::string report = "CULPRIT report " + dump + " ";
  const std::string compared = report + "--fail-on new --baseline " + files.baseline;
  CHECK(shell(compared + " 2>&1").exit_code == 3);
  CHECK(shell(report + "--write-baseline " + files.baseline).exit_code == 0);
  const Finished known = shell(compared);
  CHECK(known.exit_code == 0);
  CHECK(has(known.out, "0 new, 0 grown, 1 known"));

  builder.add_allocation(live_allocation(0, 1000));
  builder.write(dump);
  const Finished grown = shell(compared);
  CHECK(grown.exit_code == 1);
  CHECK(has(grown.out, "GROWN from 10.7 KiB"));
  // Two allocations instead of one.
  CHECK(shell(compared + " --allow-growth 10%").exit_code == 1);
  CHECK(shell(compared + " --allow-growth 100%").exit_code == 0);
  CHECK(shell(compared + " --allow-growth 999").exit_code == 1);
  CHECK(shell(compared + " --allow-growth 1000").exit_code == 0);

  builder.add_allocation(live_allocation(0, 500, Kind::kManaged));
  builder.write(dump);
  const Finished added = shell(compared + " --allow-growth 1M --format json");
  CHECK(added.exit_code == 1);
  const nlohmann::json json = nlohmann::json::parse(added.out);
  CHECK(json["baseline"]["new"] == 1);
  CHECK(json["leaks"][1]["baseline"]["state"] == "new");
  CHECK(json["leaks"][0]["baseline"]["bytes"] == 11001);
  // A filter narrows what can fail.
  CHECK(shell(compared + " --allow-growth 1M --kinds device").exit_code == 0);
  CHECK(has(shell(report + "--kinds device").out, "500 B in 1 group that the filters leave out"));
  CHECK(shell(report + "--fail-on leaks --min-bytes 1M").exit_code == 0);
}

TEST_CASE("a baseline is not written when a dump could not be read", "[report][selection][cli]") {
  BaselineFile files;
  DumpBuilder builder;
  builder.write(files.folder.file("a.dump"));
  CHECK(shell("CULPRIT report /nonexistent.dump " + files.folder.file("a.dump --write-baseline ") + files.baseline +
              " 2>/dev/null")
            .exit_code == 3);
  CHECK_FALSE(std::ifstream(files.baseline).is_open());
}
