// Reports of a part of a run, and the comparison of what was live at marks.
#include "report/select/marked_list.h"

#include <sstream>

#include "report/base/byte_size.h"
#include "report/dump/mark_sums.h"
#include "report/render/text/render_diff.h"
#include "report/select/diff.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

namespace culprit::test {
namespace {

using namespace culprit::format;

MarkSumsRecord block_of(std::uint32_t state, Ref mark, std::uint32_t block, std::uint32_t blocks) {
  MarkSumsRecord record = {};
  record.state = state;
  record.mark = mark;
  record.number = state;
  record.time_ns = state * 100;
  record.block = block;
  record.blocks = blocks;
  return record;
}

void add_share(Ref stack, std::uint64_t bytes, std::uint64_t count, MarkSumsRecord* block) {
  MarkSumShare& share = block->shares[block->used++];
  share.stack = stack;
  share.kind = Kind::kDevice;
  share.bytes = bytes;
  share.count = count;
}

KeptMarkSums sums_of(DumpBuilder& builder) {
  return read_mark_sums(Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "x.dump"));
}

// One stack that stays, one that goes, and one that comes.
struct Engine : Program {
  Ref stays = stack({"load_weights", "main"});
  Ref goes = stack({"make_cache", "main"});
  Ref comes = stack({"capture", "main"});
  Ref mark = dump.add_mark("sleep", MarkKind::kMoment, 100);

  Engine() {
    MarkSumsRecord first = block_of(1, mark, 0, 1);
    add_share(stays, 300, 3, &first);
    add_share(goes, 600, 1, &first);
    MarkSumsRecord second = block_of(2, mark, 0, 1);
    add_share(stays, 100, 1, &second);
    add_share(comes, 50, 1, &second);
    second.other_bytes = 7;
    second.other_count = 2;
    dump.add_mark_sums(second);  // in any order
    dump.add_mark_sums(first);
    AllocationRecord record = live_allocation(comes, 50);
    record.time_ns = 150;
    dump.add_allocation(record);
    record.time_ns = 250;
    dump.add_allocation(record);
  }
  Report marked_report() {
    LoadOptions options;
    options.marked = true;
    return report_of(dump, symbols, options);
  }
  static std::string text(MarkedPair pair) {
    std::ostringstream out;
    render_diff_text(diff_of(std::move(pair.from), std::move(pair.to), Growth()), RenderOptions(), out);
    return out.str();
  }
};

}  // namespace

TEST_CASE("sums at a mark are put together from their blocks", "[report][marked]") {
  Program program;
  const Ref mark = program.dump.add_mark("m", MarkKind::kMoment, 1);
  MarkSumsRecord first = block_of(5, mark, 0, 2), second = block_of(5, 0, 1, 2);
  add_share(16, 10, 1, &first);
  add_share(32, 20, 2, &second);
  SECTION("whole") {
    program.dump.add_mark_sums(second);
    program.dump.add_mark_sums(first);
    const KeptMarkSums kept = sums_of(program.dump);
    REQUIRE(kept.sums.size() == 1);
    CHECK(kept.taken == 5);
    CHECK(kept.sums[0].mark == mark);
    CHECK(kept.sums[0].number == 5);
    REQUIRE(kept.sums[0].shares.size() == 2);
    CHECK(kept.sums[0].shares[1].bytes == 20);
  }
  SECTION("a block is missing") {
    program.dump.add_mark_sums(first);
    CHECK(sums_of(program.dump).sums.empty());
  }
  SECTION("the first block is missing") {
    program.dump.add_mark_sums(second);
    CHECK(sums_of(program.dump).sums.empty());
  }
  SECTION("a block is there twice") {
    program.dump.add_mark_sums(first);
    program.dump.add_mark_sums(first);
    CHECK(sums_of(program.dump).sums.empty());
  }
  SECTION("more shares than a block has") {
    first.blocks = 1;
    first.used = 0xffffffff;
    program.dump.add_mark_sums(first);
    const KeptMarkSums kept = sums_of(program.dump);
    REQUIRE(kept.sums.size() == 1);
    CHECK(kept.sums[0].shares.size() == 1);
  }
}

TEST_CASE("a chunk of a newer culprit is left out when the report stays true without it", "[report][marked]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"leak", "main"}), 5));
  program.dump.add_mark("m", MarkKind::kMoment, 1);
  std::vector<char> bytes = program.dump.bytes();
  std::uint64_t at = kHeaderBytes;
  auto chunk = [&] { return reinterpret_cast<ChunkHeader*>(bytes.data() + at); };
  while (chunk()->type != ChunkType::kMarks) at += chunk()->bytes;
  chunk()->type = static_cast<ChunkType>(77);
  CHECK_THROWS_AS(Dump::from_bytes(bytes.data(), bytes.size(), "x.dump"), DumpError);
  chunk()->flags = kChunkMayBeSkipped;
  const Dump dump = Dump::from_bytes(bytes.data(), bytes.size(), "x.dump");
  LoadOptions options;
  options.lookup = program.symbols.lookup();
  const Report report = load_report(dump, options);
  CHECK(report.summary.leaked_bytes == 5);
  REQUIRE(report.notes.size() == 1);
  CHECK(has(report.notes[0], "a newer libculprit.so wrote 4.00 KiB of this dump in a way that this culprit does not"));
}

TEST_CASE("a report of a part of a run", "[report][marked]") {
  Program program;
  const Ref stack = program.stack({"leak", "main"});
  for (const std::uint64_t time : {5, 15, 25, 35}) {
    AllocationRecord record = live_allocation(stack, time);
    record.time_ns = time;
    program.dump.add_allocation(record);
  }
  const Ref step = program.dump.add_mark("step", MarkKind::kMoment, 10, 30, 3);
  program.dump.add_mark_time(step, 2, 20);
  program.dump.add_mark("request#5", MarkKind::kMark, 12);
  program.dump.add_mark("often", MarkKind::kMark, 1, 2, 1000);
  auto bytes_of = [&](const std::string& since, const std::string& before) {
    LoadOptions options;
    options.since_mark = since;
    options.before_mark = before;
    return report_of(program.dump, program.symbols, options).summary.leaked_bytes;
  };
  CHECK(bytes_of("step", "") == 35);  // the newest
  CHECK(bytes_of("step#1", "") == 15 + 25 + 35);
  CHECK(bytes_of("step#2", "") == 25 + 35);
  CHECK(bytes_of("", "step") == 5 + 15 + 25);
  CHECK(bytes_of("", "step#1") == 5);
  CHECK(bytes_of("step#1", "step#2") == 15);
  CHECK(bytes_of("request#5", "") == 15 + 25 + 35);   // a name that looks like a number of another
  CHECK(bytes_of("step#4", "") == 5 + 15 + 25 + 35);  // no such mark: nothing is left out, and the report says so
  LoadOptions options;
  options.since_mark = "step#2";
  options.before_mark = "none";
  const Report report = report_of(program.dump, program.symbols, options);
  CHECK(bound_text(report.since_mark) == "\"step\", number 2 of 3, at 0.00 ms");
  CHECK(part_text(report.since_mark, report.before_mark) == "only since mark \"step#2\"");
  CHECK(report.notes == std::vector<std::string>{"this process has no mark \"none\": all its memory counts"});
  CHECK(kept_times_text(report.marks[1]) == "step (#1 to #3)");
  CHECK(kept_times_text(report.marks[0]) == "often (#1, #1000)");
  CHECK(kept_times_text(report.marks[2]) == "request#5");
}

TEST_CASE("what was live at two marks is compared by stack", "[report][marked]") {
  Engine engine;
  const Report report = engine.marked_report();
  REQUIRE(report.marked.size() == 2);
  CHECK(report.marked[1].bytes == 157);
  CHECK(report.marked[1].count == 4);
  const std::string text = Engine::text(marked_pair(report, "sleep#1", "sleep"));
  INFO(text);
  CHECK(has(text, "at mark \"sleep\" (0.00 ms) · culprit.app.4242.dump at mark \"sleep\" (0.00 ms)\n"));
  CHECK(has(text, "1 new, 1 shrunk, 1 gone · live 900 B, then 150 B (-750 B)\n"));
  CHECK(has(text, "\nNEW\n\n1  50 B  1x  "));
  CHECK(has(text, "   live   "));
  CHECK(has(text, "\nSHRUNK\n\n1  300 B -> 100 B  3x -> 1x  "));
  CHECK(has(text, "\nGONE\n\n1  600 B  1x  "));
  CHECK(has(text, "at mark \"sleep\" there were more stacks than are kept: 7 B in 2 allocations are left out"));
}

TEST_CASE("an end of a comparison that is not named is the beginning or the end of the run", "[report][marked]") {
  Engine engine;
  const Report report = engine.marked_report();
  const std::string until = Engine::text(marked_pair(report, "", "sleep#1"));
  CHECK(has(until, "culprit.app.4242.dump at its beginning · "));
  CHECK(has(until, "2 new · live 0 B, then 900 B (+900 B)\n"));
  const std::string since = Engine::text(marked_pair(report, "sleep", ""));
  INFO(since);
  CHECK(has(since, " · its end\n"));
  CHECK(has(since, "1 grown, 1 gone · live 150 B, then 100 B (-50 B)\n"));
  CHECK(has(since, "1  50 B -> 100 B  1x -> 2x  "));
  CHECK(has(since, "   never-freed   "));
}

TEST_CASE("marks that cannot be compared are named with those that can", "[report][marked]") {
  Engine engine;
  engine.dump.add_mark("plain", MarkKind::kMoment, 120);
  const Report report = engine.marked_report();
  auto problem = [&](const std::string& from, const std::string& to) -> std::string {
    try {
      marked_pair(report, from, to);
    } catch (const NoSuchMark& error) {
      return error.what();
    }
    return "";
  };
  CHECK(has(problem("none", ""), "--from none: no such mark was set with its bytes; there are: sleep#1, sleep#2"));
  CHECK(has(problem("", "plain"), "--to plain: it was set without its bytes; there are: "));
  CHECK(has(problem("sleep", "sleep#1"), "after --to sleep#1"));
  CHECK(problem("sleep#1", "sleep#2").empty());
  Program without;
  LoadOptions options;
  options.marked = true;
  CHECK_THROWS_AS(marked_pair(report_of(without.dump, without.symbols, options), "x", ""), NoSuchMark);
}

}  // namespace culprit::test
