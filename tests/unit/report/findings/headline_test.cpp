// Headlines: in every format bad things stand before the words that nothing leaked.
#include "report/findings/headline.h"

#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/model/not_recorded.h"
#include "report/render/html/render_html.h"
#include "report/render/render_gcc.h"
#include "report/render/render_github.h"
#include "report/render/render_markdown.h"
#include "report/render/text/render_survivors.h"
#include "report/render/text/render_sweep.h"
#include "report/render/text/render_text.h"
#include "report/run/sweep.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/in_format.h"
#include "tests/unit/report/page_data.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

Report clean() {
  Program program;
  Report report = program.report();
  report.process.executable = "/bin/app";
  return report;
}

Report with_bad_frees(std::uint64_t count) {
  Report report = clean();
  report.summary.errors = count;
  return report;
}

std::string survivors(const Report& report) {
  std::ostringstream out;
  render_survivors(report, RenderOptions(), out);
  return out.str();
}

std::string page_title(const std::vector<Report>& reports) {
  std::ostringstream out;
  render_html(reports, RenderOptions(), out);
  const std::string page = out.str();
  const std::size_t begin = page.find("<title>") + 7;
  return page.substr(begin, page.find("</title>") - begin);
}

// The lines of a sweep above its findings.
std::string head_of(const Sweep& sweep) {
  std::ostringstream out;
  render_sweep_text(sweep, RenderOptions(), out);
  const std::string text = out.str();
  return text.substr(0, text.find("\n\n") + 1);
}

// `count` runs that ended so.
Sweep sweep_with(std::size_t count, SweepOutcome outcome) {
  Sweep sweep;
  sweep.command = {"app"};
  sweep.sites = count;
  sweep.runs.resize(count);
  for (SweepRun& run : sweep.runs) run.outcome = outcome;
  return sweep;
}

void add_finding(const std::shared_ptr<const Report>& report, bool is_error, Sweep* sweep) {
  SweepFinding finding;
  finding.report = report;
  finding.is_error = is_error;
  if (is_error) {
    finding.error = report->errors.front();
  } else {
    finding.leak = report->leaks.front();
  }
  finding.runs = {0};
  sweep->findings.push_back(finding);
}

std::string all_in(const std::vector<Report>& reports, Render render) {
  std::ostringstream out;
  render(reports, RenderOptions(), out);
  return out.str();
}

}  // namespace

TEST_CASE("each finding that is no leak stands before the reassurance, in every format", "[report][headline]") {
  struct Row {
    const char* words;
    void (*add)(Report*);
    bool above_text;  // the text report has told of it above its headline
  };
  const Row rows[] = {
      {"1 bad free", [](Report* report) { report->summary.errors = 1; }, false},
      {"2 bad frees", [](Report* report) { report->summary.errors = 2; }, false},
      {"graph executables grow",
       [](Report* report) {
         static const ResolvedStack kUnknown;
         CallCharge charge;
         charge.what = BalancePart::kGraphExecutables;
         charge.made = 1;
         charge.growing = true;
         charge.stack = &kUnknown;
         report->call_charges.push_back(charge);
       },
       false},
      {"killed by SIGSEGV",
       [](Report* report) {
         report->process.status.ended = Ended::kKilled;
         report->process.status.signal = 11;
       },
       true},
  };
  for (const Row& row : rows) {
    INFO(row.words);
    Report report = clean();
    row.add(&report);
    CHECK(headline_findings(report) == std::vector<std::string>{row.words});
    CHECK(headline_findings(report, EndAndFailures::kTold).empty() == row.above_text);
    const std::string capitals = in_capitals(row.words);
    CHECK(verdict_without_leaks(report) == capitals + " · NOTHING LEAKED");
    std::string sentence = std::string(row.words) + ", nothing leaked";
    sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
    CHECK(sentence_without_leaks({&report}) == sentence);
    const std::string text = in_format(report, render_text);
    CHECK(has(text, row.above_text ? "\nNOTHING LEAKED · 0 allocations"
                                   : "\n" + capitals + " · NOTHING LEAKED · 0 allocations"));
    CHECK(has(survivors(report), "\n" + capitals + " · NOTHING LEAKED · 0 allocations"));
    CHECK(in_format(report, render_github).rfind("culprit: process 4242: " + capitals + " · NOTHING LEAKED\n", 0) == 0);
    CHECK(has(in_format(report, render_gcc), ": " + capitals + " · NOTHING LEAKED\n"));
    CHECK(in_format(report, render_markdown).rfind("### " + sentence + ": ", 0) == 0);
    CHECK(page_title({report}).rfind(sentence + " · app · culprit", 0) == 0);
  }
}

TEST_CASE("allocations that failed stand before the reassurance", "[report][headline]") {
  Report report = clean();
  static const ResolvedStack kUnknown;
  FailedAllocation failed;
  failed.api = "cuMemAlloc";
  failed.bytes = 100;
  failed.count = 3;
  failed.stack = &kUnknown;
  report.failed_allocations.push_back(failed);
  const std::string text = in_format(report, render_text);
  INFO(text);
  CHECK(text.find("3 allocations FAILED") < text.find("NOTHING LEAKED"));
  CHECK(has(text, "\nNOTHING LEAKED"));  // not said twice
  CHECK(in_format(report, render_github) ==
        "culprit: process 4242: 3 ALLOCATIONS FAILED · NOTHING LEAKED\n"
        "::warning title=culprit%3A 3 allocations FAILED (app)::3 allocations FAILED: cuMemAlloc returned  (0): the "
        "driver refused it; the first asked for 100 B\n");
  CHECK(in_format(report, render_markdown).rfind("### 3 allocations failed, nothing leaked: ", 0) == 0);
  CHECK(page_title({report}).rfind("3 allocations failed, nothing leaked · ", 0) == 0);
  report.failed_allocations[0].injected = true;  // asked for
  CHECK(headline_findings(report).empty());
}

TEST_CASE("beside leaks the other findings are in the headline, too", "[report][headline]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"leak", "main"}), 4096));
  Report report = program.report();
  report.summary.errors = 2;
  CHECK(has(in_format(report, render_text), "LEAKED 4.00 KiB in 1 allocation, 1 group · 2 BAD FREES\n"));
  CHECK(in_format(report, render_markdown).rfind("### Leaked 4.00 KiB, 2 bad frees: ", 0) == 0);
}

TEST_CASE("a process with a finding stands before one without", "[report][headline]") {
  Report first = clean();
  first.process.pid = 1;
  first.summary.allocations = 1;
  Report second = with_bad_frees(1);
  second.process.pid = 2;
  for (const Render render :
       {Render(render_text), Render(render_markdown), Render(render_github), Render(render_gcc)}) {
    std::string text = in_capitals(all_in({first, second}, render));
    INFO(text);
    CHECK(text.find("1 BAD FREE") < text.find("NOTHING LEAKED"));
    const std::size_t clean_one = text.find("NOTHING LEAKED", text.find("NOTHING LEAKED") + 1);
    CHECK(clean_one != std::string::npos);
  }
  CHECK(page_title({first, second}) == "1 bad free, nothing leaked · 2 processes · culprit");
  const auto page = nlohmann::json::parse(page_data(all_in({first, second}, render_html)));
  CHECK(page["reports"][0]["in_headline"].empty());
  CHECK(page["reports"][1]["in_headline"] == nlohmann::json{"1 bad free"});
}

TEST_CASE("numbers that are 0 are not in the report's first lines", "[report][headline]") {
  Report report = clean();
  CHECK_FALSE(has(in_format(report, render_text), "not counted"));
  const std::string markdown = in_format(report, render_markdown);
  CHECK_FALSE(has(markdown, "0 bad frees"));
  CHECK_FALSE(has(markdown, "cached"));
  report.summary.late_frees = 1;
  CHECK(has(in_format(report, render_text), "\nnot counted: 1 release refused at exit (no leak)\n"));
  report.summary.cached_bytes = 1024;
  CHECK(has(in_format(report, render_text), "\nnot counted: 1.00 KiB cached · 1 release refused at exit (no leak)\n"));
}

TEST_CASE("the headline of a sweep says bad things first, and no number that is 0", "[report][headline][sweep]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"leak", "main"}), 4096));
  ErrorRecord bad_free = {};
  bad_free.state = 1;
  bad_free.type = ErrorType::kDoubleFree;
  bad_free.count = 1;
  program.dump.add_error(bad_free);
  const auto report = std::make_shared<const Report>(program.report());
  const std::string title = "culprit sweep · app · 2 allocation sites, 2 runs\n";

  Sweep sweep = sweep_with(2, SweepOutcome::kFine);
  CHECK(head_of(sweep) == title + "NOTHING NEW LEAKED\n");
  sweep = sweep_with(2, SweepOutcome::kCrash);
  CHECK(head_of(sweep) == title + "2 crashes · no new leak\n");
  sweep = sweep_with(2, SweepOutcome::kHang);
  CHECK(head_of(sweep) == title + "2 hangs · no new leak\n");
  sweep = sweep_with(2, SweepOutcome::kFound);
  add_finding(report, true, &sweep);
  CHECK(head_of(sweep) == title + "1 bad free that the clean run does not have · no new leak\n");
  add_finding(report, false, &sweep);
  sweep.runs[1].outcome = SweepOutcome::kCrash;
  const std::string all =
      "1 leak that the clean run does not have · 1 bad free that the clean run does not have · 1 crash";
  CHECK(head_of(sweep) == title + all + "\n");
  sweep.runs[0].not_known.emplace_back("the disk was full");
  CHECK(head_of(sweep) == "NOT KNOWN: 1 run: the disk was full\n" + title + all + " · NOT KNOWN what else\n");
  sweep = sweep_with(2, SweepOutcome::kFine);
  sweep.runs[0].not_known.emplace_back("the disk was full");
  CHECK(head_of(sweep) ==
        "NOT KNOWN: 1 run: the disk was full\n" + title + "NOT KNOWN: no new leak among the recorded allocations\n");
  sweep = sweep_with(2, SweepOutcome::kNotReached);
  CHECK(has(head_of(sweep), "\nNOT KNOWN: no new leak among the recorded allocations\n"));
}

TEST_CASE("culprit top says bad things before what is held, and no number that is 0", "[report][headline][top]") {
  const TemporaryFolder folder;
  const auto top_of = [&](Program& program) {
    program.dump.write(folder.file("a.dump"));
    return shell("CULPRIT top " + folder.file("a.dump")).out;
  };
  Program program;
  const std::string clean = top_of(program);
  INFO(clean);
  CHECK(has(clean, "\n(nothing is held)\n"));
  for (const char* word : {"NOT KNOWN", "BAD FREE", "FAILED", "\n0 ", " 0 "}) CHECK_FALSE(has(clean, word));
  ErrorRecord bad_free = {};
  bad_free.state = 1;
  bad_free.type = ErrorType::kDoubleFree;
  bad_free.count = 2;
  program.dump.add_error(bad_free);
  program.dump.header().dropped_allocations = 3;
  const std::string bad = top_of(program);
  INFO(bad);
  CHECK(has(bad, "\nNOT KNOWN: 3 allocations not recorded"));
  CHECK(bad.find("\n2 BAD FREES\n") < bad.find("\nBYTES "));
  CHECK(bad.find("\nNOT KNOWN: ") < bad.find("\nBYTES "));
  CHECK(has(bad, "\n(nothing that was recorded is held)\n"));
}
