// The limits of formats that have some: reports with more than their readers accept.
#include <zlib.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "report/render/html/render_diff_html.h"
#include "report/render/html/render_html.h"
#include "report/render/render_markdown.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_diff.h"
#include "report/select/diff.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::format;
using Json = nlohmann::json;

namespace {

// A report without a dump.
struct Made {
  std::deque<Frame> frames;
  std::deque<ResolvedStack> stacks;
  Report report;
  std::mt19937_64 random{1};

  explicit Made(const std::string& executable = "/bin/app", std::uint32_t pid = 1) {
    report.process.executable = executable;
    report.process.pid = pid;
    report.process.host = "node7";
    report.process.status.ended = Ended::kExit;
    report.hook_called = true;
  }

  // A name that is hard to compress.
  std::string random_name(std::size_t length) {
    std::string name;
    while (name.size() < length) name += static_cast<char>('!' + random() % 94);
    return name;
  }

  const ResolvedStack* stack(std::size_t depth, std::size_t name_bytes = 8) {
    ResolvedStack made;
    for (std::size_t i = 0; i < depth; ++i) {
      Frame frame;
      frame.function = random_name(name_bytes);
      frame.file = "/src/app.cu";
      frame.line = static_cast<unsigned>(i + 1);
      frames.push_back(frame);
      made.frames.push_back(&frames.back());
    }
    made.caller = made.frames.empty() ? nullptr : made.frames.front();
    stacks.push_back(made);
    return &stacks.back();
  }

  // The largest first, as in every report; ids from "id0".
  void add_leaks(std::size_t count, const ResolvedStack* one_stack, std::size_t depth = 0, std::size_t name_bytes = 8) {
    for (std::size_t i = 0; i < count; ++i) {
      Group group;
      group.id = "id" + std::to_string(report.leaks.size());
      group.api = "cudaMalloc";
      group.kind = Kind::kDevice;
      group.count = 1;
      group.bytes = 1000000000 - report.leaks.size();
      group.stack = one_stack != nullptr ? one_stack : stack(depth, name_bytes);
      report.leaks.push_back(std::move(group));
    }
    report.summary.groups = report.leaks.size();
  }
};

template <typename Render>
std::string output_of(const std::vector<Report>& reports, Render render, RenderOptions options = {}) {
  std::ostringstream out;
  render(reports, options, out);
  return out.str();
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::size_t gzip_bytes(const std::string& text) {
  z_stream z = {};
  REQUIRE(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  const std::size_t bytes = z.total_out;
  deflateEnd(&z);
  return bytes;
}

}  // namespace

TEST_CASE("SARIF has as many results as code scanning takes, the largest", "[report][scale]") {
  Made made;
  made.add_leaks(26000, made.stack(1));
  std::vector<std::string> left_out;
  RenderOptions options;
  options.left_out = &left_out;
  const std::string text = output_of({made.report}, render_sarif, options);
  CHECK(count_of(text, "\"ruleId\"") == 25000);
  CHECK(count_of(text, "\"id24999\"") == 1);
  CHECK(count_of(text, "\"id25000\"") == 0);
  REQUIRE(left_out.size() == 1);
  CHECK(left_out.front().find("10 MB, compressed: the 1000 smallest leaks (") != std::string::npos);
  CHECK(text.find("\"text\": \"" + left_out.front()) != std::string::npos);
}

TEST_CASE("SARIF takes bad frees before leaks", "[report][scale]") {
  Made made;
  made.add_leaks(26000, made.stack(1));
  for (unsigned i = 0; i < 7000; ++i) {
    ErrorGroup error;
    error.type = ErrorType::kDoubleFree;
    error.api = "cudaFree";
    error.stack = made.report.leaks.front().stack;
    made.report.errors.push_back(error);
  }
  const std::string text = output_of({made.report}, render_sarif);
  CHECK(count_of(text, "\"ruleId\"") == 25000);
  CHECK(count_of(text, "\"ruleId\": \"error/double-free\"") == 6250);
  CHECK(text.find("smallest leaks (") != std::string::npos);
  CHECK(text.find(" and 750 bad frees of app; ") != std::string::npos);
}

TEST_CASE("SARIF is small enough when compressed, and valid", "[report][scale]") {
  Made made;
  made.add_leaks(6000, nullptr, 20, 120);
  const std::string text = output_of({made.report}, render_sarif);
  const std::size_t packed = gzip_bytes(text);
  CHECK(packed < 10000000);
  CHECK(packed > 8000000);
  const std::size_t results = count_of(text, "\"ruleId\"");
  CHECK(results < 6000);
  CHECK(Json::accept(text));
  CHECK(text.find(": the " + std::to_string(6000 - results) + " smallest leaks (") != std::string::npos);
}

TEST_CASE("SARIF has one run for the processes of a program, and results say which", "[report][scale]") {
  Made first("/bin/app", 7);
  Made second("/opt/bin/app", 8);
  Made other("/bin/other", 9);
  second.report.process.rank = 3;
  first.add_leaks(1, first.stack(2));
  second.add_leaks(1, second.stack(2));
  other.add_leaks(1, other.stack(2));
  second.report.leaks.front().bytes = 5000000000;
  const Json log = Json::parse(output_of({first.report, second.report, other.report}, render_sarif));
  REQUIRE(log["runs"].size() == 2);
  const Json& run = log["runs"][0];
  CHECK(run["automationDetails"]["id"] == "culprit/app/1");
  REQUIRE(run["invocations"].size() == 2);
  CHECK(run["invocations"][0]["processId"] == 7);
  CHECK(run["invocations"][1]["processId"] == 8);
  CHECK(run["invocations"][1]["properties"]["rank"] == 3);
  REQUIRE(run["results"].size() == 2);
  CHECK(run["results"][0]["provenance"]["invocationIndex"] == 1);
  CHECK(run["results"][0]["message"]["text"].get<std::string>().find(" In rank 3.") != std::string::npos);
  CHECK(run["results"][1]["provenance"]["invocationIndex"] == 0);
  CHECK(run["results"][1]["message"]["text"].get<std::string>().find(" In process 7 on node7.") != std::string::npos);
  CHECK(log["runs"][1]["automationDetails"]["id"] == "culprit/other/1");
  CHECK(!log["runs"][1]["results"][0].contains("provenance"));
}

TEST_CASE("SARIF of a merged job has an invocation for each process", "[report][scale]") {
  Made made;
  made.report.process.rank = 0;
  for (unsigned rank = 0; rank < 3; ++rank) {
    JobProcess process;
    process.pid = 100 + rank;
    process.rank = rank;
    process.host = "node" + std::to_string(rank);
    made.report.job.push_back(process);
  }
  made.add_leaks(1, made.stack(2));
  made.report.leaks.front().shares = {{1, 4096, 1}, {2, 4096, 1}};
  const Json log = Json::parse(output_of({made.report}, render_sarif));
  const Json& run = log["runs"].at(0);
  REQUIRE(run["invocations"].size() == 3);
  CHECK(run["invocations"][2]["processId"] == 102);
  CHECK(run["invocations"][2]["machine"] == "node2");
  CHECK(run["invocations"][2]["properties"]["rank"] == 2);
  const Json& result = run["results"].at(0);
  CHECK(result["provenance"]["invocationIndex"] == 1);
  CHECK(result["properties"]["processes"] == "ranks 1, 2");
  CHECK(result["message"]["text"].get<std::string>().find(" In 2 of 3 ranks: ") != std::string::npos);
}

TEST_CASE("SARIF has at most 20 runs", "[report][scale]") {
  std::deque<Made> made;
  std::vector<Report> reports;
  for (unsigned i = 0; i < 25; ++i) {
    made.emplace_back("/bin/app" + std::to_string(i), i + 1).add_leaks(1, nullptr, 1);
    reports.push_back(made.back().report);
  }
  const Json log = Json::parse(output_of(reports, render_sarif));
  REQUIRE(log["runs"].size() == 20);
  CHECK(log["runs"][19]["automationDetails"]["id"] == "culprit/other programs/1");
  CHECK(log["runs"][19]["invocations"].size() == 6);
  CHECK(log["runs"][19]["results"].size() == 6);
}

TEST_CASE("a result of SARIF has as many locations and frames as code scanning takes", "[report][scale]") {
  Made made;
  made.add_leaks(1, made.stack(3000));
  for (unsigned i = 0; i < 150; ++i) {
    Evidence evidence;
    evidence.type = EvidenceType::kFailedFree;
    evidence.code_name = "CUDA_ERROR_INVALID_VALUE";
    evidence.count = 1;
    evidence.stack = made.stack(1);
    made.report.leaks.front().evidence.push_back(evidence);
  }
  const Json log = Json::parse(output_of({made.report}, render_sarif));
  const Json& result = log["runs"].at(0)["results"].at(0);
  const std::size_t frames = result["stacks"].at(0)["frames"].size();
  CHECK(frames <= 1000);
  CHECK(result["properties"]["framesLeftOut"] == 3000 - frames);
  CHECK(result["locations"].size() + result["relatedLocations"].size() == 100);
  CHECK(result["properties"]["relatedLocationsLeftOut"] == 51);
}

TEST_CASE("Markdown of many leaks is small enough for a job summary, and says what is missing", "[report][scale]") {
  Made made;
  made.add_leaks(20000, nullptr, 3, 60);
  RenderOptions options;
  options.all = true;
  std::vector<std::string> left_out;
  options.left_out = &left_out;
  const std::string text = output_of({made.report}, render_markdown, options);
  CHECK(text.size() < (1 << 20));
  CHECK(text.size() > 800000);
  const std::size_t rows = count_of(text, " | cudaMalloc | ");
  const std::size_t details = count_of(text, "<details>");
  CHECK(rows < 20000);
  CHECK(details < rows);
  CHECK(count_of(text, "</details>") == details);
  const std::string missing = "the " + std::to_string(20000 - rows) + " smallest groups of leaks, the stacks of " +
                              std::to_string(rows - details) + " other groups";
  CHECK(text.find("**Left out**, because job summaries are limited to 1 MiB: " + missing) != std::string::npos);
  REQUIRE(left_out.size() == 1);
  CHECK(left_out.front().find(missing) != std::string::npos);
}

TEST_CASE("Markdown of many processes, bad frees and notes is small enough", "[report][scale]") {
  Made made;
  made.add_leaks(10, nullptr, 3, 60);
  ErrorGroup error;
  error.type = ErrorType::kDoubleFree;
  error.api = "cudaFree";
  error.stack = made.report.leaks.front().stack;
  made.report.errors.assign(3000, error);
  made.report.notes.assign(3000, std::string(100, 'n'));
  made.report.process.command = {std::string(100000, 'c')};
  const std::string one = output_of({made.report}, render_markdown);
  CHECK(one.size() < (1 << 20));
  CHECK(one.find("**Left out**, because job summaries are limited to 1 MiB: ") != std::string::npos);
  CHECK(one.find(" notes\n") != std::string::npos);
  made.report.process.command = {"app"};
  const std::string many = output_of(std::vector<Report>(1500, made.report), render_markdown);
  CHECK(many.size() < (1 << 20));
  CHECK(many.find("the reports of ") != std::string::npos);
}

TEST_CASE("a page stays below 25 MB: the smallest leaks lose their details first", "[report][scale]") {
  Made made;
  made.add_leaks(20000, nullptr, 20, 100);
  std::vector<std::string> left_out;
  RenderOptions options;
  options.left_out = &left_out;
  const std::string page = output_of({made.report}, render_html, options);
  CHECK(page.size() < 25000000);
  CHECK(page.size() > 14000000);
  const std::string data = culprit::test::page_data(page);
  const std::size_t shortened = count_of(data, "\"shortened\":true");
  CHECK(count_of(data, "\"id\":\"id") == 20000);
  CHECK(shortened > 0);
  CHECK(shortened < 20000);
  CHECK(data.find("\"leaks_shortened\": " + std::to_string(shortened)) != std::string::npos);
  CHECK(data.find("\"shortened\":true") > data.find("\"id\":\"id100\""));
  REQUIRE(left_out.size() == 1);
  CHECK(left_out.front().find("stacks and details of " + std::to_string(shortened) + " entries of leaks") !=
        std::string::npos);
}

TEST_CASE("a page of many processes, bad frees and marks stays below 25 MB", "[report][scale]") {
  Made made;
  made.add_leaks(100, nullptr, 10, 50);
  ErrorGroup error;
  error.type = ErrorType::kDoubleFree;
  error.api = "cudaFree<>";
  error.stack = made.report.leaks.front().stack;
  made.report.errors.assign(30000, error);
  MarkInfo mark;
  mark.name = std::string(200, '<');
  made.report.marks.assign(20000, mark);
  RenderOptions options;
  options.source = false;
  const std::string page = output_of(std::vector<Report>(3, made.report), render_html, options);
  CHECK(page.size() < 25000000);
  const Json data = Json::parse(culprit::test::page_data(page));
  REQUIRE(data["reports"].size() == 3);
  const Json& report = data["reports"][2];
  CHECK(report["leaks"].size() == 100);
  CHECK(report["errors"].size() + report["errors_left_out"]["groups"].get<std::size_t>() == 30000);
  CHECK(report["trimmed"].at(0) == "Of 20000 entries in marks the first are in this page only.");

  made.report.errors.clear();
  made.report.marks.clear();
  const std::string many = output_of(std::vector<Report>(1000, made.report), render_html, options);
  CHECK(many.size() < 25000000);
  CHECK(many.find("\"reports_left_out\": ") != std::string::npos);
}

TEST_CASE("the page of a diff stays below 25 MB, and says what is missing", "[report][scale]") {
  Made made;
  made.add_leaks(20000, nullptr, 20, 100);
  Diff diff;
  for (const Group& group : made.report.leaks) {
    ListedLeak& listed = diff.now.leaks[group.id];
    listed.leak.bytes = group.bytes;
    listed.leak.count = group.count;
    listed.frames = group.stack->frames;
    DiffEntry entry;
    entry.id = group.id;
    entry.change = Change::kNew;
    entry.now = &listed;
    diff.entries[static_cast<std::size_t>(Change::kNew)].push_back(entry);
  }
  std::ostringstream out;
  render_diff_html(diff, out);
  CHECK(out.str().size() < 25000000);
  const std::string data = culprit::test::page_data(out.str());
  const std::size_t shown = count_of(data, "\"change\":\"new\"");
  CHECK(shown < 20000);
  CHECK(shown > 5000);
  CHECK(data.find("\"left_out\": " + std::to_string(20000 - shown)) != std::string::npos);

  RenderOptions options;
  options.all = true;
  std::ostringstream markdown;
  render_diff_markdown(diff, options, markdown);
  CHECK(markdown.str().size() < (1 << 20));
  CHECK(markdown.str().find("**Left out**, because job summaries are limited to 1 MiB: ") != std::string::npos);
}
