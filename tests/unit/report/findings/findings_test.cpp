// Every row of findings.def in every format, in a merged job, in a diff, with a suppression, and with hostile names.
#include "report/findings/finding.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "report/commands/output_options.h"
#include "report/findings/headline.h"
#include "report/merge/join_sharings.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/model/not_recorded.h"
#include "report/model/sum_up.h"
#include "report/render/formats.h"
#include "report/render/json/finding_json.h"
#include "report/render/json/render_json.h"
#include "report/select/diff.h"
#include "report/select/selection.h"
#include "tests/catch.h"
#include "tests/support/pattern.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/findings/examples.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

using AddExample = void (*)(const Names& names, unsigned rank, Report* report);
constexpr AddExample kExamples[] = {
#define FINDING(enumerator, ...) add_example<FindingKind::enumerator>,
#include "report/findings/findings.def"
};

// Two ranks of a job with the example. The frames are this object's.
class Ranks {
 public:
  explicit Ranks(FindingKind kind, std::string function = "keep", std::string other = "cuThing", bool example = true) {
    frame_.function = std::move(function);
    frame_.file = "/src/" + (frame_.function == "keep" ? "app.cu" : frame_.function);
    frame_.line = 31;
    stack_.frames = {&frame_};
    for (unsigned rank = 0; rank < 2; ++rank) {
      Program program;
      program.dump.header().pid = 100 + rank;
      program.dump.header().rank = rank + 1;
      program.dump.header().job_size = 2;
      program.dump.header().process_state = culprit::format::ProcessState::kExited;
      Report report = program.report();
      report.process.executable = "/bin/app";
      report.process.command = {"/bin/app"};
      report.hook_called = true;
      if (example) kExamples[static_cast<std::size_t>(kind)]({&stack_, other}, rank, &report);
      sum_up(false, &report);
      reports_.push_back(std::move(report));
    }
    join_sharings({&reports_[0], &reports_[1]});
  }
  std::vector<Report>& reports() { return reports_; }
  // As `culprit merge` writes them, and `culprit report` reads them.
  Report merged() {
    ReportMerger merger;
    for (Report& report : reports_) merger.add(std::move(report));
    const TemporaryFolder folder;
    write_merged_file(folder.file("job.json"), merger.finish(false));
    Report job = read_merged_file(folder.file("job.json"), {});
    join_sharings({&job});
    return job;
  }

 private:
  Frame frame_;
  ResolvedStack stack_;
  std::vector<Report> reports_;
};

bool has_finding(const std::vector<Report>& reports, FindingKind kind) {
  return std::all_of(reports.begin(), reports.end(),
                     [&](const Report& report) { return findings_of(report, kind).size() == 1; });
}

std::string written(const std::vector<Report>& reports, const std::string& format) {
  RenderOptions options;
  options.all = true;  // the text has the section of what Python freed at its end
  std::ostringstream out;
  find_format(format)->write(reports, options, out);
  return format == "html" ? page_data(out.str()) : out.str();
}

unsigned own_part_of(const std::string& format) {
  return format == "text" ? kInText : format == "markdown" ? kInMarkdown : format == "html" ? kInPage : kNowhere;
}

// The text of a format without its escapes, in small letters: titles are capitals in some of them.
std::string plain(std::string text) {
  for (const auto& [from, to] : {std::pair("%3A", ":"), {"&gt;", ">"}, {"\\", ""}, {"&#95;", "_"}}) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
      text.replace(at, std::string(from).size(), to);
  }
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The begin of the finding's sentence, which says enough to find it.
std::string mark_of(const Finding& finding) {
  return plain(finding.headline.substr(0, std::min<std::size_t>(finding.headline.find_first_of(";,:("), 40)));
}

std::string text_of_schema() {
  std::ifstream file(std::string(CULPRIT_SOURCE_DIR) + "/report/SCHEMA.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

const char* const kReportFormats[] = {"text",  "json",   "html", "markdown", "sarif",
                                      "junit", "github", "gcc",  "perfetto"};

}  // namespace

TEST_CASE("every finding has its words in the documents and a class of --fail-on", "[report][findings][tables]") {
  const std::string schema = text_of_schema();
  const std::set<std::string> gates = {"",       "not-known", "leaks",       "new",
                                       "errors", "resources", "live-cached", "freed-at-end"};
  std::set<std::string> names;
  for (const FindingKind kind : kFindings) {
    const FindingRow& row = row_of(kind);
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(matches(row.name, "[a-z]+(-[a-z]+)*"));
    CHECK(matches(row.title, "[A-Z][A-Za-z ]+"));
    CHECK(gates.count(row.gate) == 1);
    CHECK((*row.one == '\0') == (*row.many == '\0'));
    const std::string gate = *row.gate == '\0' ? "-" : "`" + std::string(row.gate) + "`";
    CHECK(has(schema, "| `" + std::string(row.name) + "` | " + severity_name(row.severity) + " | " + gate + " | `" +
                          row.details + "` |"));
  }
}

TEST_CASE("every finding is in every format, of processes and of a merged job", "[report][findings]") {
  for (const FindingKind kind : kFindings) {
    const FindingRow& row = row_of(kind);
    INFO(row.name);
    Ranks none(kind, "keep", "cuThing", false);
    CHECK(findings_of(none.reports()[0]).empty());
    Ranks ranks(kind);
    std::vector<Report> jobs, none_jobs;
    jobs.push_back(Ranks(kind).merged());
    none_jobs.push_back(Ranks(kind, "keep", "cuThing", false).merged());
    CHECK(has_finding(ranks.reports(), kind));
    for (const bool merged : {false, true}) {
      INFO((merged ? "merged" : "two processes"));
      const std::vector<Report>& reports = merged ? jobs : ranks.reports();
      const auto without = [&](const char* format) { return written(merged ? none_jobs : none.reports(), format); };
      for (const Report& report : reports) {
        const std::vector<Finding> found = findings_of(report, kind);
        REQUIRE_FALSE(found.empty());
        CHECK(findings_of(report).size() >= found.size());
        for (const char* const format : kReportFormats) {
          INFO(format);
          const std::string text = written(reports, format);
          INFO(text.substr(0, 4000));
          INFO(mark_of(found.front()));
          // A part of the format's own has words of its own.
          const bool found_words = has(plain(text), mark_of(found.front()));
          CHECK((found_words || ((row.drawn & own_part_of(format)) != 0 && text != without(format))));
        }
      }
    }
  }
}

TEST_CASE("the members of a finding in JSON are documented by the list that writes them",
          "[report][findings][tables]") {
  CHECK(has(text_of_schema(), "\n| field | meaning |\n| --- | --- |\n" + finding_members_table() + "\n"));
}

TEST_CASE("the JSON of a finding leads to its details", "[report][findings]") {
  for (const FindingKind kind : kFindings) {
    const FindingRow& row = row_of(kind);
    INFO(row.name);
    Ranks ranks(kind);
    std::ostringstream out;
    render_json({ranks.reports()[0]}, out);
    const Json report = Json::parse(out.str());
    REQUIRE(report["findings"].size() == findings_of(ranks.reports()[0]).size());
    const auto at = std::find_if(report["findings"].begin(), report["findings"].end(),
                                 [&](const Json& one) { return one["finding"] == row.name; });
    REQUIRE(at != report["findings"].end());
    CHECK(report.contains(row.details));
    CHECK((*at)["details"] == row.details);
    CHECK((*at)["severity"] == severity_name(row.severity));
    CHECK((*at)["gate"] == (*row.gate == '\0' ? Json() : Json(row.gate)));
    for (const Json& place : (*at)["places"]) CHECK(place["stack"][0]["function"] == "keep");
  }
}

TEST_CASE("a finding makes the verdict not known only if its row says so", "[report][findings]") {
  for (const FindingKind kind : kFindings) {
    INFO(row_of(kind).name);
    Ranks ranks(kind);
    const Report& report = ranks.reports()[0];
    CHECK(is_complete(report) == !row_of(kind).makes_verdict_not_known());
    std::vector<std::string> reasons;
    for (const Finding& finding : findings_of(report)) {
      if (row_of(finding.kind).makes_verdict_not_known()) reasons.push_back(finding.headline);
    }
    CHECK(reasons == reasons_not_known(report));
    // JUnit is red, and SARIF's invocation failed, for these only.
    const bool complete = is_complete(report);
    CHECK(has(written({report}, "junit"), complete ? "failures=\"0\" errors=\"0\"" : "errors=\"1\""));
    const Json sarif = Json::parse(written({report}, "sarif"));
    CHECK(sarif["runs"][0]["invocations"][0]["executionSuccessful"] == complete);
    CHECK(sarif["runs"][0]["results"].empty());
    const std::string gcc = written({report}, "gcc");
    CHECK(has(gcc, ": error: ") == !complete);
    // And --fail-on counts a finding by its class alone.
    for (const std::string gate : {"leaks", "errors", "resources", "live-cached", "freed-at-end"}) {
      INFO(gate);
      OutputOptions options;
      options.fail_on = {gate};
      std::vector<Report> one;
      one.push_back(report);
      const int result = gate_result(one, options);
      CHECK(result == (gate == row_of(kind).gate ? 1 : complete ? 0 : 4));
    }
  }
}

TEST_CASE("every finding is in a diff: new, gone, and unchanged", "[report][findings][diff]") {
  for (const FindingKind kind : kFindings) {
    const FindingRow& row = row_of(kind);
    INFO(row.name);
    TemporaryFolder folder;
    const auto list_of = [&](const char* name, bool example) {
      Ranks ranks(kind, "keep", "cuThing", example);
      std::ofstream(folder.file(name)) << written(ranks.reports(), "json");
      return read_leak_list(folder.file(name), {});
    };
    const LeakList without = list_of("without.json", false);
    const LeakList with = list_of("with.json", true);
    RenderOptions options;
    std::ostringstream text, markdown, json, page;
    const Diff diff = diff_of(without, with, {});
    find_format("text")->write_diff(diff, options, text);
    find_format("markdown")->write_diff(diff, options, markdown);
    find_format("json")->write_diff(diff, options, json);
    find_format("html")->write_diff(diff, options, page);
    INFO(text.str());
    if (row.makes_verdict_not_known()) {
      CHECK(has(text.str(), "NOT KNOWN: "));
      CHECK(diff.findings.empty());
      continue;
    }
    REQUIRE_FALSE(diff.findings.empty());
    const std::string line = "new  " + in_capitals(diff.findings[0].finding.title) + ": ";
    CHECK(has(text.str(), line));
    CHECK(has(plain(markdown.str()), "- **new** " + plain(diff.findings[0].finding.title)));
    CHECK(Json::parse(json.str())["findings"][0]["change"] == "new");
    CHECK(Json::parse(json.str())["findings"][0]["finding"] == row.name);
    CHECK(Json::parse(page_data(page.str()))["findings"][0]["finding"] == row.name);
    CHECK(diff_of(with, without, {}).findings[0].change == Change::kGone);
    CHECK(diff_of(with, with, {}).findings[0].change == Change::kSame);
    // A baseline tells of no findings.
    LeakList baseline = without;
    baseline.findings.reset();
    CHECK(diff_of(baseline, with, {}).findings.empty());
  }
}

TEST_CASE("a suppression hides leaks, and a finding only with its entry of resources", "[report][findings]") {
  TemporaryFolder folder;
  std::ofstream(folder.file("some.supp")) << "kind:device\nleak:elsewhere\n";
  std::ofstream(folder.file("all.supp")) << "leak:*\n";
  for (const FindingKind kind : kFindings) {
    INFO(row_of(kind).name);
    for (const char* const file : {"some.supp", "all.supp"}) {
      INFO(file);
      Ranks ranks(kind);
      SelectionOptions options;
      options.suppressions = {folder.file(file)};
      Selection(options).apply(false, &ranks.reports());
      const bool hidden = std::string(file) == "all.supp" && std::string(row_of(kind).details) == "resources";
      CHECK(has_finding(ranks.reports(), kind) == !hidden);
    }
  }
}

TEST_CASE("names in a finding cannot harm a reader of any format", "[report][findings][hostile]") {
  const std::string evil = "a\x1b[2J\n::error::x\n</pre><script>|`\xe2\x80\xae\xff,b:c%0A]]>";
  for (const FindingKind kind : kFindings) {
    INFO(row_of(kind).name);
    Ranks ranks(kind, evil, evil);
    for (const Finding& finding : findings_of(ranks.reports()[0])) {
      for (const std::string& text : {finding.title, finding.headline, finding.hint}) CHECK(printable(text) == text);
      for (const std::string& text : finding.facts) CHECK(printable(text) == text);
    }
    for (const char* const format : kReportFormats) {
      INFO(format);
      const std::string text = written(ranks.reports(), format);
      if (std::string(format) == "perfetto") continue;  // its lengths are such bytes, too: see poison_test.cpp
      INFO(text.substr(0, 4000));
      CHECK_FALSE(has(text, "\x1b"));
      CHECK_FALSE(has(text, "\xe2\x80\xae"));
      CHECK_FALSE(has(text, "\xff"));
      CHECK_FALSE(has(text, "\n::error::x"));
      const std::string name = format;
      if (name == "markdown" || name == "junit") CHECK_FALSE(has(text, "</pre><script>|"));
      if (name == "junit") CHECK_FALSE(has(text, "]]>"));
    }
  }
}

TEST_CASE("a list has the first findings of each row, and the number of the others", "[report][findings]") {
  Ranks ranks(FindingKind::kStrayContext);
  Report& report = ranks.reports()[0];
  report.contexts.assign(25, report.contexts.front());
  CHECK(findings_of(report).size() == 25);
  const std::vector<Finding> shown = shown_findings(report, kNowhere);
  REQUIRE(shown.size() == 20);
  CHECK(shown.back().more == 5);
  RenderOptions options;
  std::ostringstream text;
  find_format("text")->write({report}, options, text);
  CHECK(has(text.str(), "  and 17 more of this kind: --all\n"));
  CHECK(has(written({report}, "junit"), "  and 5 more of this kind\n"));
}
