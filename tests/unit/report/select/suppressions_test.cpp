// Suppressions: the leaks that lines of LeakSanitizer's syntax, and of culprit's own, hide.
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "report/base/file_error.h"
#include "report/select/suppressions.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

struct File {
  TemporaryFolder folder;
  std::string path = folder.file("known.supp");
  explicit File(const std::string& text) { std::ofstream(path) << text; }
};

struct Leaky : Program {
  std::uint32_t library = dump.add_module("/opt/third/libthird.so.2");
  Leaky() {
    dump.add_allocation(live_allocation(stack({"Solver::step", "main"}), 1000));
    dump.add_allocation(live_allocation(stack({"Cache::grow", "main"}), 2000, Kind::kManaged));
    const std::uint64_t inside = frame("/opt/third/libthird.so.2", library, "third_solve", 0);
    dump.add_allocation(live_allocation(dump.add_stack({inside, frame("/bin/app", module, "main", 7)}), 4000));
    dump.add_allocation(live_allocation(stack({"make_stream", "main"}), 0, Kind::kStream));
  }
};

// The sum of the bytes that are left after the suppressions in `text`; each leak has a bit of its own.
std::uint64_t left(const std::string& text, Report* report = nullptr, std::vector<std::string>* unused = nullptr) {
  const File file(text);
  Leaky program;
  Report made = program.report();
  Suppressions suppressions;
  suppressions.read(file.path);
  suppressions.apply(&made);
  std::uint64_t bytes = 0;
  for (const Group& group : made.leaks) bytes += group.bytes;
  if (report != nullptr) *report = made;
  if (unused != nullptr) *unused = suppressions.unused();
  return bytes;
}

std::string complaint(const std::string& text) {
  const File file(text);
  try {
    Suppressions().read(file.path);
  } catch (const FileError& error) {
    std::string message = error.what();
    for (std::size_t at = 0; (at = message.find(file.path)) != std::string::npos;)
      message.replace(at, file.path.size(), "FILE");
    return message;
  }
  return "";
}

}  // namespace

TEST_CASE("patterns are those of LeakSanitizer", "[report][suppressions]") {
  CHECK(matches_pattern("foo", "foo"));
  CHECK(matches_pattern("foo", "a foo b"));
  CHECK_FALSE(matches_pattern("foo", "fo o"));
  CHECK(matches_pattern("^foo", "foobar"));
  CHECK_FALSE(matches_pattern("^foo", "a foo"));
  CHECK(matches_pattern("foo$", "a foo"));
  CHECK_FALSE(matches_pattern("foo$", "foobar"));
  CHECK(matches_pattern("^foo$", "foo"));
  CHECK_FALSE(matches_pattern("^foo$", "foo2"));
  CHECK(matches_pattern("a*c", "xxabbbcxx"));
  CHECK(matches_pattern("^a*b*c$", "a--b-b--c-c"));
  CHECK_FALSE(matches_pattern("^a*b*c$", "a--c--b"));
  CHECK(matches_pattern("*", ""));
  CHECK(matches_pattern("^$", ""));
  CHECK_FALSE(matches_pattern("^$", "x"));
  CHECK(matches_pattern("operator^", "X::operator^"));
  // No pattern takes exponential time.
  std::string slow;
  for (int i = 0; i < 40; ++i) slow += "a*";
  CHECK_FALSE(matches_pattern("^" + slow + "b$", std::string(20000, 'a')));
}

TEST_CASE("the index of patterns finds what each pattern matches", "[report][suppressions]") {
  std::minstd_rand random(7);
  const auto word = [&](const std::string& letters, std::size_t most) {
    std::string text;
    for (std::size_t i = random() % (most + 1); i > 0; --i) text += letters[random() % letters.size()];
    return text;
  };
  std::size_t matching = 0;
  for (int round = 0; round < 300; ++round) {
    PatternIndex index;
    std::vector<std::string> patterns;
    for (int i = 0; i < 40; ++i) {
      patterns.push_back((random() % 4 == 0 ? "^" : "") + word("aab*", 6) + (random() % 4 == 0 ? "$" : ""));
      CHECK(index.add(patterns.back()) == static_cast<std::uint32_t>(i));
    }
    index.build();
    for (int k = 0; k < 20; ++k) {
      const std::string text = word("aabc", 12);
      std::vector<std::string> found;
      for (const std::uint32_t number : index.candidates(text)) {
        if (index.matches(number, text)) found.push_back(patterns[number]);
      }
      std::vector<std::string> expected;
      for (const std::string& pattern : patterns) {
        if (matches_pattern(pattern, text)) expected.push_back(pattern);
      }
      REQUIRE(found == expected);
      matching += found.size();
    }
  }
  CHECK(matching > 1000);
}

TEST_CASE("the first line counts whose limit allows the bytes", "[report][suppressions]") {
  Report report;
  // 1000 bytes below Solver::step, 2000 below Cache::grow, 4000 in libthird.
  CHECK(left("leak:main\nmax-bytes:1500\nleak:a\nmax-bytes:500\nleak:main\nmax-bytes:2500\nkind:device\n", &report) ==
        0);
  REQUIRE(report.suppressed.size() == 3);
  CHECK(report.suppressed[0].line == 1);
  CHECK(report.suppressed[1].line == 5);
  CHECK(report.suppressed[2].line == 7);
}

TEST_CASE("each sort of line hides what it names", "[report][suppressions]") {
  CHECK(left("") == 7000);
  CHECK(left("# leak:Solver\n\n   \n") == 7000);
  CHECK(left("leak:Solver") == 6000);
  CHECK(left("  leak:^Solver::*ep$  \r\n") == 6000);
  CHECK(left("leak:app.cu") == 0);  // every one comes from that source file
  CHECK(left("leak:libthird") == 3000);
  CHECK(left("module:libthird.so") == 3000);
  CHECK(left("module:^libthird.so.2$") == 3000);
  CHECK(left("module:third_solve") == 7000);
  CHECK(left("kind:managed") == 5000);
  CHECK(left("cause:never-freed") == 0);
  CHECK(left("cause:exception") == 7000);
  CHECK(left("leak:main\nmax-bytes:1000") == 6000);
  CHECK(left("leak:main\n# why\nmax-bytes:1.5K\nkind:managed\n") == 4000);
}

TEST_CASE("leaks that each line hid are counted, and lines that hid nothing are named", "[report][suppressions]") {
  Report report;
  std::vector<std::string> unused;
  left("# known\nleak:NoSuchName\nleak:Cache\nleak:main\nkind:managed\nkind:stream\n", &report, &unused);
  REQUIRE(report.suppressed.size() == 2);
  CHECK(report.suppressed[0].line == 3);
  CHECK(report.suppressed[0].text == "leak:Cache");
  CHECK(report.suppressed[0].hidden.bytes == 2000);
  CHECK(report.suppressed[1].line == 4);
  CHECK(report.suppressed[1].hidden.groups == 3);  // the stream too
  CHECK(report.resources.empty());
  REQUIRE(unused.size() == 3);
  CHECK(has(unused[0], "known.supp:2: leak:NoSuchName"));
  CHECK(has(unused[1], "known.supp:5: kind:managed"));
  SECTION("a cause says nothing of resources") {
    left("cause:never-freed", &report);
    CHECK(report.leaks.empty());
    CHECK(report.resources.size() == 1);
  }
}

TEST_CASE("all malformed lines are named with their numbers", "[report][suppressions]") {
  const std::string message = complaint(
      "leak:fine\nSolver::step\nleak:\nrace:x\ncause:bad-luck\nkind:teapot\nmax-bytes:many\nmax-bytes:1\nmax-bytes:"
      "2\n");
  CHECK_FALSE(has(message, "FILE:1:"));
  CHECK(has(message, "FILE:2: Solver::step: \"Solver:\" is not known"));
  CHECK(has(message, "FILE:3: leak:: nothing stands behind"));
  CHECK(has(message, "FILE:4: race:x: \"race:\" is not known"));
  CHECK(has(message, "FILE:5: cause:bad-luck: there is no cause \"bad-luck\""));
  CHECK(has(message, "FILE:6: kind:teapot: there is no kind \"teapot\""));
  CHECK(has(message, "FILE:7: max-bytes:many: many is no size"));
  CHECK_FALSE(has(message, "FILE:8:"));
  CHECK(has(message, "FILE:9: max-bytes:2: the line above has a limit already"));
  CHECK(has(complaint("max-bytes:1\nplain"), "FILE:1: max-bytes:1: there is no line above"));
  CHECK(has(complaint("max-bytes:1\nplain"), "FILE:2: plain: no \"leak:\""));
  CHECK_THROWS_WITH(Suppressions().read("/nonexistent/s"), Catch::Contains("/nonexistent/s: cannot be read"));
}

TEST_CASE("suggested suppressions hide what they were made from", "[report][suppressions]") {
  Leaky program;
  const std::string suggested = suggest_suppressions({program.report()}, false);
  CHECK(has(suggested, "# 1000 B in 1x: "));
  CHECK(has(suggested, ", never-freed, app.cu:"));
  CHECK(has(suggested, " Solver::step < "));
  Report report;
  std::vector<std::string> unused;
  CHECK(left(suggested, &report, &unused) == 0);
  CHECK(unused.empty());
  CHECK(report.resources.size() == 1);
}

TEST_CASE("suggested suppressions hide keepers of live tensors, too", "[report][suppressions]") {
  const auto keeper = [](KeeperKind kind, const char* path, std::uint64_t bytes, const char* id) {
    Keeper one;
    one.kind = kind;
    one.path = path;
    one.bytes = bytes;
    one.count = 1;
    one.id = id;
    return one;
  };
  Report report = Leaky().report();
  CacheInside inside;
  inside.kept = {
      keeper(KeeperKind::kParameters, "`model`", 3 << 20, "00000000000000aa"),
      keeper(KeeperKind::kAutograd, "`losses`, a list of 20 -> Tensor.grad_fn", 500 << 20, "00000000000000bb"),
      keeper(KeeperKind::kNotKnown, "", 1 << 20, "00000000000000cc")};
  report.caches_inside = {inside};
  report.live_cached_bytes = 504 << 20;
  const std::string suggested = suggest_suppressions({report}, false);
  CHECK(has(suggested,
            "# 500 MiB live in a cache, autograd graph: `losses`, a list of 20 -> Tensor.grad_fn\nid:00000000000000bb\n"
            "# 3.00 MiB live in a cache, parameters and buffers: `model`\nid:00000000000000aa\n"));
  CHECK_FALSE(has(suggested, "00000000000000cc"));  // what is not known cannot be hidden
  const File file(suggested);
  Suppressions suppressions;
  suppressions.read(file.path);
  suppressions.apply(&report);
  CHECK(suppressions.unused().empty());
  CHECK(report.live_cached_bytes == 1 << 20);
  CHECK(suggest_suppressions({report}, false).empty());
}

TEST_CASE("each suggested suppression hides one leak of twenty", "[report][suppressions]") {
  // The same function from twenty lines; from Python through libffi; and different callers of one function.
  Program program;
  const std::uint32_t ffi = program.dump.add_module("/usr/lib/libffi.so.8");
  const auto leak = [&](unsigned number) {
    const std::uint32_t line = 100 + number;
    std::vector<std::uint64_t> frames;
    if (number % 3 == 0) {
      frames = {program.frame("/usr/lib/libffi.so.8", ffi, "", 0),
                DumpBuilder::python_frame(program.dump.add_python_frame("/home/me/buffers.py", "make", 12)),
                DumpBuilder::python_frame(program.dump.add_python_frame("/home/me/train.py", "<module>", line))};
    } else if (number % 3 == 1) {
      frames = {program.frame("/bin/app", program.module, "make", 5),
                program.frame("/bin/app", program.module, "main", line)};
    } else {
      frames = {program.frame("/bin/app", program.module, "make", 5),
                program.frame("/bin/app", program.module, "caller" + std::to_string(number), 7)};
    }
    program.dump.add_allocation(live_allocation(program.dump.add_stack(frames), 1ULL << number));
  };
  for (unsigned number = 0; number < 20; ++number) leak(number);
  const bool one_id = GENERATE(false, true);
  const auto made = [&] {
    Report report = program.report();
    if (one_id) {
      for (Group& group : report.leaks) group.id = report.leaks.front().id;
    }
    return report;
  };
  const Report whole = made();
  REQUIRE(whole.leaks.size() == 20);
  std::istringstream suggested(suggest_suppressions({whole}, false));
  std::uint64_t hidden = 0;
  std::string comment;
  for (std::string line; std::getline(suggested, comment) && std::getline(suggested, line);) {
    INFO(comment << "\n" << line);
    const File file(comment + "\n" + line + "\n");
    Suppressions suppressions;
    suppressions.read(file.path);
    Report report = made();
    suppressions.apply(&report);
    REQUIRE(report.leaks.size() == 19);
    std::uint64_t left = 0;
    for (const Group& group : report.leaks) left += group.bytes;
    hidden |= ((1ULL << 20) - 1) ^ left;
  }
  CHECK(hidden == (1ULL << 20) - 1);
}

TEST_CASE("suppressions come from --suppressions or CULPRIT_SUPPRESSIONS", "[report][suppressions][cli]") {
  const File kinds("kind:device\nleak:NoSuchName\n");
  const std::string dump = kinds.folder.file("a.dump");
  DumpBuilder builder;
  builder.add_allocation(live_allocation(0, 11001));
  builder.write(dump);
  const std::string report = "CULPRIT report --fail-on leaks " + dump;
  CHECK(shell(report).exit_code == 1);
  const Finished hidden = shell(report + " --suppressions " + kinds.path);
  CHECK(hidden.exit_code == 0);
  CHECK(has(hidden.out, "NOTHING LEAKED"));
  CHECK(has(hidden.out, "hidden  10.7 KiB in 1 allocation by " + kinds.path + ":1 kind:device"));
  CHECK(has(hidden.out, "this suppression hid nothing: " + kinds.path + ":2: leak:NoSuchName"));
  CHECK(shell("CULPRIT_SUPPRESSIONS=" + kinds.path + " " + report).exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(shell(report + " --format json --suppressions " + kinds.path).out);
  CHECK(json["suppressed"][0]["bytes"] == 11001);
  CHECK(json["suppressed"][0]["line"] == 1);
  CHECK(json["summary"]["leaked_bytes"] == 0);

  const File bad("leak\n");
  const Finished refused = shell(report + " --suppressions " + bad.path + " 2>&1");
  CHECK(refused.exit_code == 3);
  CHECK(has(refused.out, bad.path + ":1: leak: "));
  const Finished suggested = shell("CULPRIT report --suggest-suppressions " + dump);
  CHECK(suggested.exit_code == 0);
  CHECK(has(suggested.out, "# 10.7 KiB in 1x"));
}
