// Incomplete recordings: every format says so, and no report without leaks reads as if recording had been complete.
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/merge/report_merger.h"
#include "report/model/not_recorded.h"
#include "report/render/formats.h"
#include "report/render/html/render_html.h"
#include "report/render/json/render_json.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/in_format.h"
#include "tests/unit/report/page_data.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

// A counter of the header, and the words that the report has for two of it.
struct Counter {
  std::uint64_t Header::*field;
  const char* json_name;
  const char* words;
};
constexpr Counter kCounters[] = {
    {&Header::dropped_allocations, "dropped_allocations", "2 allocations"},
    {&Header::dropped_stacks, "dropped_stacks", "2 stacks"},
    {&Header::dropped_others, "dropped_others", "2 other events"},
    {&Header::handler_calls, "handler_calls", "2 calls of signal handlers that interrupted culprit"},
    {&Header::left_hooks, "left_hooks", "2 calls that siglongjmp or cancellation left"},
    {&Header::lock_timeouts, "lock_timeouts", "2 events that could not wait for a lock"},
};

Report report_with(const Counter& counter) {
  DumpBuilder dump;
  dump.header().*counter.field = 2;
  return report_of(dump, FakeSymbols());
}

}  // namespace

TEST_CASE("each counter of what was not recorded comes first, and no report says that nothing leaked",
          "[report][not-recorded]") {
  for (const Counter& counter : kCounters) {
    INFO(counter.json_name);
    const Report report = report_with(counter);
    CHECK_FALSE(is_complete(report));

    const std::string text = in_format(report, render_text);
    CHECK(text.rfind(std::string("NOT KNOWN: ") + counter.words + " not recorded", 0) == 0);
    CHECK(has(text, "NOT KNOWN: no leak among the recorded allocations"));
    CHECK(has(text, "not counted: 2 not recorded"));
    CHECK_FALSE(has(text, "NOTHING LEAKED"));

    const Json summary = json_of(report).at("summary");
    CHECK(summary.at("dropped") == 2);
    CHECK(summary.at(counter.json_name) == 2);
    CHECK(summary.at("complete") == false);
    CHECK(summary.at("verdict") == "not-known");
    CHECK(has(summary.at("not_known").at(0).get<std::string>(), counter.words));

    const std::string markdown = in_format(report, render_markdown);
    CHECK(markdown.rfind("### Not known: ", 0) == 0);
    CHECK(has(markdown, std::string("**Not known:** ") + counter.words));

    const std::string junit = in_format(report, render_junit);
    CHECK(has(junit, "tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\""));
    CHECK(has(junit, std::string("<error message=\"not known: ") + counter.words));
    CHECK_FALSE(has(junit, "nothing leaked"));

    const Json invocation = Json::parse(in_format(report, render_sarif)).at("runs").at(0).at("invocations").at(0);
    CHECK(invocation.at("executionSuccessful") == false);
    CHECK(has(invocation.at("toolExecutionNotifications").at(0).at("message").at("text").get<std::string>(),
              std::string("Not known whether all memory was freed: ") + counter.words));

    CHECK(has(in_format(report, render_html), "<title>Not known · "));
    const std::string page = page_data(in_format(report, render_html));
    CHECK(has(page, std::string("\"incomplete\": [\"") + counter.words));
    CHECK(has(page, "\"complete\":false"));
  }
}

TEST_CASE("counts of unrecorded events are added up when reports are merged", "[report][not-recorded][merge]") {
  for (const Counter& counter : kCounters) {
    INFO(counter.json_name);
    ReportMerger merger;
    merger.add(report_with(counter));
    merger.add(report_with(counter));
    const Report report = merger.finish(false);
    CHECK(report.dropped.total() == 4);
    CHECK(json_of(report).at("summary").at(counter.json_name) == 4);
  }
}

TEST_CASE("a process that still runs is not said to hold nothing when something was not recorded",
          "[report][not-recorded]") {
  Report report = report_with(kCounters[0]);
  report.process.status.ended = Ended::kRunning;
  CHECK(has(in_format(report, render_text), "NOT KNOWN: nothing is held among the recorded allocations"));
}

TEST_CASE("a report to which nothing is missing says so", "[report][not-recorded]") {
  DumpBuilder dump;
  const Report report = report_of(dump, FakeSymbols());
  CHECK(is_complete(report));
  CHECK(reasons_not_known(report).empty());
  CHECK(has(in_format(report, render_text), "NOTHING LEAKED"));
  CHECK(json_of(report).at("summary").at("complete") == true);
  CHECK(has(in_format(report, render_junit), "nothing leaked"));
}

TEST_CASE("libraries that call the driver past the hooks come first in every format", "[report][not-recorded]") {
  DumpBuilder dump;
  constexpr char kUsers[] = "d/opt/lib/libdirect.so\0n/opt/lib/libapart\x1b.so";  // with a NUL at the end
  const Ref ref = dump.add_string({kUsers, sizeof(kUsers)});
  dump.header().unseen_users = ref;
  dump.header().unseen_user_count = 2;
  const Report report = report_of(dump, FakeSymbols());
  REQUIRE(report.unseen.size() == 2);
  CHECK(report.unseen[0].path == "/opt/lib/libdirect.so");
  CHECK_FALSE(is_complete(report));

  const std::string text = in_format(report, render_text);
  CHECK(text.rfind("NOT KNOWN: libdirect.so calls the driver directly (it was loaded with RTLD_DEEPBIND, ", 0) == 0);
  CHECK(has(text, "\nNOT KNOWN: libapart?.so has a CUDA driver of its own (it was loaded with dlmopen)"));
  CHECK(has(text, "NOT KNOWN: no leak among the recorded allocations"));

  const Json json = json_of(report);
  CHECK(json.at("unseen").at(0) == Json({{"module", "/opt/lib/libdirect.so"}, {"how", "direct"}}));
  CHECK(json.at("unseen").at(1).at("how") == "namespace");
  CHECK(json.at("summary").at("complete") == false);
  CHECK(json.at("summary").at("dropped") == 0);
  CHECK(has(in_format(report, render_markdown), "**Not known:** libdirect.so"));
  CHECK(has(in_format(report, render_junit), "<error message=\"not known: libdirect.so"));
  CHECK(has(in_format(report, render_sarif), "\"executionSuccessful\": false"));
  CHECK(has(page_data(in_format(report, render_html)), "\"incomplete\": [\"libdirect.so"));

  ReportMerger merger;
  merger.add(report_of(dump, FakeSymbols()));
  merger.add(report_of(dump, FakeSymbols()));
  CHECK(merger.finish(false).unseen.size() == 2);
}

TEST_CASE("each format says that not everything was recorded, or the command says it", "[report][not-recorded]") {
  TemporaryFolder folder;
  DumpBuilder dump;
  dump.header().dropped_allocations = 2;
  dump.write(folder.file("d"));
  DumpBuilder().write(folder.file("complete"));
  REQUIRE(shell("CULPRIT report --write-baseline " + folder.file("b.json") + " " + folder.file("complete")).exit_code ==
          0);
  for (const std::string& format : report_formats()) {
    INFO(format);
    const std::string report = "CULPRIT report --format " + format + " " + folder.file("d");
    const Finished asked_nothing = shell(report);
    CHECK(asked_nothing.exit_code == 0);
    const bool in_report = find_format(format)->says_verdict;
    const std::string warning = "culprit: warning: NOT KNOWN: 2 allocations not recorded";
    CHECK(has(in_report ? asked_nothing.out : asked_nothing.err, in_report ? "2 allocations not recorded" : warning));
    CHECK(asked_nothing.err.empty() == in_report);
    // Each gate ends with 4. Where the report cannot say why, the reason is an error, which --quiet leaves.
    const std::string baseline = " --baseline " + folder.file("b.json");
    for (const std::string& gate :
         {std::string(" --fail-on leaks"), std::string(" --fail-on errors"), std::string(" --fail-on resources"),
          std::string(" --error-exitcode 7"), baseline, baseline + " --fail-on new"}) {
      INFO(gate);
      const Finished failed = shell(report + gate + " --quiet");
      CHECK(failed.exit_code == 4);
      if (!in_report) CHECK(has(failed.err, "culprit: NOT KNOWN: 2 allocations not recorded"));
    }
    CHECK(shell(report + " --fail-on none").exit_code == 0);
  }
}

TEST_CASE("a job without the dump of a rank is not known, also from a merged file and in a diff",
          "[report][not-recorded][merge]") {
  TemporaryFolder folder;
  std::string dumps;
  for (const std::uint32_t rank : {0U, 1U}) {
    DumpBuilder dump;
    dump.header().pid = 100 + rank;
    dump.header().rank = rank + 1;
    dump.header().job_size = 3;
    dump.write(folder.file(std::to_string(rank)));
    dumps += " " + folder.file(std::to_string(rank));
  }
  const std::string job = folder.file("job.json");
  const std::string json = folder.file("report.json");
  REQUIRE(shell("CULPRIT merge -o " + job + dumps).exit_code == 0);
  REQUIRE(shell("CULPRIT report -o " + json + dumps).exit_code == 0);
  const std::string reason = "no dump of rank 2 of 3";
  for (const std::string& line :
       {"report --fail-on leaks" + dumps, "report --fail-on leaks " + job, "diff --fail-on new " + job + " " + job,
        "diff --fail-on new " + json + " " + json, "diff --error-exitcode 9 " + json + " " + job}) {
    INFO(line);
    const Finished finished = shell("CULPRIT " + line);
    CHECK(finished.exit_code == 4);
    CHECK(finished.out.compare(0, 11, "NOT KNOWN: ") == 0);
    CHECK(has(finished.out, reason));
  }
}

TEST_CASE("a dump whose hooks were never called says that nothing was recorded", "[report][not-recorded]") {
  DumpBuilder dump;
  dump.header().hook_calls = 0;
  const Report report = report_of(dump, FakeSymbols());
  CHECK(has(in_format(report, render_text), "NOT KNOWN: nothing was recorded"));
  CHECK(has(in_format(report, render_markdown), "### Not known: "));
  CHECK(has(in_format(report, render_junit), "none of its calls was seen"));
}
