// Lines that make executable graphs again and again and keep them, from the charges of a dump.
#include "report/judge/growing_graphs.h"

#include <sstream>

#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kOneMiB = 1 << 20;
constexpr std::uint64_t kSecond = 1'000'000'000;

// A line that made 40 executables in the 100 seconds of the program, and keeps them.
struct Executables {
  std::uint32_t made = 40;
  std::uint32_t live = 40;
  std::uint32_t most_live = 40;
  std::uint64_t grown = 39;
  std::uint64_t bytes = 546 * kOneMiB;
  std::uint64_t first_ns = 1 * kSecond;
  std::uint64_t last_ns = 99 * kSecond;
};

void add_call_charge_of(const Executables& line, const std::string& function, Program* program) {
  CallChargeRecord charge = {};
  charge.state = 1;
  charge.stack = program->stack({function, "main"}, 31);
  charge.api = program->dump.add_api("cuGraphInstantiateWithFlags");
  charge.what = DriverMemory::kGraphExecutables;
  charge.bytes = static_cast<std::int64_t>(line.bytes);
  charge.count = line.grown;
  charge.first_ns = line.first_ns;
  charge.last_ns = line.last_ns;
  charge.made = line.made;
  charge.live = line.live;
  charge.most_live = line.most_live;
  program->dump.add_call_charge(charge);
}

Report report_with(const std::vector<Executables>& lines, std::uint64_t unmeasured = 0, int rank = -1) {
  Program program;
  program.dump.header().end_time_ns = 100 * kSecond;
  program.dump.header().process_state = ProcessState::kExited;
  if (rank >= 0) {
    program.dump.header().rank = static_cast<std::uint32_t>(rank) + 1;
    program.dump.header().job_size = 2;
  }
  BalanceRecord balance = {};
  balance.state = 1;
  balance.moment = Moment::kExit;
  balance.total_bytes = 1000 * kOneMiB;
  balance.flags = kBalanceExecutables;
  balance.unmeasured = unmeasured;
  program.dump.add_balance(balance);
  for (const Executables& line : lines) add_call_charge_of(line, "serve", &program);
  return program.report();
}

std::string growing_lines(const Report& report, bool resources = false) {
  RenderOptions options;
  options.resources = resources;
  std::ostringstream text;
  render_text({report}, options, text);
  std::string found;
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) {
    if (has(line, "GRAPH EXECUTABLES GROW: ") || has(line, "  destroy them with ")) found += line + "\n";
  }
  return found;
}

}  // namespace

TEST_CASE("a line that makes executables all the time and keeps them is named", "[report][executables]") {
  CHECK(growing_lines(report_with({Executables()})) ==
        "GRAPH EXECUTABLES GROW: 40 kept, made at app.cu:31 (39 of 40 instantiations made the driver grow, 546 MiB)\n"
        "  destroy them with cuGraphExecDestroy, or update one with cuGraphExecUpdate\n");
  Executables gone;
  gone.live = 0;
  CHECK(has(growing_lines(report_with({gone}, 3)),
            "up to 40 kept at once, made at app.cu:31 (at least 39 of 40 instantiations made the driver grow"));
}

TEST_CASE("each condition is needed for a line to be named", "[report][executables]") {
  struct Row {
    const char* name;
    void (*change)(Executables& line);
    bool growing;
  };
  const Row row =
      GENERATE(Row{"a handful",
                   [](Executables& line) {
                     line.made = line.live = line.most_live = 8;
                     line.grown = 8;
                   },
                   false},
               Row{"fifteen", [](Executables& line) { line.made = line.live = line.most_live = 15; }, false},
               Row{"sixteen", [](Executables& line) { line.made = line.live = line.most_live = 16; }, true},
               Row{"mostly destroyed", [](Executables& line) { line.made = 500; }, false},
               Row{"half of them destroyed", [](Executables& line) { line.made = 80; }, true},
               Row{"small", [](Executables& line) { line.bytes = 31 * kOneMiB; }, false},
               Row{"mostly not measured", [](Executables& line) { line.grown = 8; }, true},
               Row{"one large one", [](Executables& line) { line.grown = 1; }, false},
               Row{"made at the start", [](Executables& line) { line.last_ns = 20 * kSecond; }, false},
               Row{"made in the first half", [](Executables& line) { line.last_ns = 50 * kSecond; }, false},
               Row{"made from the middle on", [](Executables& line) { line.first_ns = 60 * kSecond; }, true},
               Row{"damaged",
                   [](Executables& line) {
                     line.first_ns = ~0ULL;
                     line.last_ns = 0;
                     line.live = ~0U;
                   },
                   false});
  INFO(row.name);
  Executables line;
  row.change(line);
  const Report report = report_with({line});
  REQUIRE(report.call_charges.size() == 1);
  CHECK(report.call_charges[0].growing == row.growing);
  CHECK(report.call_charges[0].live <= report.call_charges[0].most_live);
  CHECK(growing_lines(report).empty() == !row.growing);
}

TEST_CASE("the stacks of one line are added up", "[report][executables]") {
  Executables few;
  few.made = few.live = few.most_live = few.grown = 12;
  few.bytes = 20 * kOneMiB;
  const Report report = report_with({few, few});
  const std::vector<ExecutableLine> lines = executable_lines(report);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].made == 24);
  CHECK(lines[0].most_live == 24);
  CHECK(lines[0].bytes == static_cast<std::int64_t>(40 * kOneMiB));
  CHECK(has(growing_lines(report), "24 kept, made at app.cu:31 (24 of 24"));
}

TEST_CASE("a merged job names the rank whose executables grow", "[report][executables]") {
  TemporaryFolder folder;
  ReportMerger merger;
  merger.add(report_with({}, 0, 0));
  merger.add(report_with({Executables()}, 0, 1));
  write_merged_file(folder.file("merged"), merger.finish(false));
  const Report report = read_merged_file(folder.file("merged"), {});
  REQUIRE(report.call_charges.size() == 1);
  CHECK(report.call_charges[0].most_live == 40);
  CHECK(has(growing_lines(report), "GRAPH EXECUTABLES GROW: rank 1: 40 kept, made at app.cu:31 ("));
  REQUIRE(report.balances.size() == 2);
  CHECK(report.balances[0].executables.known);
}
