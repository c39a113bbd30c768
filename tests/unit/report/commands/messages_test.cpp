// --quiet and --verbose of the command: which messages they leave, where they may stand, and what they do not change.
#include <string>

#include "tests/catch.h"
#include "tests/support/pattern.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::format;
using namespace culprit::report;
using namespace culprit::test;

namespace {

const std::string kSubject = CULPRIT_SUBJECT_DIR "/symbol_subject";
const std::string kStripped = CULPRIT_SUBJECT_DIR "/stripped";

// Stands in for libculprit.so where only `culprit run` is tested.
const std::string kSomeLibrary = "CULPRIT_LIBRARY=/lib/x86_64-linux-gnu/libm.so.6 ";

// A folder with a dump of a leak in four modules: as it was built, without debug information, with another build ID
// than recorded, and gone.
struct Leak {
  TemporaryFolder folder;
  std::string dump = folder.file("leak.dump");
  Leak() {
    DumpBuilder made;
    std::vector<std::uint64_t> frames;
    for (const auto& [path, build_id] : {std::pair(kSubject, std::vector<std::uint8_t>()),
                                         {kStripped, {}},
                                         {kSubject, std::vector<std::uint8_t>(20, 0xab)},
                                         {"/nonexistent/lib.so", {0xcd, 0xef}}})
      frames.push_back(DumpBuilder::frame(made.add_module(path, build_id), 0x1000));
    made.add_allocation(live_allocation(made.add_stack(frames), 11001));
    made.write(dump);
  }
};

std::string build_id_of(const std::string& file) {
  const std::string text = shell("readelf -n " + file + " 2>/dev/null").out;
  const std::vector<std::string> ids = first_groups(text, "Build ID: ([0-9a-f]{40})");
  REQUIRE(ids.size() == 1);
  return ids.front();
}

}  // namespace

TEST_CASE("option --verbose names the files of the symbols, and the time of each step", "[report][messages]") {
  const Leak leak;
  const std::string id = build_id_of(kSubject);
  const Finished verbose = shell("CULPRIT report --verbose " + leak.dump);
  const std::string begin = "culprit: debug: symbols of ";
  CHECK(has(verbose.err, begin + kSubject + ": build ID " + id + ", debug information in " + kSubject + "\n"));
  CHECK(has(verbose.err, begin + kStripped + ": build ID " + id + ", debug information missing\n"));
  CHECK(has(verbose.err, begin + kSubject + ": build ID " + id + ", not used because build ID " +
                             "abababababababababababababababababababab was recorded\n"));
  CHECK(has(verbose.err, begin + "/nonexistent/lib.so: no such file, build ID cdef was recorded\n"));
  for (const std::string step : {"read ", "resolve ", "judge "}) {
    INFO(step);
    CHECK(has_match(verbose.err, "culprit: debug: " + step + "\\S*leak.dump: [0-9.]+ m?s\n"));
  }
  CHECK(has_match(verbose.err, "culprit: debug: render text: [0-9.]+ m?s\n"));
  CHECK_FALSE(has(verbose.err + "-", "trace:"));
  // -vv also names what was tried; a report is the same with each of them.
  const Finished trace = shell("CULPRIT report -vv " + leak.dump);
  CHECK(has(trace.err, "culprit: trace: no separate debug file of " + kStripped));
  const Finished plain = shell("CULPRIT report " + leak.dump);
  CHECK(plain.err.empty());
  CHECK(has(plain.out, "LEAKED 10.7 KiB"));
  CHECK(verbose.out == plain.out);
  CHECK(trace.out == plain.out);
}

TEST_CASE("debug information in another file is named", "[report][messages]") {
  TemporaryFolder folder;
  DumpBuilder made;
  const std::uint32_t module = made.add_module(CULPRIT_SUBJECT_DIR "/split");
  made.add_allocation(live_allocation(made.add_stack({DumpBuilder::frame(module, 0x1000)}), 1));
  made.write(folder.file("d"));
  const std::string report = "CULPRIT -v report --debug-dir " CULPRIT_SUBJECT_DIR "/debug " + folder.file("d");
  CHECK(has(shell(report).err, "debug information in " CULPRIT_SUBJECT_DIR "/debug/split.debug\n"));
}

TEST_CASE("option --verbose of run names the library, the dumps and the end of the program", "[report][messages]") {
  const Finished run = shell(kSomeLibrary + "CULPRIT run -vv -- sh -c 'exit 7'");
  CHECK(run.exit_code == 7);
  CHECK(has(run.err, "culprit: debug: the library is /lib/x86_64-linux-gnu/libm.so.6 (CULPRIT_LIBRARY)\n"));
  CHECK(has(run.err, "culprit: trace: the program gets LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6"));
  CHECK(has(run.err, "culprit: debug: the program ended with exit code 7\n"));
  CHECK(has(run.err, "culprit: debug: no dump found: "));
  TemporaryFolder folder;
  DumpBuilder made;
  made.header().start_realtime_ns = 4000000000000000000ULL;
  made.write(folder.file("made"));
  const Finished found = shell(kSomeLibrary + "CULPRIT run -v --out " + folder.file("%p.dump") + " -- cp " +
                               folder.file("made") + " " + folder.file("1.dump"));
  CHECK(has(found.err, "culprit: debug: dump found: " + folder.file("1.dump") + "\n"));
}

TEST_CASE("option --quiet keeps errors and exit codes, and drops the rest", "[report][messages]") {
  const Leak leak;
  const std::string run = kSomeLibrary + "CULPRIT run ";
  const Finished loud = shell(run + "-- true");
  CHECK(loud.exit_code == 0);
  CHECK(loud.err.compare(0, 43, "culprit: warning: no CUDA call was seen: th") == 0);
  const Finished quiet = shell(run + "--quiet -- true");
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.err.empty());
  // The same text is an error when it is the reason of the exit code.
  const Finished required = shell(run + "--require-cuda --quiet -- true");
  CHECK(required.exit_code == 4);
  CHECK(required.err.compare(0, 34, "culprit: no CUDA call was seen: th") == 0);
  for (const std::string option : {"", "--quiet ", "--verbose "}) {
    INFO(option);
    const Finished missing = shell("CULPRIT report " + option + "/nonexistent.dump");
    CHECK(missing.exit_code == 3);
    CHECK(has(missing.err, "culprit: /nonexistent.dump: cannot be opened"));
    CHECK(shell("CULPRIT report --fail-on leaks " + option + leak.dump).exit_code == 1);
    CHECK(shell("CULPRIT report " + option + "--bogus").exit_code == 2);
    CHECK(shell(run + option + "-- /nonexistent/app").exit_code == 127);
  }
}

TEST_CASE("option --quiet and --verbose stand before and after the sub-command", "[report][messages][one-thread]") {
  const std::string command = kSomeLibrary + "CULPRIT ";
  for (const std::string line : {"--quiet run -- true", "-q run true", "run -q true", "run --quiet -- true"}) {
    INFO(line);
    const Finished run = shell(command + line);
    CHECK(run.exit_code == 0);
    CHECK(run.err.empty());
  }
  // Each -v counts, in both places.
  for (const std::string line : {"-vv run true", "-v run -v true", "run -vv true", "run --verbose -v -- true"}) {
    INFO(line);
    CHECK(has(shell(command + line).err, "culprit: trace: "));
  }
  // After the program's name they are the program's.
  const Finished own = shell(command + "run echo -q -v 2>/dev/null");
  CHECK(own.out == "-q -v\n");
  for (const std::string name :
       {"run", "sweep", "report", "diff", "merge", "doctor", "attach", "detach", "start", "stop", "top"}) {
    INFO(name);
    const Finished help = shell("CULPRIT " + name + " --help");
    CHECK(has(help.out, "--verbose"));
    CHECK(has(help.out, "--quiet"));
    const Finished both = shell("CULPRIT -q " + name + " -v x -- x");
    CHECK(both.exit_code == 2);
  }
  CHECK(has(shell("CULPRIT -q report -v x").err, "culprit: --quiet excludes --verbose\n"));
}

TEST_CASE("levels have colours on a terminal only", "[report][messages]") {
  const std::string run = "script -qec '" + kSomeLibrary + "CULPRIT run -v -- true' /dev/null";
  const std::string warning = "culprit: warning: no CUDA call";
  const std::string coloured = "culprit: \x1b[1;33mwarning:\x1b[0m no CUDA call";
  CHECK(has(shell("TERM=xterm NO_COLOR= " + run).out, coloured));
  CHECK(has(shell("TERM=xterm NO_COLOR= script -qec 'CULPRIT report /nonexistent' /dev/null").out,
            "\x1b[1;31mculprit:\x1b[0m /nonexistent: "));
  CHECK(has(shell("TERM=xterm NO_COLOR=1 " + run).out, warning));
  CHECK(has(shell("TERM=dumb NO_COLOR= " + run).out, warning));
  CHECK(has(shell("TERM=xterm NO_COLOR= " + kSomeLibrary + "CULPRIT run -- true").err, warning));
}

TEST_CASE("messages are there when culprit is killed", "[report][messages]") {
  TemporaryFolder folder;
  const Finished killed = shell("TMPDIR=" + folder.path().string() + " " + kSomeLibrary +
                                "CULPRIT run -v -- sh -c 'kill -9 $PPID'; exit $?");
  CHECK(killed.exit_code == 137);
  CHECK(has(killed.err, "culprit: debug: the library is "));
}

TEST_CASE("names in messages cannot steer a terminal", "[report][messages]") {
  const Finished file = shell("CULPRIT report \"$(printf '/x\\033[31m\\302\\233y')\"");
  CHECK(file.exit_code == 3);
  CHECK(has(file.err, "culprit: /x?[31m?y: cannot be opened"));
}
