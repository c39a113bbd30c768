// How much of a report is shown: the first ten groups, all of them, sorted, or one line for each cause, function, ...
#include <sstream>

#include "report/model/program_frames.h"
#include "report/render/render_folded.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "report/select/selection.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// Thirteen leaks: f0 leaked 1 B last of all, f12 leaked 13 B first of all; f3 three times.
struct Thirteen : Program {
  Thirteen() {
    for (unsigned i = 0; i < 13; ++i) {
      AllocationRecord record = live_allocation(stack({"f" + std::to_string(i), "main"}), i + 1);
      record.device = i % 2;
      record.time_ns = 1000 - i;
      dump.add_allocation(record);
      if (i != 3) continue;
      dump.add_allocation(record);
      dump.add_allocation(record);
    }
  }
};

std::string text_of(const Report& report, const RenderOptions& options) {
  std::ostringstream out;
  render_text({report}, options, out);
  return out.str();
}

std::string first_function(const std::string& sort) {
  Thirteen program;
  std::vector<Report> reports = {program.report()};
  SelectionOptions options;
  options.sort = sort;
  Selection(options).apply(false, &reports);
  return reports[0].leaks[0].stack->frames[0]->function;
}

}  // namespace

TEST_CASE("ten groups are shown and a line says what is left", "[report][lists]") {
  Thirteen program;
  const Report report = program.report();
  RenderOptions options;
  const std::string ten = text_of(report, options);
  CHECK(has(ten, "\n10 "));
  CHECK_FALSE(has(ten, "\n11 "));
  CHECK(has(ten, "and 3 groups more, 6 B in 3x: --all\n"));
  CHECK(has(ten, "LEAKED 99 B in 15 allocations, 13 groups"));
  options.all = true;
  const std::string all = text_of(report, options);
  CHECK(has(all, "\n13 "));
  CHECK_FALSE(has(all, "--all"));
}

TEST_CASE("groups are sorted by bytes or count or age", "[report][lists]") {
  CHECK(first_function("bytes") == "f12");
  CHECK(first_function("count") == "f3");
  CHECK(first_function("age") == "f12");
  Thirteen program;
  AllocationRecord oldest = live_allocation(program.stack({"oldest"}), 1);
  oldest.time_ns = 1;
  program.dump.add_allocation(oldest);
  std::vector<Report> reports = {program.report()};
  SelectionOptions options;
  options.sort = "age";
  Selection(options).apply(false, &reports);
  CHECK(reports[0].leaks[0].stack->frames[0]->function == "oldest");
}

TEST_CASE("leaks are summed by function or device or cause or library or thread", "[report][lists]") {
  Thirteen program;
  const Report report = program.report();
  RenderOptions options;
  options.group_by = "device";
  CHECK(has(text_of(report, options),
            "by device\n50 B      8x      6 groups   GPU 1\n49 B      7x      7 groups   GPU 0\n"));
  options.group_by = "cause";
  CHECK(has(text_of(report, options), "99 B      15x     13 groups  never-freed\n"));
  options.group_by = "library";
  CHECK(has(text_of(report, options), "99 B      15x     13 groups  app\n"));
  options.group_by = "function";
  CHECK(has(text_of(report, options), "13 B      1x      1 group    f12\n"));
  CHECK(has(text_of(report, options), "and 3 more: --all\n"));
  options.all = true;
  CHECK(has(text_of(report, options), "1 B       1x      1 group    f0\n"));
  options.group_by = "thread";
  CHECK(has(text_of(report, options), "99 B      15x     13 groups"));
}

namespace {

// A report with one leak, that of `stack`.
struct OneLeak {
  explicit OneLeak(const ResolvedStack& stack) {
    program.dump.add_allocation(live_allocation(program.stack({"leak", "main"}), 5));
    report = program.report();
    report.leaks[0].stack = &stack;
  }
  std::string by(const std::string& what) const {
    RenderOptions options;
    options.group_by = what;
    return text_of(report, options);
  }
  Program program;
  Report report;
};

}  // namespace

TEST_CASE("a stack is named by its Python line rather than by the library that Python called", "[report][lists]") {
  const Frame library = {"ffi_call", "", 0};
  Frame line = {"step", "train.py", 41};
  line.python = true;
  ResolvedStack stack;
  CHECK(naming_frame(stack) == nullptr);
  stack.frames = {&library};
  stack.caller = &library;
  CHECK(naming_frame(stack) == &library);
  stack.frames = {&library, &line};
  CHECK(naming_frame(stack) == &line);
  const OneLeak leak(stack);
  CHECK(has(leak.by("function"), "5 B       1x      1 group    step\n"));
  CHECK(has(leak.by("stack"), "train.py:41  step"));
}

TEST_CASE("a stack's row names the module of a function once, whether the function has a name or not",
          "[report][lists]") {
  Module module;
  module.name = "libffi.so.8";
  Frame frame;
  frame.module = &module;
  frame.offset = 0x6f79;
  ResolvedStack stack;
  stack.frames = {&frame};
  stack.caller = &frame;
  const OneLeak leak(stack);
  const std::string api = leak.report.leaks[0].api + "  ";
  CHECK(has(leak.by("stack"), api + "libffi.so.8+0x6f79\n"));
  frame.function = "ffi_call";
  frame.symbol_offset = 0x49;
  CHECK(has(leak.by("stack"), api + "libffi.so.8  ffi_call+0x49\n"));
}

TEST_CASE("leaks are summed by mark and by the marks of each group", "[report][lists]") {
  Program program;
  const Ref stack = program.stack({"leak", "main"});
  const Ref first = program.dump.add_label(program.dump.add_mark("one", MarkKind::kMark, 5), 0);
  const Ref second = program.dump.add_label(program.dump.add_mark("two", MarkKind::kMark, 9),
                                            program.dump.add_mark("range\n", MarkKind::kRange, 7));
  // 0: nothing was open; the last two lead nowhere.
  for (const Ref label : {Ref{0}, first, second, second, stack, Ref{0xfffffff0}}) {
    AllocationRecord record = live_allocation(stack, 100);
    record.label = label;
    program.dump.add_allocation(record);
  }
  ReleaseRecord release = {};
  release.state = 1;
  release.stack = stack;
  release.kind = Kind::kDevice;
  release.count = 3;
  release.bytes = 30;
  release.label = first;
  program.dump.add_release(release);
  const Report report = program.report();
  REQUIRE(report.marks.size() == 3);
  CHECK(report.marks[1].name == "range\n");
  RenderOptions options;
  options.group_by = "mark";
  const std::string grouped = text_of(report, options);
  CHECK(has(grouped, "by mark\n300 B     3x      1 group    (no mark)\n200 B     2x      1 group    two / range?\n"));
  CHECK(has(grouped, "130 B     4x      2 groups   one\n"));
}

TEST_CASE("a moment that is a mark's beginning is not told twice", "[report][lists]") {
  Program program;
  program.dump.add_mark("both", MarkKind::kMoment, 5);
  program.dump.add_mark("both", MarkKind::kMark, 6);
  program.dump.add_mark("moment", MarkKind::kMoment, 7);
  const Report report = program.report();
  REQUIRE(report.marks.size() == 2);
  CHECK(report.marks[0].kind == MarkKind::kMark);
  CHECK(report.marks[1].name == "moment");
}

TEST_CASE("tests that marks name are cases of the JUnit report", "[report][lists]") {
  Program program;
  const Ref stack = program.stack({"leak", "main"});
  program.dump.add_mark("test: passes", MarkKind::kMark, 1);
  program.dump.add_mark("test: is a moment", MarkKind::kMoment, 2);
  const Ref label = program.dump.add_label(program.dump.add_mark("test: <leaks>", MarkKind::kMark, 3), 0);
  for (const Ref one : {label, label, Ref{0}}) {
    AllocationRecord record = live_allocation(stack, 100);
    record.label = one;
    program.dump.add_allocation(record);
  }
  std::ostringstream out;
  render_junit({program.report()}, RenderOptions(), out);
  CHECK(has(out.str(), "tests=\"3\" failures=\"2\""));
  CHECK(has(out.str(), ".tests\" name=\"passes\"/>"));
  CHECK(has(out.str(), "name=\"&lt;leaks&gt;\">\n      <failure message=\"200 B in 2 allocations never given back\""));
  // The allocation outside of tests keeps the whole group as a case of its own.
  CHECK(has(out.str(), ".leaks\" name=\""));
}

TEST_CASE("formats escape what they would take for their own", "[report][lists]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"a<b>&\"c\";d|e\x01", "main"}), 5));
  const std::vector<Report> reports = {program.report()};
  auto in_format = [&](auto render) {
    std::ostringstream out;
    render(reports, RenderOptions(), out);
    return out.str();
  };
  CHECK(in_format(render_folded).substr(0, 5) == "main;");
  CHECK(has(in_format(render_folded), "a<b>&\"c\":d|e?;"));
  CHECK(has(in_format(render_junit), "a&lt;b&gt;&amp;&quot;c&quot;;d|e?"));
  CHECK(has(in_format(render_markdown), "a&lt;b&gt;&amp;\"c\";d\\|e?"));
}

TEST_CASE("JUnit has a passing case where nothing leaked and skips what the baseline knows", "[report][lists]") {
  TemporaryFolder folder;
  const std::string dump = folder.file("a.dump");
  const std::string report = "CULPRIT report --format junit " + dump;
  DumpBuilder builder;
  builder.write(dump);
  CHECK(has(shell(report).out, "tests=\"1\" failures=\"0\""));
  builder.add_allocation(live_allocation(0, 11001));
  builder.write(dump);
  CHECK(has(shell(report + " --write-baseline " + folder.file("b")).out, "tests=\"1\" failures=\"1\""));
  const std::string known = shell(report + " --baseline " + folder.file("b")).out;
  CHECK(has(known, "failures=\"0\" errors=\"0\" skipped=\"1\""));
  CHECK(has(known, "<skipped message=\"in the baseline: 10.7 KiB"));
}

TEST_CASE("options that a format cannot follow are refused", "[report][lists][cli]") {
  for (const char* options : {"--format json --all", "--format json --group-by cause", "--group-by colour",
                              "--sort name", "--format folded --all", "--format junit --group-by device"}) {
    INFO(options);
    CHECK(shell(std::string("CULPRIT report x ") + options + " 2>&1").exit_code == 2);
  }
  CHECK(shell("CULPRIT sweep --format junit -- true 2>&1").exit_code == 2);
}
