// Allocations that failed: every format says which call failed, how often and why, and merged reports add them up.
#include "report/model/failed_allocation.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/render/html/render_html.h"
#include "report/render/json/render_json.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/in_format.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

struct Refusing : Program {
  Refusing& refuse(int code, std::uint64_t count, std::uint64_t first_ns, std::uint64_t bytes,
                   const std::string& function, std::uint8_t flags = 0, const char* api = "cuMemAlloc_v2") {
    FailedCallRecord record = {};
    record.state = 1;
    record.code = code;
    record.api = dump.add_api(api);
    record.stack = stack({function, "main"});
    record.count = count;
    record.first_ns = first_ns;
    record.last_ns = first_ns + 5;
    record.bytes = bytes;
    record.flags = flags;
    dump.add_failed_call(record);
    return *this;
  }
};

Report five_without_context() {
  return Refusing()
      .refuse(201, 2, 30, 8192, "later")
      .refuse(201, 3, 20, 4096, "earlier")
      .refuse(700, 9, 10, 0, "copy", 0, "cuMemcpyHtoD_v2")
      .report();
}

constexpr char kLine[] =
    "5 allocations FAILED: cuMemAlloc returned CUDA_ERROR_INVALID_CONTEXT (201): no context is current to the thread; "
    "the first asked for 4.00 KiB at app.cu:10";

}  // namespace

TEST_CASE("failed allocations are summed up by call and code, other failed calls are not", "[report][failed]") {
  const Report report = five_without_context();
  REQUIRE(report.failed_allocations.size() == 1);
  const FailedAllocation& failed = report.failed_allocations[0];
  CHECK(failed.api == "cuMemAlloc");
  CHECK(failed.code_name == "CUDA_ERROR_INVALID_CONTEXT");
  CHECK(failed.count == 5);
  CHECK(failed.bytes == 4096);
  CHECK(failed.first_ns == 20);
  CHECK(failed.last_ns == 35);
  CHECK(failed.stack->frames.front()->function == "earlier");
  CHECK_FALSE(failed.injected);
  CHECK(report.summary.failed_allocations == 5);
  CHECK(report.summary.groups == 0);
}

TEST_CASE("a call, a code, and whether culprit injected it make an entry of its own", "[report][failed]") {
  const Report report = Refusing()
                            .refuse(2, 1, 1, 100, "a")
                            .refuse(2, 4, 2, 100, "a", kFailedInjected)
                            .refuse(1, 2, 3, 100, "a")
                            .refuse(2, 3, 4, 100, "a", 0, "cuMemHostAlloc")
                            .report();
  std::vector<std::string> reasons;
  for (const FailedAllocation& failed : report.failed_allocations)
    reasons.push_back(std::to_string(failed.count) + " " + failed.api + ": " + failure_reason(failed));
  CHECK(reasons ==
        std::vector<std::string>{"4 cuMemAlloc: culprit made it fail (CULPRIT_FAIL)",
                                 "3 cuMemHostAlloc: there was not enough free memory",
                                 "2 cuMemAlloc: an argument is wrong: a size of 0 or beyond the device's memory, or a "
                                 "null pointer",
                                 "1 cuMemAlloc: there was not enough free memory"});
}

TEST_CASE("every format has a line about failed allocations", "[report][failed]") {
  const Report report = five_without_context();
  CHECK(has(in_format(report, render_text), kLine));
  CHECK(has(in_format(report, render_junit), std::string("<system-out>") + kLine));
  const std::string markdown = in_format(report, render_markdown);
  CHECK(has(markdown, "5 allocations FAILED: cuMemAlloc returned"));
  const Json sarif = Json::parse(in_format(report, render_sarif));
  const std::string notice =
      sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].get<std::string>();
  CHECK(has(notice, kLine));
  const Json page = Json::parse(page_data(in_format(report, render_html)))["reports"][0];
  CHECK(has(page["failed_allocations"][0].get<std::string>(), kLine));
  const Json json = json_of(report);
  CHECK(json["summary"]["failed_allocations"] == 5);
  REQUIRE(json["failed_allocations"].size() == 1);
  const Json& one = json["failed_allocations"][0];
  CHECK(one["api"] == "cuMemAlloc");
  CHECK(one["driver_api"] == "cuMemAlloc_v2");
  CHECK(one["code"] == 201);
  CHECK(one["code_name"] == "CUDA_ERROR_INVALID_CONTEXT");
  CHECK(one["reason"] == "no context is current to the thread");
  CHECK(one["injected"] == false);
  CHECK(one["count"] == 5);
  CHECK(one["bytes"] == 4096);
  CHECK(one["stack"][0]["function"] == "earlier");
}

TEST_CASE("a report of several processes adds up failed allocations, also from a file", "[report][failed][merge]") {
  std::vector<Report> reports = {Refusing().refuse(201, 2, 30, 8192, "a").report(),
                                 Refusing().refuse(201, 3, 20, 4096, "b").refuse(2, 9, 1, 7, "c").report()};
  TemporaryFolder folder;
  for (const bool reversed : {false, true}) {
    ReportMerger merger;
    merger.add(reports[reversed ? 1 : 0]);
    merger.add(reports[reversed ? 0 : 1]);
    write_merged_file(folder.file("merged"), merger.finish(false));
    const Report report = read_merged_file(folder.file("merged"), {});
    CHECK(report.summary.failed_allocations == 14);
    REQUIRE(report.failed_allocations.size() == 2);
    CHECK(report.failed_allocations[0].count == 9);
    CHECK(report.failed_allocations[1].count == 5);
    CHECK(report.failed_allocations[1].bytes == 4096);
    CHECK(report.failed_allocations[1].stack->frames.front()->function == "b");
  }
}

TEST_CASE("failed allocations before the chosen mark are left out", "[report][failed]") {
  Refusing program;
  program.refuse(201, 2, 30, 8192, "a").refuse(2, 3, 100, 1, "b");
  program.dump.add_mark("warm", MarkKind::kMark, 60);
  LoadOptions options;
  options.since_mark = "warm";
  const Report report = report_of(program.dump, program.symbols, options);
  REQUIRE(report.failed_allocations.size() == 1);
  CHECK(report.failed_allocations[0].code == 2);
}

TEST_CASE("a call that fails for want of memory counts, whatever it is for", "[report][failed]") {
  const Report report = Refusing().refuse(2, 2, 10, 0, "serve", 0, "cuGraphLaunch").report();
  REQUIRE(report.failed_allocations.size() == 1);
  CHECK(failed_allocation_text(report.failed_allocations[0]) ==
        "2 calls FAILED: cuGraphLaunch returned CUDA_ERROR_OUT_OF_MEMORY (2): there was not enough free memory; the "
        "first was made at app.cu:10  serve");
}
