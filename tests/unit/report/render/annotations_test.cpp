// The formats that annotate lines of the source: which line, under which name, and how foreign names are escaped.
#include <algorithm>
#include <sstream>
#include <string>

#include "report/model/report.h"
#include "report/render/formats.h"
#include "report/render/render_gcc.h"
#include "report/render/render_github.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_sarif.h"
#include "report/render/source_place.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/in_format.h"
#include "tests/unit/report/judge/cause_program.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// A leak in a library's header outside of the repository /w, which main() of /w/src/app.cu asked for.
struct LeakInHeader {
  DumpBuilder dump;
  FakeSymbols symbols;
  Report report;

  LeakInHeader(const std::string& function, const std::string& file, const std::string& program_file) {
    const Ref executable = dump.add_string("/w/build/app");
    dump.header().executable = executable;
    const std::uint32_t app = dump.add_module("/w/build/app", {1}, kModuleExecutable);
    symbols.add("/w/build/app", 0x10, function, file, 12);
    symbols.add("/w/build/app", 0x20, "main", program_file, 40);
    dump.add_allocation(
        live_allocation(dump.add_stack({DumpBuilder::frame(app, 0x10), DumpBuilder::frame(app, 0x20)}), 11001));
    report = report_of(dump, symbols);
  }

  std::string in(const std::string& format) const {
    RenderOptions options;
    options.repository_folders = {"/w"};
    options.working_folders = {"/w/build"};
    std::ostringstream out;
    find_format(format)->write({report}, options, out);
    return out.str();
  }
};

}  // namespace

TEST_CASE("a path is relative to the first folder that it lies below", "[report][annotations]") {
  CHECK(path_below({"/w"}, "/w/src/app.cu") == "src/app.cu");
  CHECK(path_below({"/w/"}, "/w/./build/../src/app.cu") == "src/app.cu");
  CHECK(path_below({"/w/build", "/w"}, "/w/src/app.cu") == "src/app.cu");
  CHECK(path_below({"/w"}, "/work/app.cu") == "/work/app.cu");
  CHECK(path_below({"/w"}, "/w/../etc/app.cu") == "/etc/app.cu");
  CHECK(path_below({"/w"}, "src/app.cu") == "src/app.cu");
  CHECK(path_below({}, "/w/app.cu") == "/w/app.cu");
  CHECK(path_below({"/"}, "/w/app.cu") == "w/app.cu");
}

TEST_CASE("a leak below code of others is annotated in the repository", "[report][annotations]") {
  const LeakInHeader leak("thrust::fill", "/usr/local/include/thrust/fill.h", "/w/src/app.cu");
  CHECK(has(leak.in("github"), "::error file=src/app.cu,line=40,title=culprit%3A 10.7 KiB never given back (app)::"));
  CHECK(has(leak.in("github"), "%0Aallocated in thrust::fill (/usr/local/include/thrust/fill.h:12)%0A"));
  // The working directory is not the repository: an editor looks for files from there.
  const std::string gcc = leak.in("gcc");
  CHECK(has(gcc, "/usr/local/include/thrust/fill.h:12: error: 10.7 KiB in 1 allocation"));
  CHECK(has(gcc, "\n/w/src/app.cu:40: note: called from main\n"));
}

TEST_CASE("names cannot end a workflow command or begin another", "[report][annotations]") {
  const LeakInHeader leak("f\n::set-env name=PATH::/tmp\r%0A", "/w/a,b:c%\n::stop.cu", "/w/main.cu");
  const std::string text = leak.in("github");
  INFO(text);
  CHECK(has(text, "file=a%2Cb%3Ac%25?%3A%3Astop.cu,line=12,title="));
  CHECK(has(text, "%0Aallocated in f?::set-env name=PATH::/tmp?%250A (a,b:c%25?::stop.cu:12)"));
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) CHECK(text.compare(at, 8, "::error ") == 0);
  const std::string gcc = leak.in("gcc");
  CHECK(std::count(gcc.begin(), gcc.end(), '\n') == 3);
}

TEST_CASE("what() of an exception is in every format for people, and cannot end it", "[report][annotations][what]") {
  CauseProgram program;
  ThrowRecord record = program.throw_record();
  record.what = program.dump.add_string("a<b & \"q\"\n</pre>::error::%0A|]]>\x1b[2J \xe2\x80\xae\xff");
  program.allocate(program.made, program.thrown(record));
  const Report report = program.report();
  REQUIRE(report.leaks.at(0).evidence.at(0).type == EvidenceType::kException);
  const std::string tail = "::error::%0A|]]&gt;?[2J ??\"";
  const std::string markdown = in_format(report, render_markdown);
  INFO(markdown);
  CHECK(has(markdown, "\nthrown     app.cu:33  std::runtime_error \"a&lt;b &amp; \"q\"?&lt;/pre&gt;" + tail + "\n"));
  CHECK(has(markdown, "\ncaught     app.cu:42  main\n"));
  const std::string junit = in_format(report, render_junit);
  INFO(junit);
  CHECK(has(junit,
            "\nexception: std::runtime_error “a&lt;b &amp; &quot;q&quot;?&lt;/pre&gt;::error::%0A|]]&gt;?[2J ??”\n"));
  const std::string github = in_format(report, render_github);
  INFO(github);
  CHECK(has(github,
            "%0Athrown here: std::runtime_error \"a<b & \"q\"?</pre>::error::%250A|]]>?[2J ??\" (/src/app.cu:33)%0A"));
  CHECK(std::count(github.begin(), github.end(), '\n') == 1);
  CHECK(
      has(in_format(report, render_gcc), "/src/app.cu:33: note: thrown here: std::runtime_error \"a<b & \"q\"?</pre>"));
  const auto sarif = nlohmann::json::parse(in_format(report, render_sarif)).dump();
  CHECK(has(sarif, "thrown here: std::runtime_error \\\"a<b & \\\"q\\\"?</pre>"));

  // Neither a stack nor a type is known.
  record.stack = 0;
  record.type = 0;
  record.what = program.dump.add_string("the reason");
  program.allocate(program.at_line(77), program.thrown(record));
  const Report bare = program.report();
  for (const Render render : {Render(render_markdown), Render(render_junit), Render(render_github), Render(render_gcc)})
    CHECK(has(in_format(bare, render), "the reason"));
}

TEST_CASE("a known leak is no error, and a verdict that is not known is one", "[report][annotations]") {
  LeakInHeader leak("f", "/w/a.cu", "/w/main.cu");
  leak.report.leaks.front().comparison = Comparison::kKnown;
  leak.report.dropped.allocations = 12;
  const std::string reason = "not known whether all memory was freed: 12 allocations not recorded";
  CHECK(has(leak.in("github"), "::error title=culprit%3A not known whether all memory was freed (app)::" + reason));
  CHECK(has(leak.in("github"), "::notice file=a.cu,line=12,"));
  CHECK_FALSE(has(leak.in("github"), "::error file="));
  CHECK(has(leak.in("gcc"), "culprit: error: " + reason));
  CHECK(has(leak.in("gcc"), "/w/a.cu:12: warning: in the baseline: "));
  leak.report.leaks.clear();
  leak.report.dropped = {};
  CHECK(leak.in("github") == "culprit: process 4242: NOTHING LEAKED\n");
  CHECK(leak.in("gcc") == "culprit: note: app [4242]: NOTHING LEAKED\n");
}

TEST_CASE("GitHub keeps fifty annotations of a job: the rest are counted", "[report][annotations]") {
  LeakInHeader leak("f", "/w/a.cu", "/w/main.cu");
  const Group group = leak.report.leaks.front();
  leak.report.leaks.assign(53, group);
  const std::string text = leak.in("github");
  CHECK(std::count(text.begin(), text.end(), '\n') == 51);
  CHECK(has(text, "::notice title=culprit::3 more are left out here"));
  leak.report.leaks.assign(53, group);
  const std::string gcc = leak.in("gcc");
  CHECK_FALSE(has(gcc, "left out"));
}

TEST_CASE("a file's name chooses the format", "[report][annotations]") {
  for (const auto& [path, name] : {std::pair("leaks.html", "html"),
                                   {"a/LEAKS.HTM", "html"},
                                   {"leaks.json", "json"},
                                   {"leaks.md", "markdown"},
                                   {"leaks.markdown", "markdown"},
                                   {"leaks.sarif", "sarif"},
                                   {"leaks.sarif.json", "sarif"},
                                   {"leaks.xml", "junit"},
                                   {"leaks.folded", "folded"},
                                   {"leaks.pb.gz", "pprof"},
                                   {"leaks.txt", "text"},
                                   {"leaks", "text"},
                                   {"leaks.html.old", "text"},
                                   {"html", "text"},
                                   {"", "text"}}) {
    INFO(path);
    CHECK(std::string(format_for_file(path).name) == name);
  }
}
