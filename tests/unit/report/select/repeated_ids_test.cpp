// Two groups with one id are one leak for whatever compares runs, and have names of their own in whatever lists them.
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "report/model/program_frames.h"
#include "report/render/html/render_html.h"
#include "report/render/json/render_json.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_pprof.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_text.h"
#include "report/select/diff.h"
#include "report/select/grouped_rows.h"
#include "report/select/render_options.h"
#include "report/select/selection.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/judge/cause_program.h"
#include "tests/unit/report/page_data.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// step() leaks at two lines: 100 bytes at line 30, and 64 at line 31, for which there is an exception.
struct TwoOfOneId : CauseProgram {
  explicit TwoOfOneId(std::uint64_t first = 100) {
    AllocationRecord record = live_allocation(at_line(30), first);
    dump.add_allocation(record);
    allocate(made, thrown());
  }
};

std::vector<Report> both_groups(TwoOfOneId* program) { return {program->report()}; }

std::size_t times_in(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

using Render = void (*)(const std::vector<Report>&, const RenderOptions&, std::ostream&);

std::string text_by(Render render, const std::vector<Report>& reports) {
  std::ostringstream out;
  render(reports, RenderOptions(), out);
  return out.str();
}

nlohmann::json whole_json(const std::vector<Report>& reports) {
  std::ostringstream out;
  render_json(reports, out);
  return nlohmann::json::parse(out.str());
}

// A file with this text, in a folder of its own.
struct WrittenFile {
  TemporaryFolder folder;
  std::string path = folder.file("file");
  explicit WrittenFile(const std::string& text) { std::ofstream(path) << text; }
};

// As culprit wrote it before ids were of the second rule.
std::string old_leak(const std::string& id, std::uint64_t bytes, std::uint64_t count, const std::string& where,
                     const std::string& comment, const std::string& cause = "never-freed") {
  nlohmann::json leak = {{"id", id},       {"bytes", bytes}, {"count", count}, {"kind", "device"},
                         {"cause", cause}, {"api", "cuX"},   {"where", where}, {"comment", comment}};
  return leak.dump();
}
std::string old_baseline(const std::string& leaks) {
  return R"({"schema": "culprit.baseline/1", "comment": "ours", "leaks": [)" + leaks + "]}";
}

Report compared(const std::string& baseline, TwoOfOneId* program, const std::string& growth = "") {
  const WrittenFile file(baseline);
  SelectionOptions options;
  options.baseline = file.path;
  options.allow_growth = growth;
  std::vector<Report> reports = both_groups(program);
  for (Group& group : reports[0].leaks) group.api = "cuX";
  Selection(options).apply(false, &reports);
  return reports[0];
}

std::string compared_state(const Report& report) {
  return std::to_string(report.baseline->added) + " new, " + std::to_string(report.baseline->grown) + " grown, " +
         std::to_string(report.baseline->known) + " known, " + std::to_string(report.baseline->gone.size()) + " gone";
}

}  // namespace

TEST_CASE("two groups of one id: each has a name of its own in pages, SARIF and JUnit", "[report][ids]") {
  TwoOfOneId program;
  const std::vector<Report> reports = both_groups(&program);
  REQUIRE(reports[0].leaks.size() == 2);
  const std::string id = reports[0].leaks[0].id;
  REQUIRE(reports[0].leaks[1].id == id);

  const nlohmann::json json = whole_json(reports);
  CHECK(json["id_rule"] == 2);
  for (const nlohmann::json& leak : json["leaks"]) CHECK(leak["id"] == id);

  const std::string junit = text_by(render_junit, reports);
  CHECK(times_in(junit, "in step [" + id + "]") == 1);
  CHECK(times_in(junit, "in step [" + id + "-2]") == 1);

  std::set<std::string> fingerprints;
  const nlohmann::json sarif = nlohmann::json::parse(text_by(render_sarif, reports));
  for (const nlohmann::json& result : sarif["runs"][0]["results"])
    fingerprints.insert(result["partialFingerprints"]["culprit/v1"].get<std::string>());
  CHECK(fingerprints == std::set<std::string>{id, id + "-2"});

  std::ostringstream page;
  render_html(reports, RenderOptions(), page);
  const nlohmann::json leaks = nlohmann::json::parse(page_data(page.str()))["reports"][0]["leaks"];
  // By their order in the code, which other leaks and sizes do not change.
  CHECK(leaks[0]["anchor"] == id);
  CHECK(leaks[0]["bytes"] == 100);
  CHECK(leaks[1]["anchor"] == id + "-2");
  TwoOfOneId smaller(10);
  std::ostringstream other;
  render_html(both_groups(&smaller), RenderOptions(), other);
  CHECK(nlohmann::json::parse(page_data(other.str()))["reports"][0]["leaks"][0]["anchor"] == id + "-2");

  CHECK(times_in(text_by(render_markdown, reports), "| " + id + " |") == 2);
  CHECK(times_in(text_by(render_text, reports), id) == 2);
  const std::vector<GroupedRow> rows = grouped_rows(reports[0], "stack", false);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].key != rows[1].key);
}

TEST_CASE("two groups of one id: baselines and diffs add them up", "[report][ids]") {
  TwoOfOneId program;
  std::vector<Report> reports = both_groups(&program);
  const std::string id = reports[0].leaks[0].id;
  const Baseline baseline = baseline_of(reports, false);
  REQUIRE(baseline.leaks.size() == 1);
  const BaselineLeak& leak = baseline.leaks.at(id);
  CHECK(leak.bytes == 164);
  CHECK(leak.count == 2);
  CHECK(leak.cause == "exception, never-freed");
  CHECK(leak.where == "step in app");

  const auto with = [&](std::uint64_t bytes, std::uint64_t count) {
    return R"({"schema": "culprit.baseline/1", "leaks": [{"id_rule": 2, "id": ")" + id + R"(", "bytes": )" +
           std::to_string(bytes) + R"(, "count": )" + std::to_string(count) + "}]}";
  };
  CHECK(compared_state(compared(with(164, 2), &program)) == "0 new, 0 grown, 1 known, 0 gone");
  CHECK(compared_state(compared(with(163, 2), &program)) == "0 new, 1 grown, 0 known, 0 gone");
  CHECK(compared_state(compared(with(164, 1), &program)) == "0 new, 1 grown, 0 known, 0 gone");
  CHECK(compared_state(compared(with(500, 1), &program)) == "0 new, 1 grown, 0 known, 0 gone");
  CHECK(compared_state(compared(with(500, 5), &program)) == "0 new, 0 grown, 1 known, 0 gone");
  // In per cent of both; in bytes of the bytes alone.
  CHECK(compared_state(compared(with(150, 2), &program, "10%")) == "0 new, 0 grown, 1 known, 0 gone");
  CHECK(compared_state(compared(with(164, 1), &program, "10%")) == "0 new, 1 grown, 0 known, 0 gone");
  CHECK(compared_state(compared(with(150, 1), &program, "100%")) == "0 new, 0 grown, 1 known, 0 gone");
  CHECK(compared_state(compared(with(164, 1), &program, "1K")) == "0 new, 0 grown, 1 known, 0 gone");
  const Report grown = compared(with(100, 1), &program);
  CHECK(grown.leaks[0].comparison == Comparison::kGrown);
  CHECK(grown.leaks[1].comparison == Comparison::kGrown);
  CHECK(has(text_by(render_text, {grown}), "GROWN from 100 B in 1x"));
  CHECK(whole_json({grown})["leaks"][1]["baseline"] ==
        nlohmann::json({{"state", "grown"}, {"bytes", 100}, {"count", 1}, {"comment", ""}}));

  // The same rules in culprit diff, whatever the files are.
  const TemporaryFolder folder;
  program.dump.write(folder.file("now.dump"));
  TwoOfOneId less(50);
  less.dump.write(folder.file("before.dump"));
  const auto diff = [&](const std::string& options) {
    const Finished run = shell("CULPRIT diff --fail-on new --format json " + options);
    nlohmann::json summary = nlohmann::json::parse(run.out)["summary"];
    return summary.dump() + " " + std::to_string(run.exit_code);
  };
  const std::string same = R"({"gone":0,"grown":0,"new":0,"shrunk":0,"unchanged":1} 0)";
  shell("CULPRIT report --format json -o " + folder.file("now.json") + " " + folder.file("now.dump"));
  shell("CULPRIT report --write-baseline " + folder.file("now.base") + " " + folder.file("now.dump"));
  for (const char* one : {"now.dump", "now.json", "now.base"}) {
    for (const char* other : {"now.dump", "now.json", "now.base"}) {
      INFO(one << " and " << other);
      CHECK(diff(folder.file(one) + " " + folder.file(other)) == same);
    }
    CHECK(diff(folder.file("before.dump") + " " + folder.file(one)) ==
          R"({"gone":0,"grown":1,"new":0,"shrunk":0,"unchanged":0} 1)");
    CHECK(diff(folder.file(one) + " " + folder.file("before.dump")) ==
          R"({"gone":0,"grown":0,"new":0,"shrunk":1,"unchanged":0} 0)");
  }
}

TEST_CASE("two groups of one id: max-bytes of a suppression is of both", "[report][ids]") {
  TwoOfOneId program;
  for (const auto& [limit, left] : std::initializer_list<std::pair<const char*, std::size_t>>{{"164", 0}, {"163", 2}}) {
    const WrittenFile file(std::string("leak:^step$\nmax-bytes:") + limit + "\n");
    SelectionOptions options;
    options.suppressions = {file.path};
    std::vector<Report> reports = both_groups(&program);
    Selection(options).apply(false, &reports);
    INFO(limit);
    CHECK(reports[0].leaks.size() == left);
  }
}

TEST_CASE("an old baseline knows leaks by place, kind and API", "[report][ids]") {
  TwoOfOneId program;
  const std::string first = old_leak("00000000000000aa", 100, 1, "step in app", "waits for issue 12");
  const std::string second = old_leak("00000000000000bb", 64, 1, "step in app", "see the wiki", "exception");
  const std::string other = old_leak("00000000000000cc", 5, 1, "elsewhere in app", "agreed on Monday");
  CHECK(compared_state(compared(old_baseline(first + "," + second), &program)) == "0 new, 0 grown, 1 known, 0 gone");
  CHECK(compared_state(compared(old_baseline(first), &program)) == "0 new, 1 grown, 0 known, 0 gone");
  CHECK(compared_state(compared(old_baseline(first + "," + other), &program, "1K")) ==
        "0 new, 0 grown, 1 known, 1 gone");
  CHECK(compared_state(compared(old_baseline(other), &program)) == "1 new, 0 grown, 0 known, 1 gone");
  CHECK(compared_state(compared(old_baseline(R"({"id": "00000000000000aa", "bytes": 900, "count": 9})"), &program)) ==
        "1 new, 0 grown, 0 known, 1 gone");

  // Writing renews it.
  const WrittenFile file(old_baseline(first + "," + second + "," + other));
  SelectionOptions options;
  options.write_baseline = file.path;
  std::vector<Report> reports = both_groups(&program);
  for (Group& group : reports[0].leaks) group.api = "cuX";
  std::ostringstream said;
  const auto lost = write_baseline(file.path, baseline_of(reports, false));
  REQUIRE(lost.size() == 1);
  CHECK(has(lost[0], "00000000000000cc (cuX, device, elsewhere in app) has an id of an older culprit"));
  CHECK(has(lost[0], "\"agreed on Monday\""));
  const nlohmann::json json = nlohmann::json::parse(file_text(file.path));
  CHECK(json["comment"] == "ours");
  REQUIRE(json["leaks"].size() == 1);
  CHECK(json["leaks"][0]["id"] == reports[0].leaks[0].id);
  CHECK(json["leaks"][0]["id_rule"] == 2);
  CHECK(json["leaks"][0]["comment"] == "waits for issue 12; see the wiki");
  CHECK(write_baseline(file.path, baseline_of(reports, false)).empty());
  CHECK(nlohmann::json::parse(file_text(file.path)) == json);
  // A leak in the same function that a renewed baseline does not have is new.
  TwoOfOneId more;
  more.allocate(more.stack({"step", "run"}));
  CHECK(compared_state(compared(json.dump(), &more)) == "1 new, 0 grown, 1 known, 0 gone");
}

// Its entries named the function of libffi; those of the leaks at two Python lines were one.
TEST_CASE("an old baseline's entry of a ctypes leak stands for all of them together", "[report][ids]") {
  const auto report = [](std::uint64_t first, std::uint64_t second) {
    DumpBuilder dump;
    FakeSymbols symbols;
    const std::uint32_t ffi = dump.add_module("/usr/lib/libffi.so.8");
    symbols.add("/usr/lib/libffi.so.8", 0x1000, "ffi_call");
    for (const auto& [name, bytes] : {std::pair("first", first), std::pair("second", second)}) {
      const std::uint64_t python = DumpBuilder::python_frame(dump.add_python_frame("/a/t.py", name, 3));
      if (bytes != 0)
        dump.add_allocation(live_allocation(dump.add_stack({DumpBuilder::frame(ffi, 0x1000), python}), bytes));
    }
    std::vector<Report> reports = {report_of(dump, symbols)};
    for (Group& group : reports[0].leaks) group.api = "cuX";
    return reports;
  };
  const WrittenFile file(old_baseline(old_leak("00000000000000aa", 160, 2, "ffi_call in libffi.so.8", "all of them")));
  SelectionOptions options;
  options.baseline = file.path;
  const auto states = [&](std::vector<Report> reports, const std::string& growth = "") {
    options.allow_growth = growth;
    Selection(options).apply(false, &reports);
    return compared_state(reports[0]);
  };
  CHECK(states(report(100, 60)) == "0 new, 0 grown, 2 known, 0 gone");
  CHECK(states(report(10, 150)) == "0 new, 0 grown, 2 known, 0 gone");
  CHECK(states(report(160, 0)) == "0 new, 0 grown, 1 known, 0 gone");
  CHECK(states(report(161, 0)) == "0 new, 1 grown, 0 known, 0 gone");
  CHECK(has(states(report(100, 61)), "grown"));
  CHECK_FALSE(has(states(report(100, 61)), "0 grown"));
  CHECK(states(report(100, 70), "10%") == "0 new, 0 grown, 2 known, 0 gone");
  CHECK(baseline_of(report(100, 60), false).leaks.begin()->second.where.find("in t.py") != std::string::npos);
  CHECK(library_name(*naming_frame(*report(100, 60)[0].leaks[0].stack)) == "t.py");
}
