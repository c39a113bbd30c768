// Many processes as one report: which groups are merged, the shares of the processes, and that merging is associative.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/base/progress.h"
#include "report/merge/load_many.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/merge/spread.h"
#include "report/render/json/render_json.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "report/symbols/shared_symbols.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// One rank of a job. Each rank has its own memory layout, so that equal places have different addresses.
struct Rank : Program {
  explicit Rank(unsigned rank, unsigned size = 4) {
    for (unsigned i = 0; i < rank; ++i) stack({"elsewhere"});
    dump.header().pid = 1000 + rank;
    dump.header().rank = rank + 1;
    dump.header().job_size = size;
    std::snprintf(dump.header().host, sizeof(Header::host), "node%u", rank / 2);
    device = static_cast<std::uint8_t>(rank % 2);
    DeviceRecord record = {};
    record.state = 1;
    record.ordinal = device;
    record.uuid[0] = static_cast<std::uint8_t>(rank);
    dump.add_device(record);
    TimeLineRecord line = {};
    line.state = 2;
    line.device = device;
    line.bucket_ns = 1;
    line.used = 1;
    line.peak_bytes = 5000 + rank;
    dump.add_time_line(line);
    dump.add_thread(1000 + rank, "main", ThreadState::kEnded);
  }
  Rank& leak(const std::string& function, std::uint64_t bytes, Kind kind = Kind::kDevice) {
    AllocationRecord record = live_allocation(stack({function, "main"}), bytes, kind);
    record.device = device;
    dump.add_allocation(record);
    return *this;
  }
  // Leaked by an exception with the message `what`.
  Rank& abandon(const std::string& function, std::uint64_t bytes, const std::string& what) {
    ThrowRecord thrown = {};
    thrown.state = 1;
    thrown.type = dump.add_string("St13runtime_error");
    thrown.what = dump.add_string(what);
    thrown.stack = stack({"thrower", function, "main"});
    thrown.count = 1;
    EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.thrown = dump.add_throw(thrown);
    AllocationRecord record = live_allocation(stack({function, "main"}), bytes);
    record.device = device;
    record.evidence = dump.add_evidence(evidence);
    dump.add_allocation(record);
    return *this;
  }
  Rank& mark(const std::string& name, std::uint64_t first_ns) {
    dump.add_mark(name, MarkKind::kMark, first_ns);
    return *this;
  }
  // The holder of `bytes` at the peak, or at a failed allocation.
  Rank& breakdown(BreakdownReason reason, std::uint64_t bytes, std::uint64_t time_ns) {
    BreakdownRecord record = {};
    record.state = 1;
    record.reason = reason;
    record.device = device;
    record.time_ns = time_ns;
    record.stack = stack({"asks", "main"});
    record.asked_bytes = 4096;
    record.times = 1;
    record.live_bytes = bytes;
    record.live_count = 1;
    record.shares[0] = {stack({"holds", "main"}), dump.add_api("cuMemAlloc_v2"), Kind::kDevice, 0, bytes, 1};
    dump.add_breakdown(record);
    return *this;
  }
  std::uint8_t device = 0;
};

Report merged(std::vector<Report> reports) {
  ReportMerger merger;
  for (const Report& report : reports) merger.add(report);
  return merger.finish(false);
}

// Four ranks that all leak the same, two something more, and one much more.
std::vector<Report> job() {
  std::vector<Report> reports;
  for (unsigned i = 0; i < 4; ++i) {
    Rank rank(i);
    rank.leak("everywhere", i == 3 ? 65536 : 1000).abandon("risky", 500, "NaN " + std::to_string(9 - i));
    if (i == 1) rank.leak("only_one", 77).leak("only_one", 78, Kind::kPinnedHost);
    if (i % 2 == 0) rank.leak("stream", 0, Kind::kStream);
    rank.mark("epoch", 50 - i).breakdown(BreakdownReason::kPeak, 1000 * (i + 1), 7);
    if (i == 1) rank.mark("only here", 3);
    if (i > 1) rank.breakdown(BreakdownReason::kOutOfMemory, 70, 5).breakdown(BreakdownReason::kOutOfMemory, 80 + i, 6);
    reports.push_back(rank.report());
  }
  return reports;
}

const Group& through(const Report& report, const std::string& function, Kind kind = Kind::kDevice) {
  for (const Group& group : report.leaks) {
    if (group.stack->frames.front()->function == function && group.kind == kind) return group;
  }
  throw std::runtime_error("no leak in " + function);
}

std::string json_of(const Report& report) {
  std::ostringstream out;
  render_json({report}, out);
  return out.str();
}

std::string text_of(const Report& report) {
  std::ostringstream out;
  RenderOptions options;
  options.resources = true;
  render_text({report}, options, out);
  return out.str();
}

struct Files {
  TemporaryFolder folder;
  std::string path(const std::string& name) const { return folder.file(name); }
};

}  // namespace

TEST_CASE("the live tensors of all ranks are added up by line and holder", "[report][merge]") {
  std::vector<Report> ranks = job();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CacheInside inside;
    inside.pool = "PyTorch caching allocator";
    inside.live_bytes = 3 << 20;
    inside.idle_bytes = 1 << 20;
    inside.largest = {{2 << 20, 4, "train.py", 7, "step", "`losses`, a list of 4"},
                      {1 << 20, 1, "train.py", 20 + rank, "load", ""}};
    ranks[rank].caches_inside = {inside};
    ranks[rank].live_cached_bytes = inside.live_bytes;
  }
  const Report report = merged(std::move(ranks));
  REQUIRE(report.caches_inside.size() == 1);
  const CacheInside& inside = report.caches_inside[0];
  CHECK(inside.live_bytes == 9 << 20);
  CHECK(inside.idle_bytes == 3 << 20);
  REQUIRE(inside.largest.size() == 4);
  CHECK(inside.largest[0].bytes == 6 << 20);
  CHECK(inside.largest[0].count == 12);
  const std::string line =
      "LIVE IN CACHES: 9.00 MiB, 6.00 MiB in 12 tensors at train.py:7, held by `losses`, a list of 4\n";
  CHECK(has(text_of(report), line));
  // A merged file has them, too.
  const Files files;
  write_merged_file(files.path("job.json"), report);
  CHECK(text_of(read_merged_file(files.path("job.json"), {})) == text_of(report));
}

TEST_CASE("ranks whose caches were not looked into are counted, with one of the reasons", "[report][merge]") {
  const auto text = [](bool first_was_read) {
    std::vector<Report> ranks = job();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (first_was_read && rank == 0) {
        ranks[rank].live_cached_bytes = 3 << 20;
        continue;
      }
      ranks[rank].caches_unseen = 1;
      ranks[rank].python_unseen = rank == 1 ? "Python 3.14 is free-threaded" : "os._exit";
    }
    const Report report = merged(std::move(ranks));
    const Files files;
    write_merged_file(files.path("job.json"), report);
    CHECK(text_of(read_merged_file(files.path("job.json"), {})) == text_of(report));
    return text_of(report);
  };
  CHECK(has(text(false), "LIVE IN CACHES: not known in 3 processes: Python 3.14 is free-threaded\n"));
  CHECK(has(text(true), "LIVE IN CACHES: 3.00 MiB; not known in 2 processes: Python 3.14 is free-threaded\n"));
}

TEST_CASE("the ranks of a job become one report", "[report][merge]") {
  const std::vector<Report> ranks = job();
  const Report report = merged(job());
  REQUIRE(report.job.size() == 4);
  CHECK(report.job[3].rank == 3U);
  CHECK(report.process.pid == 1000);
  CHECK(report.summary.leaked_bytes == 3 * 1000 + 65536 + 4 * 500 + 77 + 78);
  CHECK(report.summary.leaked_allocations == 10);
  CHECK(report.summary.groups == 4);
  CHECK(report.summary.resources == 2);
  CHECK(report.devices.size() == 4);
  const Group& everywhere = through(report, "everywhere");
  CHECK(everywhere.count == 4);
  CHECK(everywhere.shares.size() == 4);
  CHECK(everywhere.devices == std::vector<unsigned>{0, 1});
  CHECK_FALSE(everywhere.device.has_value());
  CHECK(everywhere.threads.empty());
  // A leak has the same id in the report of a process and in that of the job.
  CHECK(everywhere.id == through(ranks[0], "everywhere").id);
  const Group& risky = through(report, "risky");
  CHECK(risky.cause == Cause::kException);
  CHECK(risky.evidence.front().count == 4);
  CHECK(risky.evidence.front().what == "NaN 6");
  const Group& one = through(report, "only_one");
  CHECK(one.shares.size() == 1);
  CHECK(one.shares[0].process == 1);
  CHECK(one.device == 1U);
  CHECK(report.job[1].leaked_bytes == 1000 + 500 + 77 + 78);
}

TEST_CASE("one odd rank stands out", "[report][merge]") {
  const Report report = merged(job());
  const Spread spread = spread_of(through(report, "everywhere"), 4);
  CHECK(spread.min == 1000);
  CHECK(spread.median == 1000);
  CHECK(spread.max == 65536);
  CHECK(spread.odd == std::vector<std::uint32_t>{3});
  CHECK(spread_of(through(report, "only_one"), 4).odd == std::vector<std::uint32_t>{1});
  CHECK(spread_of(through(report, "risky"), 4).odd.empty());
  // Two processes have no majority, but the one that leaks is named.
  const Group& only_one = through(report, "only_one");
  CHECK(spread_of(only_one, 2).odd.empty());
  CHECK(spread_text(only_one, {report.job[0], report.job[1]}).line.rfind("1 of 2 ranks, rank 1: ", 0) == 0);
  const std::string text = text_of(report);
  CHECK(has(text, "4 processes, ranks 0-3, on 2 hosts · 4 exit 0 · 4 GPUs"));
  CHECK(has(text, "spread     all 4 ranks: 1000 B to 64.0 KiB, median 1000 B"));
  CHECK(has(text, "odd        rank 3 has 64.0 KiB, the median is 1000 B"));
  CHECK(has(text, "spread     all 4 ranks: 500 B each"));
  CHECK(has(text, "odd        only rank 1"));
  CHECK(has(text, "most    64.5 KiB in 2x by rank 3"));
  CHECK(has(text, "device, 2 GPUs"));
}

TEST_CASE("breakdowns, threads and marks of ranks survive in the job", "[report][merge]") {
  const Report report = merged(job());
  REQUIRE(report.breakdowns.size() == 8);
  std::string order;
  for (const Breakdown& breakdown : report.breakdowns)
    order += (breakdown.out_of_memory ? "out " : "peak ") + std::to_string(breakdown.process) + " " +
             std::to_string(breakdown.live_bytes) + ";";
  CHECK(order == "out 2 82;out 2 70;out 3 83;out 3 70;peak 0 1000;peak 1 2000;peak 2 3000;peak 3 4000;");
  const std::string text = text_of(report);
  CHECK(has(text, "OUT OF MEMORY: rank 2: cuMemAlloc asked for 4.00 KiB at app.cu:10  asks"));
  CHECK(text.find("OUT OF MEMORY: rank 3") < text.find("LEAKED"));
  CHECK(has(text, "   83 B      1x     cuMemAlloc  device  app.cu:10  holds"));
  CHECK_FALSE(has(text, "   70 B"));  // each rank's last one
  RenderOptions peaks;
  peaks.at_peak = true;
  std::ostringstream peak_text;
  render_text({report}, peaks, peak_text);
  CHECK(has(peak_text.str(), "PEAK of GPU 1: rank 3: 3.91 KiB"));
  CHECK(peak_text.str().find("rank 3: 3.91 KiB") < peak_text.str().find("rank 0: 1000 B"));

  // Use over time is a fact of one process; its peak is kept.
  CHECK(report.devices[3].time_line.buckets.empty());
  CHECK(report.devices[3].peak_live_bytes == 5003);

  const Group& everywhere = through(report, "everywhere");
  REQUIRE(everywhere.thread_sums.size() == 1);
  CHECK(everywhere.thread_sums[0].name == "main");
  CHECK(everywhere.thread_sums[0].threads == 4);
  CHECK(everywhere.thread_sums[0].processes == 4);
  CHECK(has(text, "threads    \"main\" in 4 processes, all ended"));
  CHECK(has(text, "hint       all 4 threads ended without a free"));

  REQUIRE(report.marks.size() == 2);
  CHECK(report.marks[0].name == "only here");
  CHECK(report.marks[1].name == "epoch");
  CHECK(report.marks[1].count == 4);
  CHECK(report.marks[1].first_ns == 47);
}

TEST_CASE("a job in which many ranks ran out of memory stays on one screen", "[report][merge]") {
  std::vector<Report> reports;
  for (unsigned i = 0; i < 9; ++i) {
    Rank rank(i, 9);
    rank.breakdown(BreakdownReason::kOutOfMemory, 80, 6).breakdown(BreakdownReason::kPeak, 80, 6);
    reports.push_back(rank.report());
  }
  const Report report = merged(std::move(reports));
  const std::string text = text_of(report);
  CHECK(has(text, "OUT OF MEMORY: rank 3:"));
  CHECK_FALSE(has(text, "OUT OF MEMORY: rank 4:"));
  CHECK(has(text, "and 5 processes more ran out of memory: --all"));
  RenderOptions options;
  options.at_peak = true;
  std::ostringstream peaks;
  render_text({report}, options, peaks);
  CHECK(has(peaks.str(), "and 5 lower peaks of other processes: --all"));
  options.all = true;
  std::ostringstream all;
  render_text({report}, options, all);
  CHECK(has(all.str(), "OUT OF MEMORY: rank 8:"));
  CHECK(has(all.str(), "rank 8: 80 B in 1 allocation"));
}

TEST_CASE("a job's JSON says which process has what", "[report][merge]") {
  const auto json = nlohmann::json::parse(json_of(merged(job())));
  CHECK(json["schema"] == "culprit.report/1");
  REQUIRE(json["processes"].size() == 4);
  CHECK(json["processes"][2]["rank"] == 2);
  CHECK(json["processes"][2]["host"] == "node1");
  CHECK(json["processes"][3]["leaked_bytes"] == 66036);
  CHECK(json["processes"][3]["peak_live_bytes"] == 5003);
  CHECK(json["leaks"][0]["spread"]["max"] == 65536);
  CHECK(json["leaks"][0]["spread"]["amounts"][0]["processes"] == nlohmann::json({0, 1, 2}));
  CHECK(json["leaks"][0]["devices"] == nlohmann::json({0, 1}));
  CHECK(json["leaks"][0]["thread_names"][0]["ended"] == 4);
  CHECK(json["pictures"][2]["process"] == 3);
  CHECK(json["marks"][1]["count"] == 4);
}

TEST_CASE("ranks are written as ranges", "[report][merge]") {
  CHECK(ranks_text({3}) == "rank 3");
  CHECK(ranks_text({0, 1}) == "ranks 0, 1");
  CHECK(ranks_text({0, 1, 2, 5, 7, 8, 9}) == "ranks 0-2, 5, 7-9");
  CHECK(ranks_text({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST_CASE("ranks without a dump are named", "[report][merge]") {
  std::vector<Report> reports = job();
  reports.erase(reports.begin() + 1);
  const Report lacking = merged(reports);
  CHECK(missing_ranks_of({&lacking}, "why") == "no dump of rank 1 of 4: why, or the process made no CUDA call");
  const Report complete = merged(job());
  CHECK(missing_ranks_of({&complete}, "why").empty());

  // Of `culprit report RANK0` the others were not asked for; `culprit run` started them.
  std::vector<Report> only_one = {job().front()};
  add_missing_ranks(false, &only_one);
  CHECK(only_one.front().missing_ranks.empty());
  add_missing_ranks(true, &only_one);
  CHECK(has(only_one.front().missing_ranks, "no dump of ranks 1-3 of 4: it ran on another node (--out must name"));
  std::vector<Report> apart = job();
  add_missing_ranks(true, &apart);
  CHECK(apart.front().missing_ranks.empty());
}

TEST_CASE("a job with its launcher keeps the words about ranks", "[report][merge]") {
  std::vector<Report> reports = job();
  Rank other(6);
  other.dump.header().rank = 0;
  SECTION("a launcher that asked how many devices there are") {
    reports.push_back(other.report());
    const Report all = merged(reports);
    CHECK(job_text(all) == "5 processes, ranks 0-3 and 1 other, on 3 hosts · 5 exit 0 · 5 GPUs");
    CHECK(spread_text(through(all, "everywhere"), all.job).line.rfind("all 4 ranks: 1000 B to 64.0 KiB", 0) == 0);
    CHECK(has(spread_text(through(all, "everywhere"), all.job).odd, "rank 3 has 64.0 KiB"));
    CHECK(spread_text(through(all, "only_one"), all.job).odd == "only rank 1");
    CHECK(missing_ranks_of({&all}, "why").empty());
    reports.erase(reports.begin() + 1);
    const Report lacking = merged(reports);
    CHECK(missing_ranks_of({&lacking}, "why") == "no dump of rank 1 of 4: why, or the process made no CUDA call");
  }
  SECTION("a launcher that leaks") {
    other.leak("launch", 3000);
    reports.push_back(other.report());
    const Report all = merged(reports);
    CHECK(spread_text(through(all, "launch"), all.job).line.rfind("1 of 5 processes: 2.93 KiB", 0) == 0);
    CHECK(spread_text(through(all, "launch"), all.job).odd == "only process 1006 on node3");
    CHECK(spread_text(through(all, "only_one"), all.job).line.rfind("1 of 4 ranks: ", 0) == 0);
    CHECK(processes_text(all.job, {0, 2, 4}) == "ranks 0, 2 and process 1006 on node3");
  }
}

TEST_CASE("merging is associative and does not mind the order", "[report][merge]") {
  std::vector<Report> ranks = job();
  const std::string expected_json = json_of(merged(job()));
  const std::string expected_text = text_of(merged(job()));
  auto check = [&](const Report& report) {
    CHECK(json_of(report) == expected_json);
    CHECK(text_of(report) == expected_text);
  };
  check(merged({merged({ranks[0], ranks[1]}), merged({ranks[2], ranks[3]})}));
  check(merged({merged({merged({ranks[0], ranks[1]}), ranks[2]}), ranks[3]}));
  check(merged({ranks[0], merged({ranks[1], merged({ranks[2], ranks[3]})})}));
  check(merged({ranks[3], ranks[1], ranks[2], ranks[0]}));
  check(merged({merged({ranks[3], ranks[0]}), merged({ranks[2], ranks[1]})}));
}

TEST_CASE("a merged file holds all that merging keeps", "[report][merge]") {
  Files files;
  std::vector<Report> ranks = job();
  const std::string expected = json_of(merged(job()));
  auto through_file = [&](const char* name, const Report& report) {
    write_merged_file(files.path(name), report);
    CHECK(is_merged_file(files.path(name)));
    return read_merged_file(files.path(name), {});
  };
  CHECK(json_of(through_file("all", merged(job()))) == expected);
  const Report left = through_file("ab", merged({ranks[0], ranks[1]}));
  const Report right = through_file("cd", merged({ranks[2], ranks[3]}));
  CHECK(json_of(through_file("abcd", merged({left, right}))) == expected);
  CHECK(text_of(read_merged_file(files.path("abcd"), {})) == text_of(merged(job())));
}

TEST_CASE("a damaged merged file is named and never crashes", "[report][merge][damage]") {
  Files files;
  write_merged_file(files.path("good"), merged(job()));
  std::ifstream file(files.path("good"));
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  auto read = [&](const std::string& text) {
    std::ofstream(files.path("bad")) << text;
    return read_merged_file(files.path("bad"), {});
  };
  CHECK_NOTHROW(read(good));
  for (std::size_t length = 26; length < good.size() - 1; length += good.size() / 50)
    CHECK_THROWS_AS(read(good.substr(0, length)), FileError);
  // Every number becomes a huge one, every list an empty one, every object a text, one after the other.
  for (std::size_t at = good.find("\"modules\""); at < good.size(); ++at) {
    const char c = good[at];
    const bool digit = c >= '0' && c <= '9' && good[at - 1] != '"' && !(good[at - 1] >= '0' && good[at - 1] <= '9');
    if (!digit && c != '[' && c != '{') continue;
    const std::string changed = good.substr(0, at) +
                                (digit      ? "99999999"
                                 : c == '[' ? "[\"x\","
                                            : "{\"x\":1,") +
                                good.substr(at + 1);
    try {
      const Report report = read(changed);
      json_of(report);
      text_of(report);
    } catch (const FileError& error) {
      CHECK(has(error.what(), files.path("bad")));
    }
  }
}

TEST_CASE("a merged file with a name that is not known, or of another schema, says so", "[report][merge][damage]") {
  Files files;
  write_merged_file(files.path("good"), merged(job()));
  std::ifstream file(files.path("good"));
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  auto message_with = [&](const std::string& from, const std::string& to) -> std::string {
    const std::size_t at = good.find(from);
    REQUIRE(at != std::string::npos);
    std::string changed = good;
    std::ofstream(files.path("bad")) << changed.replace(at, from.size(), to);
    CHECK(is_merged_file(files.path("bad")));
    try {
      read_merged_file(files.path("bad"), {});
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* field : {"cause", "type", "points_to", "ended", "state"}) {
    const std::string begin = "\"" + std::string(field) + "\":\"";
    INFO(field);
    CHECK(has(message_with(begin, begin + "x-"), std::string(field) + ": \"x-"));
    CHECK(has(message_with(begin, "\"other\":\""), std::string(field) + ": \"\" is not known"));
  }
  CHECK(has(
      message_with("culprit.merged/2", "culprit.merged/1"),
      "another version of culprit merge (\"culprit.merged/1\" instead of culprit.merged/2); merge the dumps again"));
}

TEST_CASE("the command merges ranks by itself and others when it is asked to", "[report][merge][cli]") {
  Files files;
  std::string ranks;
  std::string others;
  for (unsigned i = 0; i < 3; ++i) {
    Rank rank(i, 3);
    rank.leak("f", 1000);
    const std::string name = files.path("rank" + std::to_string(i) + ".dump");
    rank.dump.write(name);
    ranks += " " + name;
    rank.dump.header().rank = 0;
    const std::string other = files.path("other" + std::to_string(i) + ".dump");
    rank.dump.write(other);
    others += " " + other;
  }
  auto schema = [](const std::string& line) {
    const auto json = nlohmann::json::parse(shell("CULPRIT report --format json " + line).out);
    return json["schema"].get<std::string>() + (json.contains("processes") ? " merged" : "");
  };
  CHECK(schema(ranks) == "culprit.report/1 merged");
  CHECK(schema("--jobs 1" + ranks) == "culprit.report/1 merged");
  CHECK(schema("--no-merge" + ranks) == "culprit.reports/1");
  CHECK(schema(others) == "culprit.reports/1");
  CHECK(schema("--merge" + others) == "culprit.report/1 merged");
  CHECK(has(shell("CULPRIT report --group-by rank" + ranks).out, "1000 B    1x      1 group    rank 2"));
  CHECK(has(shell("CULPRIT report" + ranks.substr(0, ranks.rfind(' '))).out, "no dump of rank 2 of 3"));
  CHECK(shell("CULPRIT report --merge --no-merge" + ranks + " 2>&1").exit_code == 2);
  CHECK(shell("CULPRIT report --jobs 0" + ranks + " 2>&1").exit_code == 2);

  const std::string twice = shell("CULPRIT report" + ranks + " " + files.path("rank1.dump") + " 2>&1").out;
  CHECK(has(twice, "name each process once"));

  SECTION("merge writes what report reads") {
    const std::string all = files.path("all.json");
    CHECK(shell("CULPRIT merge -o " + all + ranks + " 2>&1").exit_code == 0);
    CHECK(shell("CULPRIT report " + all).out == shell("CULPRIT report" + ranks).out);
    // In one step, or in two.
    shell("CULPRIT merge -o " + files.path("two.json") + " " + files.path("rank2.dump") + " " +
          files.path("rank0.dump"));
    CHECK(shell("CULPRIT report " + files.path("two.json") + " " + files.path("rank1.dump")).out ==
          shell("CULPRIT report" + ranks).out);
    CHECK(has(shell("CULPRIT diff " + files.path("two.json") + " " + all).out,
              "\n1 grown · NOT KNOWN what else · leaked "));
    CHECK(shell("CULPRIT merge -o " + all + " " + all + ranks + " 2>&1").exit_code == 3);
  }
  SECTION("a folder stands for its dumps") {
    const std::string folder = files.path("job");
    shell("mkdir " + folder + "; cp" + ranks + " " + folder + "; echo '{}' > " + folder + "/notes.json; mkdir " +
          folder + "/more; mkfifo " + folder + "/pipe");
    const std::string there = " " + folder + "/rank0.dump " + folder + "/rank1.dump " + folder + "/rank2.dump";
    CHECK(shell("CULPRIT report " + folder).out == shell("CULPRIT report" + there).out);
    CHECK(schema(folder + "/") == "culprit.report/1 merged");
    CHECK(shell("CULPRIT merge " + folder + " -o " + files.path("job.json") + " 2>&1").exit_code == 0);
    CHECK(shell("CULPRIT report " + files.path("job.json")).out == shell("CULPRIT report" + there).out);
    const std::string empty = folder + "/more";
    CHECK(has(shell("CULPRIT report " + empty + " 2>&1").out, empty + ": a folder without dumps (culprit.*.dump)\n"));
    CHECK(shell("CULPRIT merge " + empty + " -o " + files.path("x") + " 2>&1").exit_code == 3);
    CHECK(shell("CULPRIT diff " + folder + " " + folder + " 2>&1").out ==
          "culprit: " + folder + ": a folder. Make one file of its dumps: culprit merge " + folder + " -o job.json\n");
  }
  SECTION("merge writes nothing when an input is missing") {
    const Finished failed = shell("CULPRIT merge -o " + files.path("x") + " /nonexistent" + ranks + " 2>&1");
    CHECK(failed.exit_code == 3);
    CHECK(has(failed.out, "/nonexistent"));
    CHECK_FALSE(std::ifstream(files.path("x")).is_open());
    CHECK(shell("CULPRIT merge -o /nonexistent/x" + ranks + " 2>&1").exit_code == 3);
    CHECK(shell("CULPRIT merge" + ranks + " 2>&1").exit_code == 2);
  }
}

TEST_CASE("symbols are looked up once for all dumps", "[report][merge]") {
  std::vector<std::string> asked;
  SharedSymbols shared([&](std::vector<ModuleSymbols>& modules) {
    for (ModuleSymbols& module : modules) {
      module.state = ModuleState::kFound;
      for (const std::uint64_t address : module.addresses) {
        asked.push_back(module.path + std::to_string(address));
        CodeLocation location;
        location.function = "f" + std::to_string(address);
        module.locations.push_back({location});
      }
      for (const std::uint64_t address : module.data) {
        asked.push_back(module.path + "d" + std::to_string(address));
        module.variable_of.push_back(address == 5 ? ModuleSymbols::kNoVariable : 0);
      }
      if (!module.data.empty()) module.variables.push_back({"g" + std::to_string(module.data.front()), 1});
    }
  });
  auto ask = [&](const std::vector<std::uint64_t>& addresses, const std::vector<std::uint64_t>& data) {
    std::vector<ModuleSymbols> modules(1);
    modules[0].path = "/a";
    modules[0].addresses = addresses;
    modules[0].data = data;
    asked.clear();
    shared.look_up(modules);
    return modules[0];
  };
  const ModuleSymbols first = ask({1, 2}, {7, 5});
  CHECK(asked.size() == 4);
  CHECK(first.locations[1][0].function == "f2");
  const ModuleSymbols second = ask({2, 3, 1}, {5, 8, 7});
  CHECK(asked == std::vector<std::string>{"/a3", "/ad8"});
  CHECK(second.state == ModuleState::kFound);
  CHECK(second.locations[0][0].function == "f2");
  CHECK(second.locations[1][0].function == "f3");
  CHECK(second.variable_of[0] == ModuleSymbols::kNoVariable);
  CHECK(second.variables[second.variable_of[1]].name == "g8");
  CHECK(second.variables[second.variable_of[2]].name == "g7");
  ask({3}, {});
  CHECK(asked.empty());
}

TEST_CASE("progress is one line that fits", "[report][merge]") {
  CHECK(progress_line(0, 0, "reading symbols of /x", 80) == "culprit: reading symbols of /x");
  CHECK(progress_line(5, 10, "a", 80) == "[###############...............] 5/10 · a");
  CHECK(progress_line(99, 10, "", 80) == "[##############################] 10/10");
  CHECK(progress_line(0, 0, "äöü", 11) == "culprit: äö");
}
