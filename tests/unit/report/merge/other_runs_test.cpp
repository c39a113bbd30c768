// What `culprit report` says when a newer dump lies beside one, or two dumps are of one rank of different runs.
#include <cstring>
#include <fstream>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kSecond = 1000000000;
constexpr std::uint64_t kMorning = 1700000000 * kSecond;

// A dump of a process that ran from second `begin` to second `end`.
struct Run {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t rank = 0;  // plus 1, as in the dump
  std::uint32_t job_size = 0;
  const char* host = "node1";
};

struct Folder {
  TemporaryFolder folder;
  Folder& add(const std::string& name, const Run& run) {
    Program program;
    program.dump.add_allocation(live_allocation(program.stack({"work", "main"}), 1 << 20));
    Header& header = program.dump.header();
    header.start_realtime_ns = kMorning + run.begin * kSecond;
    header.end_time_ns = (run.end - run.begin) * kSecond;
    header.rank = run.rank;
    header.job_size = run.job_size;
    header.pid = 100 + static_cast<std::uint32_t>(run.begin);
    std::strcpy(header.host, run.host);
    program.dump.write(folder.file(name));
    return *this;
  }
  std::string report(const std::string& arguments) const {
    return shell("cd " + folder.file(".") + " && CULPRIT report " + arguments + " 2>&1").out;
  }
};

constexpr char kNewer[] = "a later run left ";
constexpr char kSameRank[] = "of different runs";

}  // namespace

TEST_CASE("a newer dump beside the named one is pointed out", "[report][runs]") {
  Folder folder;
  folder.add("app.dump", {0, 10}).add("app.1.dump", {20, 30}).add("app.2.dump", {40, 50});
  const std::string note = "a later run left app.2.dump beside app.dump";
  for (const char* format : {"text", "json", "markdown", "html", "sarif"}) {
    INFO(format);
    CHECK(has(folder.report(std::string("--format ") + format + " app.dump"), note));
  }
  CHECK(has(folder.report("app.1.dump"), "a later run left app.2.dump beside app.1.dump"));
  CHECK_FALSE(has(folder.report("app.2.dump"), kNewer));
  CHECK_FALSE(has(folder.report("app.dump app.1.dump ./app.2.dump"), kNewer));
  CHECK(has(folder.report("app.dump ./app.2.dump"), "a later run left app.1.dump beside app.dump"));
}

TEST_CASE("dumps of one run, and of other processes, are no newer ones", "[report][runs]") {
  Folder folder;
  // A child that ran at the same time; numbers of processes; an older one.
  folder.add("app.dump", {10, 20}).add("app.1.dump", {15, 30}).add("app.2.dump", {0, 5});
  folder.add("train.7.dump", {0, 10}).add("train.8.dump", {20, 30});
  std::ofstream(folder.folder.file("app.3.dump")) << "no dump";
  CHECK_FALSE(has(folder.report("app.dump"), kNewer));
  CHECK_FALSE(has(folder.report("train.7.dump"), kNewer));
}

TEST_CASE("two dumps of one rank of different runs are pointed out, merged or not", "[report][runs]") {
  Folder folder;
  folder.add("a.0.dump", {0, 10, 1, 2}).add("a.1.dump", {1, 9, 2, 2}).add("b.0.dump", {60, 70, 1, 2});
  folder.add("c.1.dump", {2, 9, 2, 2, "node2"}).add("four.dump", {2, 9, 1, 4});
  const std::string note =
      "a.0.dump and b.0.dump are both of rank 0 and of different runs: the second began 50.0 s after the end of the "
      "first";
  CHECK(has(folder.report("a.0.dump a.1.dump b.0.dump"), note));
  CHECK(has(folder.report("--no-merge a.0.dump a.1.dump b.0.dump"), note));
  CHECK(has(folder.report("--format json a.0.dump b.0.dump"), note));
  CHECK(has(folder.report("a.0.dump four.dump"), "their jobs have 2 and 4 ranks"));
  CHECK(has(folder.report("a.1.dump c.1.dump"), "they ran on node1 and node2"));
  CHECK_FALSE(has(folder.report("a.0.dump a.1.dump"), kSameRank));
  // Two processes of one rank of one run.
  folder.add("d.0.dump", {3, 8, 1, 2});
  CHECK_FALSE(has(folder.report("a.0.dump d.0.dump"), kSameRank));
}
