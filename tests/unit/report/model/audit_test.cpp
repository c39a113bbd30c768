// The audit in the report: its lines, its verdict, its JSON, and merged reports.
#include "report/model/audit.h"

#include <nlohmann/json.hpp>

#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/model/not_recorded.h"
#include "report/render/json/render_json.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/in_format.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

class Audited {
 public:
  explicit Audited(AuditState state = AuditState::kOn) { dump_.header().audit_state = state; }

  Audited& add(const char* api, std::uint64_t calls, std::uint64_t not_recorded = 0, std::uint64_t bytes = 0,
               Ref stack = 0) {
    AuditRecord record = {};
    record.state = 1;
    record.function = dump_.add_string(api);
    record.stack = stack;
    record.calls = calls;
    record.not_recorded = not_recorded;
    record.bytes = bytes;
    dump_.add_audit(record);
    return *this;
  }
  Ref stack() {
    symbols_.add("/app", 0x101, "load", "train.cpp", 4);
    return dump_.add_stack({DumpBuilder::frame(dump_.add_module("/app"), 0x101)});
  }
  DumpBuilder& dump() { return dump_; }
  Report report() { return report_of(dump_, symbols_); }

 private:
  DumpBuilder dump_;
  FakeSymbols symbols_;
};

Report with_three_missing() {
  Audited audited;
  const Ref stack = audited.stack();
  audited.add("cuMemAlloc_v2", 10).add("cuMemAllocFromPoolAsync", 8, 4, 16 << 20);
  audited.add("cuMemAllocFromPoolAsync", 3, 3, 12 << 20, stack);
  return audited.report();
}

}  // namespace

TEST_CASE("an audit without a difference is one line, and changes no verdict", "[report][audit]") {
  const Report report = Audited().add("cuMemFree_v2", 4).add("cuMemAlloc_v2", 5).report();
  CHECK(verdict_of(report) == Verdict::kClean);
  const std::string text = in_format(report, render_text);
  CHECK(has(text, "\nAUDIT  9 calls of 2 functions: all recorded\n"));
  CHECK(has(text, "NOTHING LEAKED"));
  const Json audit = json_of(report).at("audit");
  CHECK(audit.at("calls") == 9);
  CHECK(audit.at("functions") == 2);
  CHECK(audit.at("problem").is_null());
  CHECK(audit.at("not_recorded").empty());
  CHECK(audit.at("by_function").at(0) == Json({{"api", "cuMemAlloc_v2"}, {"calls", 5}}));
}

TEST_CASE("calls that were not recorded make the verdict NOT KNOWN, in the first line", "[report][audit]") {
  const Report report = with_three_missing();
  CHECK(verdict_of(report) == Verdict::kNotKnown);
  const std::string text = in_format(report, render_text);
  CHECK(text.rfind("NOT KNOWN: the audit saw 4 calls of the driver that were not recorded: cuMemAllocFromPoolAsync 3x, "
                   "12.0 MiB, at train.cpp:4",
                   0) == 0);
  CHECK(has(text, "\nAUDIT  4 calls were not recorded: cuMemAllocFromPoolAsync 3x, 12.0 MiB, at train.cpp:4"));
  CHECK(has(text, "\n       cuMemAllocFromPoolAsync 1x, 4.00 MiB\n"));  // beyond the few stacks
  CHECK_FALSE(has(text, "NOTHING LEAKED"));
  const Json audit = json_of(report).at("audit");
  CHECK(audit.at("calls") == 18);
  REQUIRE(audit.at("not_recorded").size() == 2);
  CHECK(audit.at("not_recorded").at(0).at("count") == 3);
  CHECK(audit.at("not_recorded").at(0).at("bytes") == 12 << 20);
  CHECK(audit.at("not_recorded").at(0).at("stack").at(0).at("line") == 4);
  CHECK(audit.at("not_recorded").at(1).at("stack").empty());
}

TEST_CASE("a report without an audit says why, and a dump of an older version has none", "[report][audit]") {
  for (const auto& [state, words] : std::vector<std::pair<AuditState, const char*>>{
           {AuditState::kNotBegun, "no call of cuInit"},
           {AuditState::kNoCupti, "no libcupti was found: set CULPRIT_CUPTI"},
           {AuditState::kTaken, "another tool, such as a profiler, holds CUPTI"},
           {AuditState::kFailed, "CUPTI refused with error 39"},
           {AuditState::kForkParent, "the process was forked from one that had called cuInit"},
           {static_cast<AuditState>(99), "only a newer culprit knows"}}) {
    Audited audited(state);
    audited.dump().header().audit_error = 39;
    const Report report = audited.report();
    INFO(words);
    CHECK(verdict_of(report) == Verdict::kClean);
    const std::string text = in_format(report, render_text);
    CHECK(has(text, "\nAUDIT  no audit took place: "));
    CHECK(has(text, words));
    CHECK(has(json_of(report).at("audit").at("problem").get<std::string>(), words));
  }
  DumpBuilder older;
  const Report report = report_of(older, FakeSymbols());
  CHECK_FALSE(has(in_format(report, render_text), "AUDIT"));
  CHECK_FALSE(json_of(report).contains("audit"));
}

TEST_CASE("an audit that ended keeps its counts and says when", "[report][audit]") {
  Audited audited(AuditState::kEnded);
  audited.dump().header().audit_end_ns = 2'000'000'000;
  const std::string text = in_format(audited.add("cuMemAlloc_v2", 5).report(), render_text);
  CHECK(has(text, "\nAUDIT  5 calls of 1 function: all recorded; it ended at 2.00 s, when the program's own profiler"));
}

TEST_CASE("merged audits add up", "[report][audit][merge]") {
  ReportMerger merger;
  merger.add(with_three_missing());
  merger.add(with_three_missing());
  merger.add(Audited(AuditState::kTaken).report());
  const Report merged = merger.finish(false);
  CHECK(audited_calls(merged.audit) == 36);
  CHECK(merged.audit.functions.size() == 2);
  CHECK(merged.audit.not_audited == 1);
  REQUIRE(merged.audit.not_recorded.size() == 2);
  CHECK(merged.audit.not_recorded[0].count == 6);
  CHECK(merged.audit.not_recorded[1].count == 2);
  CHECK(verdict_of(merged) == Verdict::kNotKnown);
  CHECK(has(audit_headline(merged.audit), "none in 1 process"));
}
