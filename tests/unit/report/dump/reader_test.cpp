// The reader with invalid input: dumps that are cut off, edited, of another version, or no dumps at all.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "report/base/cut_off_files.h"
#include "report/dump/dump_reader.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/render/json/render_json.h"
#include "report/render/text/render_text.h"
#include "tests/catch.h"
#include "tests/support/dump_builder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/sanitized.h"

using namespace culprit::report;
using namespace culprit::format;
using culprit::test::DumpBuilder;
using culprit::test::has;
using culprit::test::kSanitized;

namespace {

// One of everything.
DumpBuilder small_dump() {
  DumpBuilder dump;
  const Ref executable = dump.add_string("/bin/app");
  dump.header().executable = executable;
  const Ref command = dump.add_string(std::string_view("app\0--go\0", 9));
  dump.header().command_line = command;
  const std::uint32_t module = dump.add_module("/nowhere/app", {1, 2, 3, 4, 5, 6, 7, 8});
  const Ref stack = dump.add_stack({DumpBuilder::frame(module, 0x1234), DumpBuilder::frame(module, 0x2345)});
  const std::uint32_t thread = dump.add_thread(77, "worker");
  const std::uint16_t api = dump.add_api("cuMemAlloc_v2");
  ContextRecord context = {};
  context.state = ContextState::kAlive;
  context.kind = Kind::kContext;
  context.stack = stack;
  dump.add_context(context);
  DeviceRecord device = {};
  device.state = 1;
  std::strcpy(device.name, "NVIDIA H200");
  dump.add_device(device);
  ErrorRecord error = {};
  error.state = 1;
  error.type = ErrorType::kFailedFree;
  error.stack = stack;
  error.count = 1;
  const Ref failed = dump.add_error(error);
  ThreadCounters counters = {};
  counters.stacks[3].stack = stack;
  counters.stacks[3].allocations = 9;
  dump.add_counters(counters);
  ReleaseRecord release = {};
  release.state = 1;
  release.stack = stack;
  release.teardown_stack = stack;
  release.kind = Kind::kManaged;
  release.count = 3;
  release.bytes = 300;
  dump.add_release(release);
  AllocationRecord allocation = {};
  allocation.state = 1 << kStateBits | 1;
  allocation.stack = stack;
  allocation.bytes = 11001;
  allocation.handle = 0x7f0000000000;
  allocation.kind = Kind::kDevice;
  allocation.api = api;
  allocation.thread = thread;
  dump.add_allocation(allocation);
  allocation.flags = kFlagFreeFailed;
  EvidenceRecord evidence = {};
  evidence.state = 1;
  evidence.error = failed;
  allocation.evidence = dump.add_evidence(evidence);
  dump.add_allocation(allocation);
  TimeLineRecord line = {};
  line.state = 2;
  line.bucket_ns = 65536;
  line.used = 1;
  dump.add_time_line(line);
  return dump;
}

Dump read(const std::vector<char>& bytes) { return Dump::from_bytes(bytes.data(), bytes.size(), "test.dump"); }

// Reads everything that there is, as a report does. Only a DumpError may come out of it.
void read_all(const std::vector<char>& bytes) {
  try {
    const Dump dump = read(bytes);
    LoadOptions options;
    options.lookup = [](std::vector<ModuleSymbols>&) {};
    options.machine.proc = "/nonexistent";
    const Report report = load_report(dump, options);
    std::ostringstream text;
    render_text({report}, {}, text);
    render_json({report}, text);
  } catch (const DumpError&) {
  }
}

DumpProblem problem_of(const std::vector<char>& bytes) {
  try {
    read(bytes);
  } catch (const DumpError& error) {
    CHECK(std::string(error.what()).find("test.dump") == 0);
    return error.problem;
  }
  FAIL("the dump was accepted");
  return DumpProblem::kCannotOpen;
}

}  // namespace

TEST_CASE("a dump gives back what was written", "[report][reader]") {
  DumpBuilder builder = small_dump();
  const Dump dump = read(builder.bytes());
  CHECK(dump.string(dump.header().executable) == "/bin/app");
  CHECK(dump.api_name(0) == "cuMemAlloc_v2");
  CHECK(dump.api_name(1).empty());
  CHECK(dump.devices().size() == 1);
  CHECK(dump.errors().size() == 1);
  CHECK(dump.releases().size() == 1);
  CHECK(dump.contexts().size() == 1);
  std::vector<AllocationRecord> allocations;
  dump.for_each_allocation([&](const AllocationRecord& record, Ref) { allocations.push_back(record); });
  REQUIRE(allocations.size() == 2);
  CHECK(allocations[0].bytes == 11001);
  StackView view;
  REQUIRE(dump.stack(allocations[0].stack, &view));
  REQUIRE(view.frame_count == 2);
  CHECK((view.frames[0] & kFrameOffsetMask) == 0x1234);
  ModuleRecord module;
  CHECK(dump.module(0, &module));
  CHECK_FALSE(dump.module(1, &module));
  EvidenceRecord evidence;
  REQUIRE(dump.evidence(allocations[1].evidence, &evidence));
  ErrorRecord error;
  CHECK(dump.error(evidence.error, &error));
  CHECK_FALSE(dump.error(evidence.error + 1, &error));
  CHECK_FALSE(dump.error(allocations[1].evidence, &error));
}

TEST_CASE("a stack whose room was given to others since the dump was opened is not read", "[report][reader]") {
  for (const ProcessState process_state : {ProcessState::kExited, ProcessState::kRunning}) {
    DumpBuilder builder;
    builder.header().process_state = process_state;
    builder.header().stack_sweeps = 7;
    const std::vector<std::uint64_t> frames = {11, 12, 13};
    auto add = [&](std::uint32_t born, std::uint32_t check, std::uint32_t flags) {
      const Ref ref = builder.add_stack(frames, flags);
      auto* bytes = const_cast<char*>(builder.bytes().data());
      auto* record = reinterpret_cast<StackRecord*>(bytes + std::size_t{ref} * kRefUnit);
      record->born = born;
      record->check = check;
      return ref;
    };
    const std::uint32_t right = stack_check(frames.data(), 3, 0);
    const Ref old_version = add(0, 0, 0);
    const Ref good = add(7, right, 0);
    const Ref born_later = add(8, right, 0);
    const Ref overwritten = add(7, right ^ 2, 0);
    const Ref freed = add(7, stack_check(frames.data(), 3, kStackFree), kStackFree);
    const std::vector<char> bytes = builder.bytes();
    const Dump dump = read(bytes);
    StackView view;
    for (int times = 0; times < 2; ++times) {
      REQUIRE(dump.stack(old_version, &view));
      REQUIRE(dump.stack(good, &view));
      CHECK(std::vector<std::uint64_t>(view.frames, view.frames + view.frame_count) == frames);
      CHECK_FALSE(dump.stack(born_later, &view));
      CHECK_FALSE(dump.stack(overwritten, &view));
      CHECK_FALSE(dump.stack(freed, &view));
    }
  }
}

TEST_CASE("merged stacks are said first, and reused ones in a note", "[report]") {
  DumpBuilder builder = small_dump();
  builder.header().merged_stacks = 3;
  builder.header().reused_stacks = 40;
  builder.header().reused_calls = 50;
  AllocationRecord allocation = {};
  allocation.state = 1 << kStateBits | 1;
  allocation.stack = builder.add_stack({DumpBuilder::frame(0, 0x99)}, kStackMerged | kStackTruncated);
  allocation.bytes = 1 << 20;
  allocation.kind = Kind::kDevice;
  builder.add_allocation(allocation);
  const Dump dump = read(builder.bytes());
  LoadOptions options;
  options.lookup = [](std::vector<ModuleSymbols>&) {};
  options.machine.proc = "/nonexistent";
  const Report report = load_report(dump, options);
  std::ostringstream text;
  render_text({report}, {}, text);
  CHECK(text.str().find("MERGED: 3 stacks found no room") == 0);
  CHECK(has(text.str(), "several stacks in one"));
  CHECK(has(text.str(), "40 stacks with 50 calls"));
  CHECK_FALSE(has(text.str(), "raise CULPRIT_DEPTH"));
  std::ostringstream json;
  render_json({report}, json);
  for (const char* part : {"\"merged_stacks\": 3", "\"reused_stacks\": 40", "\"stack_merged\": true"}) {
    INFO(part);
    CHECK(has(json.str(), part));
  }
}

TEST_CASE("only live allocations are visited", "[report][reader]") {
  DumpBuilder builder;
  AllocationRecord record = {};
  for (std::uint32_t state : {0U, 1U, 2U, 3U}) {
    record.state = state == 0 ? 0 : 5 << kStateBits | state;
    record.bytes = state;
    builder.add_allocation(record);
  }
  record.state = 9 << kStateBits;  // a generation, but empty
  builder.add_allocation(record);
  std::vector<std::uint64_t> seen;
  const Dump dump = read(builder.bytes());
  dump.for_each_allocation([&](const AllocationRecord& one, Ref) { seen.push_back(one.bytes); });
  CHECK(seen == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("of a running target the allocations are visited that it had when its dump was opened", "[report][reader]") {
  const auto live = static_cast<std::uint32_t>(AllocationState::kLive);
  const auto freeing = static_cast<std::uint32_t>(AllocationState::kFreeing);
  for (bool runs : {true, false}) {
    INFO(runs);
    DumpBuilder builder;
    builder.header().process_state = runs ? ProcessState::kRunning : ProcessState::kExited;
    AllocationRecord record = {};
    std::vector<Ref> refs;
    for (std::uint64_t size = 1; size <= 5; ++size) {
      record.state = 5 << kStateBits | (size == 4 ? 0 : live);
      record.bytes = size;
      refs.push_back(builder.add_allocation(record));
    }
    std::vector<char> bytes = builder.bytes();
    const Dump dump = read(bytes);
    // The first one stays.
    const auto set_state = [&](Ref ref, std::uint32_t state) {
      std::memcpy(bytes.data() + std::uint64_t{ref} * kRefUnit, &state, sizeof(state));
    };
    set_state(refs[1], 5 << kStateBits);            // was freed
    set_state(refs[2], 6 << kStateBits | live);     // was freed, another one took its record
    set_state(refs[3], 6 << kStateBits | live);     // was made
    set_state(refs[4], 5 << kStateBits | freeing);  // is being freed
    std::vector<std::uint64_t> seen;
    dump.for_each_allocation([&](const AllocationRecord& one, Ref) { seen.push_back(one.bytes); });
    CHECK(seen == (runs ? std::vector<std::uint64_t>{1, 5} : std::vector<std::uint64_t>{1, 3, 4, 5}));
  }
}

TEST_CASE("references that lead nowhere are empty, not fatal", "[report][reader]") {
  DumpBuilder builder = small_dump();
  const Dump dump = read(builder.bytes());
  StackView view;
  ErrorRecord error;
  for (Ref ref : {Ref{0}, Ref{1}, Ref{0xffffffff}, Ref{0x10000}, static_cast<Ref>(builder.bytes().size() / kRefUnit)}) {
    CHECK(dump.string(ref).empty());
    CHECK_FALSE(dump.stack(ref, &view));
    CHECK_FALSE(dump.error(ref, &error));
  }
}

TEST_CASE("files that are no dumps are refused with their name", "[report][reader]") {
  CHECK(problem_of(std::vector<char>(10)) == DumpProblem::kNotADump);
  CHECK(problem_of(std::vector<char>(100000, 'x')) == DumpProblem::kNotADump);
  CHECK_THROWS_AS(Dump::open("/nonexistent/culprit.dump"), DumpError);
  CHECK_THROWS_AS(Dump::open("/dev/null"), DumpError);
  CHECK_THROWS_AS(Dump::open("/"), DumpError);
}

TEST_CASE("another version, byte order or record size is refused", "[report][reader]") {
  DumpBuilder builder = small_dump();
  SECTION("newer") {
    builder.header().version = kVersion + 1;
    CHECK(problem_of(builder.bytes()) == DumpProblem::kOtherVersion);
  }
  SECTION("older") {
    builder.header().version = kOldestReadableVersion - 1;
    CHECK(problem_of(builder.bytes()) == DumpProblem::kOtherVersion);
  }
  SECTION("byte order") {
    builder.header().byte_order = __builtin_bswap32(kByteOrderMark);
    CHECK(problem_of(builder.bytes()) == DumpProblem::kByteOrder);
  }
  SECTION("record size and chunk type") {
    std::vector<char> bytes = builder.bytes();
    auto* chunk = reinterpret_cast<ChunkHeader*>(bytes.data() + kHeaderBytes);
    SECTION("record size") { chunk->record_bytes += 8; }
    SECTION("type") { chunk->type = static_cast<ChunkType>(99); }
    SECTION("size") { chunk->bytes = 1ULL << 62; }
    SECTION("no size") { chunk->bytes = 0; }
    SECTION("used") { chunk->used = chunk->bytes; }
    SECTION("magic") { chunk->magic = 7; }
    // The first chunk holds strings, which have no record size; make sure that the section changed something that
    // counts.
    if (chunk->record_bytes == 8) chunk->type = ChunkType::kThreads;
    CHECK(problem_of(bytes) == DumpProblem::kDamaged);
  }
}

TEST_CASE("a dump that is cut off anywhere is refused as truncated", "[report][reader][damage]") {
  DumpBuilder builder = small_dump();
  const std::vector<char>& bytes = builder.bytes();
  for (std::size_t size = kHeaderBytes; size < bytes.size(); ++size) {
    // A copy of exactly this size, so that the address sanitizer sees the first byte too many.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    if (problem_of(cut) != DumpProblem::kTruncated) FAIL("accepted or misjudged at " << size << " bytes");
  }
  SUCCEED("refused at every size");
}

TEST_CASE("a dump that is cut off while it is read is refused, and no reader ends by a signal",
          "[report][reader][damage]") {
  const culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  DumpBuilder builder = small_dump();
  const std::vector<char>& bytes = builder.bytes();
  for (const off_t rest : {0, 4096, 8192}) {
    INFO(rest);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const Dump dump = Dump::open(path);
    REQUIRE(truncate(path.c_str(), rest) == 0);
    try {
      load_report(dump, {});
      FAIL("accepted");
    } catch (const DumpError& error) {
      CHECK(error.problem == DumpProblem::kTruncated);
      CHECK(has(error.what(), "cut off while it was read"));
    }
  }
  // The same addresses may be those of the next dump.
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CHECK_NOTHROW(load_report(path, {}));
  CHECK_FALSE(has_cut_off_files());
}

TEST_CASE("a program's file that is cut off while its symbols are read ends no reader", "[report][reader][damage]") {
  const culprit::test::TemporaryFolder folder;
  const std::string path = folder.file("a.so");
  std::ofstream(path) << std::string(64 << 10, 'x');
  watch_for_cut_off_files();
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto* const mapped = static_cast<const volatile char*>(mmap(nullptr, 64 << 10, PROT_READ, MAP_PRIVATE, file, 0));
  REQUIRE(truncate(path.c_str(), 0) == 0);
  CHECK(mapped[40000] == 0);
  CHECK(has_cut_off_files());
  CHECK(take_cut_off(const_cast<const char*>(mapped), 64 << 10));
  CHECK_FALSE(has_cut_off_files());
  munmap(const_cast<char*>(mapped), 64 << 10);
  close(file);
}

TEST_CASE("a header that claims less than there is, at every size, is read without a fault",
          "[report][reader][damage]") {
  DumpBuilder builder = small_dump();
  for (std::uint64_t size = 0; size <= builder.bytes().size(); size += kSanitized ? 48 : 16) {
    std::vector<char> bytes(builder.bytes().begin(), builder.bytes().begin() + static_cast<std::ptrdiff_t>(size));
    if (size >= kHeaderBytes)
      reinterpret_cast<Header*>(bytes.data())->file_bytes = size / kChunkAlignment * kChunkAlignment;
    read_all(bytes);
  }
  SUCCEED("no fault");
}

TEST_CASE("flipped bits are read without a fault", "[report][reader][damage]") {
  DumpBuilder builder = small_dump();
  const std::vector<char> original = builder.bytes();
  std::mt19937 random(7);
  // Bytes with content: flips in the zeros of reserved space are not a useful test.
  std::vector<std::size_t> interesting;
  for (std::size_t i = 0; i < original.size(); ++i) {
    if (original[i] != 0 || i % kChunkAlignment < 256) interesting.push_back(i);
  }
  for (int round = 0; round < (kSanitized ? 1500 : 3000); ++round) {
    std::vector<char> bytes = original;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[interesting[random() % interesting.size()]] ^= static_cast<char>(1U << random() % 8);
    }
    read_all(bytes);
  }
  SUCCEED("no fault");
}

TEST_CASE("random words in place of records are read without a fault", "[report][reader][damage]") {
  DumpBuilder builder = small_dump();
  const std::vector<char> original = builder.bytes();
  std::mt19937 random(11);
  for (int round = 0; round < 1000; ++round) {
    std::vector<char> bytes = original;
    for (int words = 0; words < 6; ++words) {
      const std::size_t at = kHeaderBytes + random() % ((bytes.size() - kHeaderBytes) / 4) * 4;
      const std::uint32_t word = random() % 3 == 0 ? 0xffffffff : random() % 3 == 0 ? random() % 4096 : random();
      std::memcpy(bytes.data() + at, &word, sizeof(word));
    }
    read_all(bytes);
  }
  SUCCEED("no fault");
}

TEST_CASE("a chunk that was reserved and not published yet ends the walk", "[report][reader]") {
  DumpBuilder builder = small_dump();
  std::vector<char> bytes = builder.bytes();
  const std::uint64_t size = bytes.size();
  bytes.resize(size + kChunkAlignment);
  reinterpret_cast<Header*>(bytes.data())->file_bytes = bytes.size();
  const Dump dump = read(bytes);
  CHECK(dump.devices().size() == 1);
}

TEST_CASE("time lines that make no sense are left out", "[report][reader]") {
  DumpBuilder builder;
  TimeLineRecord line = {};
  line.state = 3;  // the writer was killed while it changed the record: its content counts
  line.device = 1;
  line.bucket_ns = 65536;
  line.used = kTimeLineBuckets;
  line.buckets[kTimeLineBuckets - 1].high = 77;
  builder.add_time_line(line);
  line.buckets[0].high = 5;  // another one of the same device
  builder.add_time_line(line);
  line.device = 2;
  line.used = kTimeLineBuckets + 1;
  builder.add_time_line(line);
  line.device = 3;
  line.used = 1;
  line.bucket_ns = 0;
  builder.add_time_line(line);
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "a.dump");
  const std::vector<TimeLineRecord> lines = dump.time_lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].device == 1);
  CHECK(lines[0].buckets[0].high == 0);
  CHECK(lines[0].buckets[kTimeLineBuckets - 1].high == 77);
}
