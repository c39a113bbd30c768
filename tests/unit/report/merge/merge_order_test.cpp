// A merged file has the same bytes whatever the order and the parts in which a job's dumps were merged: threads and the
// ranks of `culprit merge` take them as they come.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr unsigned kRanks = 9;

// Its leaks have equal sizes and times, so that nothing but their places tells them apart.
Report rank_report(unsigned number) {
  Program program;
  for (unsigned i = 0; i < number; ++i) program.stack({"elsewhere"});
  program.dump.header().pid = 1000 + number;
  program.dump.header().rank = number + 1;
  program.dump.header().job_size = kRanks;
  std::vector<std::string> functions = {"first", "second", "third", "fourth"};
  std::rotate(functions.begin(), functions.begin() + number % 4, functions.end());
  for (const std::string& function : functions) {
    program.dump.add_allocation(live_allocation(program.stack({function, "main"}), 1000));
    program.dump.add_allocation(live_allocation(program.stack({function, "main"}), 0, Kind::kStream));
  }
  return program.report();
}

CacheInside cache_of(unsigned number, std::size_t places) {
  CacheInside inside;
  inside.pool = number % 2 == 0 ? "PyTorch caching allocator" : "CuPy memory pool";
  inside.taken = number % 3 == 0 ? "snapshot" : "exit";
  inside.hint = number % 3 == 1 ? "a hint" : "";
  for (std::size_t i = 0; i < places; ++i) {
    // Small in each rank; the same line in several ranks is large in the job.
    const std::size_t line = (i * 7 + number * 400) % 1700;
    inside.largest.push_back({1000 + line % 5, 1, "train.py", line, "step", ""});
    inside.kept.push_back({KeeperKind::kNotKnown, "`x" + std::to_string(line % 600) + "`", 10 + line % 3, 1, "", "id"});
    inside.live_bytes += 1000 + line % 5;
  }
  return inside;
}

// Facts that a real process has seldom, each in another one.
std::vector<Report> odd_job() {
  std::vector<Report> ranks;
  for (unsigned number = 0; number < kRanks; ++number) {
    Report report = rank_report(number);
    report.caches_inside = {cache_of(number, 600)};
    report.ran_out = {cache_of(number + 1, 20)};
    report.unseen = {{"/bin/user" + std::to_string(number % 4), number % 2 == 0, false}};
    report.audit.state = number % 3 == 0 ? AuditState::kFailed : AuditState::kOn;
    report.audit.error = static_cast<int>(number);
    report.audit.functions = {{"cuMemAlloc_v2", 1}};
    for (const Group& group : report.leaks) report.audit.not_recorded.push_back({"cuMemAlloc_v2", 1, 5, group.stack});
    report.holder_search.lost = number % 4 == 0   ? LostSearch::kDone
                                : number % 4 == 1 ? LostSearch::kThreads
                                                  : LostSearch::kPython;
    RunRecord run;
    run.id = "0123456789abcdef";
    run.ended = number % 2 == 0;
    run.problem = number % 3 == 0 ? "" : "missing " + std::to_string(number);
    run.failure = "ended with exit code " + std::to_string(number);
    report.runs = {run};
    report.notes = {"note " + std::to_string(number % 3)};
    report.not_joined = {"sentence " + std::to_string(number % 2)};
    ranks.push_back(std::move(report));
  }
  return ranks;
}

std::string file_of(const TemporaryFolder& folder, const Report& report) {
  const std::string path = folder.file("merged.json");
  write_merged_file(path, report);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Merges the reports in an order and in parts that `random` chooses; a part may be made of parts.
Report merged_at_random(std::vector<Report> reports, std::mt19937_64* random) {
  std::shuffle(reports.begin(), reports.end(), *random);
  while (reports.size() > 1) {
    const std::size_t taken = std::min<std::size_t>(reports.size(), 2 + (*random)() % 3);
    ReportMerger merger;
    for (std::size_t i = 0; i < taken; ++i) {
      merger.add(std::move(reports.back()));
      reports.pop_back();
    }
    if (reports.empty()) return merger.finish(false);
    reports.insert(reports.begin(), merger.finish_part());
  }
  throw std::runtime_error("a job of one");
}

}  // namespace

TEST_CASE("a merged file has the same bytes in whatever parts it was merged", "[report][merge]") {
  const TemporaryFolder folder;
  ReportMerger at_once;
  for (Report& report : odd_job()) at_once.add(std::move(report));
  const std::string expected = file_of(folder, at_once.finish(false));
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    INFO(seed);
    // Not CHECK(a == b), which would print megabytes.
    CHECK((file_of(folder, merged_at_random(odd_job(), &random)) == expected));
  }
}

TEST_CASE("an entry that is small in each part of a job is not lost in the job", "[report][merge]") {
  // 1,024 places of a part are kept; the last one is the smallest of each part, and the largest of all.
  const auto part = [](unsigned number) {
    Report report = rank_report(number);
    CacheInside inside;
    inside.pool = "PyTorch caching allocator";
    for (std::uint64_t i = 0; i < 1100; ++i)
      inside.largest.push_back({2000, 1, "rank" + std::to_string(number) + ".py", i, "step", ""});
    inside.largest.push_back({1500, 1, "everywhere.py", 7, "step", ""});
    report.caches_inside = {inside};
    return report;
  };
  ReportMerger all;
  for (unsigned i = 0; i < 8; i += 2) {
    ReportMerger two;
    two.add(part(i));
    two.add(part(i + 1));
    all.add(two.finish_part());
  }
  const Report report = all.finish(false);
  REQUIRE(report.caches_inside.size() == 1);
  REQUIRE(report.caches_inside[0].largest.size() == 1024);
  CHECK(report.caches_inside[0].largest[0].file == "everywhere.py");
  CHECK(report.caches_inside[0].largest[0].bytes == 8 * 1500);
}
