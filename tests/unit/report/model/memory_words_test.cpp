// The words for memory that was not freed: leaked only when the program had the time to free it.
#include "report/model/memory_words.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/merge/report_merger.h"
#include "report/render/html/render_html.h"
#include "report/render/json/render_json.h"
#include "report/render/render_gcc.h"
#include "report/render/render_github.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_survivors.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/in_format.h"
#include "tests/unit/report/judge/cause_program.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

// A process with one allocation of no known cause and, if asked for, one that an exception left behind.
Report process(Ended ended, bool with_exception = false) {
  CauseProgram program;
  program.allocate(program.made);
  if (with_exception) program.allocate(program.made, program.thrown());
  Report report = program.report();
  report.process.status.ended = ended;
  return report;
}

// It has ended, but not how is known.
Report gone() {
  Report report = process(Ended::kUnknown);
  report.process.status.gone = true;
  return report;
}

Report attached(Ended ended, bool detached) {
  Report report = process(ended);
  report.process.attached = "redirect";
  report.process.status.detached = detached;
  return report;
}

}  // namespace

TEST_CASE("the words for memory depend on how the process ended", "[report][words]") {
  struct Row {
    const char* name;
    Report report;
    const char* headline;
    const char* fate;
    const char* title;
  };
  const Row rows[] = {
      {"exited", process(Ended::kExit), "LEAKED", "never given back", "Never freed"},
      {"end unknown", process(Ended::kUnknown), "LEAKED", "never given back", "Never freed"},
      {"killed", process(Ended::kKilled), "LIVE WHEN KILLED", "live when the process was killed", "Not freed yet"},
      {"ended without its exit handlers", gone(), "LIVE AT THE END", "live when the process ended", "Not freed yet"},
      {"running", process(Ended::kRunning), "STILL HELD", "not freed yet", "Not freed yet"},
      {"attached", attached(Ended::kRunning, false), "SURVIVORS", "not freed while it was recorded", "Not freed yet"},
      {"detached", attached(Ended::kUnknown, true), "SURVIVORS", "not freed while it was recorded", "Not freed yet"},
      {"attached, then exited", attached(Ended::kExit, false), "LEAKED", "never given back", "Never freed"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const std::string bytes = " " + std::string("64 B in 1 allocation, 1 group\n");
    const std::string text = in_format(row.report, render_text);
    CHECK(has(text, row.headline + bytes));
    CHECK(has(text, "LEAKED") == (std::string(row.headline) == "LEAKED"));
    std::string title = row.title;
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    CHECK(has(text, title));
    for (const Render render : {render_junit, render_sarif, render_github}) {
      CHECK(has(in_format(row.report, render), row.fate));
    }
    CHECK(has(in_format(row.report, render_markdown), "### Leaked ") == (std::string(row.headline) == "LEAKED"));
    const Json page = Json::parse(page_data(in_format(row.report, render_html)))["reports"][0];
    CHECK(page["may_be_freed"] == (std::string(row.headline) != "LEAKED"));
    REQUIRE(page["totals_by_words"].size() == 1);
    CHECK(page["totals_by_words"][0]["verb"] == page["verb"]);
  }
}

TEST_CASE("the report of an attach says what became of the memory", "[report][words]") {
  const auto survivors = [](const Report& report) {
    std::ostringstream out;
    render_survivors(report, RenderOptions(), out);
    return out.str();
  };
  const std::string made = " of 0 made in that time";
  CHECK(has(survivors(attached(Ended::kRunning, false)), "SURVIVORS 64 B in 1 allocation" + made));
  CHECK(has(survivors(attached(Ended::kUnknown, true)), "SURVIVORS 64 B in 1 allocation" + made));
  const std::string exited = survivors(attached(Ended::kExit, false));
  CHECK(has(exited, "\nLEAKED 64 B in 1 allocation" + made));
  CHECK(has(exited, " · exit 0\n"));
  Report killed = process(Ended::kKilled, true);
  killed.process.attached = "redirect";
  CHECK(has(survivors(killed), "\nLEAKED 64 B in 1 allocation · LIVE WHEN KILLED 64 B in 1 allocation" + made));
  CHECK(has(survivors(killed), " · killed\n"));
  for (const bool complete : {true, false}) {
    DumpBuilder empty;
    if (!complete) empty.header().dropped_allocations = 2;
    Report report = report_of(empty, FakeSymbols());
    CHECK(has(survivors(report), complete ? "\nNOTHING LEAKED · 0 allocations" : "\nNOT KNOWN: no leak among the "));
    report.process.attached = "redirect";
    report.process.status.ended = Ended::kRunning;
    CHECK(has(survivors(report), complete ? "\nNO SURVIVORS · 0 allocations" : "\nNOT KNOWN: no survivor among the "));
  }
}

TEST_CASE("memory of a killed process with a proven cause is leaked, the rest was live", "[report][words]") {
  const Report report = process(Ended::kKilled, true);
  const std::string text = in_format(report, render_text);
  CHECK(has(text, "LEAKED 64 B in 1 allocation, 1 group · LIVE WHEN KILLED 64 B in 1 allocation, 1 group\n"));
  CHECK(has(in_format(report, render_markdown), "### Leaked 64 B, Live when killed 64 B: "));
  const Json page = Json::parse(page_data(in_format(report, render_html)))["reports"][0];
  // The tiles of the page: one for memory that is leaked, one for memory that was live.
  REQUIRE(page["totals_by_words"].size() == 2);
  CHECK(page["totals_by_words"][0]["may_be_freed"] == false);
  CHECK(page["totals_by_words"][1]["may_be_freed"] == true);
}

TEST_CASE("a job is live when killed only when all of its processes were killed", "[report][words]") {
  for (const bool all : {false, true}) {
    INFO(all);
    ReportMerger merger;
    merger.add(process(Ended::kKilled));
    merger.add(process(all ? Ended::kKilled : Ended::kExit));
    const Report report = merger.finish(false);
    CHECK(std::string(words_of(report).headline) == (all ? "LIVE WHEN KILLED" : "LEAKED"));
  }
  ReportMerger merger;
  merger.add(process(Ended::kKilled));
  merger.add(gone());
  CHECK(std::string(words_of(merger.finish(false)).headline) == "LIVE AT THE END");
}

TEST_CASE("every format with a summary says that globals were not searched", "[report][words]") {
  const std::string sentence = "its globals were not searched: one may hold this memory";
  const Render formats[] = {render_text, render_markdown, render_junit, render_sarif, render_github, render_gcc};
  for (const Ended ended : {Ended::kExit, Ended::kKilled, Ended::kRunning}) {
    for (const HolderSearch state : {HolderSearch::kNotRun, HolderSearch::kDone}) {
      Report report = process(ended);
      report.holder_search.state = state;
      const bool told = ended != Ended::kRunning && state == HolderSearch::kNotRun;
      for (const Render render : formats) CHECK(has(in_format(report, render), sentence) == told);
      CHECK(json_of(report)["summary"]["not_searched"].is_null() != told);
      const Json page = Json::parse(page_data(in_format(report, render_html)))["reports"][0];
      CHECK(page["summary"]["not_searched"].is_null() != told);
    }
  }
  Report nothing = process(Ended::kKilled);
  nothing.leaks.clear();
  CHECK_FALSE(has(in_format(nothing, render_text), "NOT SEARCHED"));
}

TEST_CASE("the search of a job is as incomplete as that of its worst process", "[report][words]") {
  ReportMerger merger;
  for (const HolderSearch state : {HolderSearch::kDone, HolderSearch::kNotRun, HolderSearch::kOff}) {
    Report report = process(Ended::kExit);
    report.holder_search.state = state;
    merger.add(std::move(report));
  }
  const Report report = merger.finish(false);
  CHECK(report.holder_search.state == HolderSearch::kNotRun);
  CHECK(has(in_format(report, render_text), "\nNOT SEARCHED: a process of the job ended without its exit handlers"));
}

TEST_CASE("the signal that killed a process is named", "[report][words]") {
  Report report = process(Ended::kKilled);
  CHECK(has(in_format(report, render_text), " · killed\n"));
  CHECK(json_of(report)["process"]["signal"] == nullptr);
  report.process.status.signal = 9;
  CHECK(has(in_format(report, render_text), " · killed by SIGKILL\n"));
  CHECK(json_of(report)["process"]["signal"] == "SIGKILL");
  CHECK_FALSE(json_of(process(Ended::kExit))["process"].contains("signal"));
}
