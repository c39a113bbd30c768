// Breakdowns of the holders of memory: which of them are shown, in which order, and how.
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/model/report.h"
#include "report/render/html/render_html.h"
#include "report/render/json/render_json.h"
#include "report/render/render_markdown.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::format;
using culprit::test::has;
using culprit::test::page_data;
using culprit::test::Program;

namespace {

struct WithBreakdowns : Program {
  BreakdownRecord breakdown(BreakdownReason reason, std::uint8_t device, std::uint64_t time_ns,
                            const std::vector<std::pair<std::string, std::uint64_t>>& shares) {
    BreakdownRecord record = {};
    record.state = 1;
    record.reason = reason;
    record.device = device;
    record.time_ns = time_ns;
    std::size_t next = 0;
    for (const auto& [function, bytes] : shares) {
      record.shares[next++] = {stack({function, "main"}), dump.add_api("cuMemAlloc_v2"), Kind::kDevice, 0, bytes, 1};
      record.live_bytes += bytes;
      ++record.live_count;
    }
    return record;
  }
  void add_failure(std::uint64_t time_ns, std::uint64_t asked,
                   const std::vector<std::pair<std::string, std::uint64_t>>& shares) {
    BreakdownRecord record = breakdown(BreakdownReason::kOutOfMemory, 0, time_ns, shares);
    record.stack = stack({"load", "main"}, 12);
    record.api = dump.add_api("cuMemAlloc_v2");
    record.asked_bytes = asked;
    record.times = 3;
    record.total_bytes = 140ULL << 30;
    record.free_bytes = 9ULL << 30;
    record.other_bytes = 1 << 20;
    record.other_count = 7;
    record.other_stacks = 2;
    dump.add_breakdown(record);
  }
};

std::string text_of(const Report& report, bool peak, bool all = false) {
  RenderOptions options;
  options.at_peak = peak;
  options.all = all;
  std::ostringstream out;
  render_text({report}, options, out);
  return out.str();
}

}  // namespace

TEST_CASE("the last out of memory stands before everything else", "[report][breakdowns]") {
  WithBreakdowns program;
  program.add_failure(1000000000, 1 << 20, {{"early", 5000}});
  program.add_failure(2000000000, 8ULL << 30,
                      {{"a", 70000}, {"b", 60000}, {"c", 50000}, {"d", 40000}, {"e", 30000}, {"f", 20000}});
  program.dump.add_allocation(culprit::test::live_allocation(program.stack({"leak", "main"}), 4096));
  const Report report = program.report();
  REQUIRE(report.breakdowns.size() == 2);
  CHECK(report.breakdowns[0].asked_bytes == 8ULL << 30);
  const std::string text = text_of(report, false);
  CHECK(
      has(text,
          "OUT OF MEMORY: cuMemAlloc asked for 8.00 GiB at app.cu:12  load, at 2.00 s, the last of 3 times; 131 GiB of "
          "140 GiB of GPU 0 in use, 9.00 GiB free, 264 KiB by this process:\n"
          "   68.4 KiB  1x     cuMemAlloc  device  app.cu:10  a\n"));
  CHECK(has(text, "   1.02 MiB  8x     by 3 other places\n"));
  CHECK_FALSE(has(text, "early"));
  CHECK(text.find("OUT OF MEMORY") < text.find("LEAKED"));
  CHECK(has(text_of(report, false, true), "early"));
  std::ostringstream markdown;
  render_markdown({report}, RenderOptions(), markdown);
  CHECK(has(markdown.str(), "<pre>\nOUT OF MEMORY: cuMemAlloc asked for 8.00 GiB at app.cu:12  load"));
  CHECK(markdown.str().find("</pre>") < markdown.str().find("| leaked |"));
}

TEST_CASE("a failed allocation has one block in each format that explains it", "[report][breakdowns][failed]") {
  WithBreakdowns program;
  program.add_failure(2000000000, 8ULL << 30, {{"a", 70000}});
  Report report = program.report();
  FailedAllocation failed;
  failed.api = report.breakdowns[0].api;
  failed.code = 2;
  failed.code_name = "CUDA_ERROR_OUT_OF_MEMORY";
  failed.bytes = 8ULL << 30;
  failed.count = 3;  // as often as the breakdown says
  failed.stack = report.breakdowns[0].stack;
  report.failed_allocations = {failed};
  const auto markdown_of = [&] {
    std::ostringstream out;
    render_markdown({report}, RenderOptions(), out);
    return out.str();
  };
  const auto page_of = [&] {
    std::ostringstream out;
    render_html({report}, RenderOptions(), out);
    return nlohmann::json::parse(page_data(out.str()))["reports"][0];
  };
  CHECK_FALSE(has(text_of(report, false), "FAILED"));
  CHECK_FALSE(has(text_of(report, false), "\nfailed "));
  CHECK_FALSE(has(markdown_of(), "FAILED"));
  CHECK(page_of()["failed_allocations"].empty());
  CHECK_FALSE(page_of()["pictures"][0].contains("failed"));

  // More calls than the breakdown has, of which another one was the first.
  report.failed_allocations[0].count = 5;
  report.failed_allocations[0].bytes = 1ULL << 30;
  const std::string more = "5 allocations failed in all; the first asked for 1.00 GiB at app.cu:12  load";
  const std::string text = text_of(report, false);
  INFO(text);
  CHECK(has(text, "\nfailed  " + more + "\n"));
  CHECK_FALSE(has(text, "FAILED"));
  CHECK(has(markdown_of(), "failed  " + more));
  CHECK(page_of()["failed_allocations"].empty());
  CHECK(page_of()["pictures"][0]["failed"] == more);

  // Another call, another code, and a failure that was asked for stay lines of their own, above the verdict.
  for (const int row : {0, 1, 2}) {
    FailedAllocation apart = failed;
    if (row == 0) apart.api = "cuMemHostAlloc";
    if (row == 1) apart.code_name = "CUDA_ERROR_INVALID_VALUE";
    if (row == 2) apart.injected = true;
    report.failed_allocations = {apart};
    const std::string line = text_of(report, false);
    INFO(line);
    CHECK(has(line, "3 allocations FAILED: "));
    CHECK(line.find("FAILED") < line.find("NOTHING LEAKED"));
    CHECK(page_of()["failed_allocations"].size() == 1);
  }
}

TEST_CASE("the peak of each device is shown when it is asked for", "[report][breakdowns]") {
  WithBreakdowns program;
  program.dump.add_breakdown(program.breakdown(BreakdownReason::kPeak, 1, 3000000, {{"second", 2000}}));
  program.dump.add_breakdown(program.breakdown(BreakdownReason::kPeak, 0, 1000000, {{"lower", 1000}}));
  program.dump.add_breakdown(program.breakdown(BreakdownReason::kPeak, 0, 2000000, {{"higher", 9000}}));
  program.dump.add_breakdown(program.breakdown(static_cast<BreakdownReason>(9), 0, 2000000, {{"unknown", 99000}}));
  BreakdownRecord unfinished = program.breakdown(BreakdownReason::kPeak, 0, 1, {{"unfinished", 99000}});
  unfinished.state = 0;
  program.dump.add_breakdown(unfinished);
  program.dump.add_allocation(culprit::test::live_allocation(program.stack({"leak", "main"}), 4096));
  const Report report = program.report();
  REQUIRE(report.breakdowns.size() == 2);
  const std::string text = text_of(report, true);
  CHECK(has(
      text,
      "PEAK of GPU 0: 8.79 KiB in 1 allocation at 2.00 ms\n   8.79 KiB  1x     cuMemAlloc  device  app.cu:10  higher"));
  CHECK(text.find("PEAK of GPU 0") < text.find("PEAK of GPU 1"));
  CHECK(has(text, "approximate"));
  for (const char* absent : {"lower", "unknown", "unfinished", "app.cu:10  leak"}) CHECK_FALSE(has(text, absent));
  CHECK(has(text_of(report, false), "leak"));
  CHECK_FALSE(has(text_of(report, false), "PEAK"));
}

TEST_CASE("without a breakdown the peak says why", "[report][breakdowns]") {
  WithBreakdowns program;
  CHECK(has(text_of(program.report(), true), "no breakdown of the peak"));
}

TEST_CASE("breakdowns of a hostile dump lead nowhere and do no harm", "[report][breakdowns]") {
  WithBreakdowns program;
  BreakdownRecord record = program.breakdown(BreakdownReason::kOutOfMemory, 0xff, ~0ULL, {{"a", ~0ULL}});
  record.stack = 0xfffffff0;
  record.api = 0xffff;
  record.free_bytes = ~0ULL;
  record.total_bytes = 1;
  record.shares[1] = {0xfffffff0, 0xffff, static_cast<Kind>(200), 0, ~0ULL, ~0ULL};
  program.dump.add_breakdown(record);
  const Report report = program.report();
  REQUIRE(report.breakdowns.size() == 1);
  CHECK(report.breakdowns[0].memory.total_bytes == 0);
  CHECK(has(text_of(report, true), "OUT OF MEMORY"));
  std::ostringstream json;
  render_json({report}, json);
  CHECK_NOTHROW(nlohmann::json::parse(json.str()));
}
