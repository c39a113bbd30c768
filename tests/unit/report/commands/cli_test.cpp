// The culprit command from outside: exit codes, messages, destination of output.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::format;
using namespace culprit::report;
using namespace culprit::test;

namespace {

// A folder with a dump that has a leak, one that has none, and one that has a double free.
struct Dumps {
  TemporaryFolder folder;
  std::string leaky = folder.file("leaky.dump");
  std::string clean = folder.file("clean.dump");
  std::string wrong_free = folder.file("wrong_free.dump");
  Dumps() {
    DumpBuilder dump;
    dump.write(clean);
    dump.add_allocation(live_allocation(0, 11001));
    dump.write(leaky);
    ErrorRecord error = {};
    error.state = 1;
    error.type = ErrorType::kDoubleFree;
    error.count = 1;
    DumpBuilder wrong;
    wrong.add_error(error);
    wrong.write(wrong_free);
  }
};

// Stands in for libculprit.so where only `culprit run` is tested.
const std::string kAnyLibrary = "CULPRIT_LIBRARY=/lib/x86_64-linux-gnu/libm.so.6 ";

}  // namespace

TEST_CASE("help and version are on stdout", "[report][cli]") {
  CHECK(has(shell("CULPRIT --version").out, "culprit "));
  for (const char* line : {"CULPRIT --help", "CULPRIT run --help", "CULPRIT sweep --help", "CULPRIT report --help",
                           "CULPRIT doctor --help"}) {
    const Finished finished = shell(std::string(line) + " 2>/dev/null");
    CHECK(finished.exit_code == 0);
    CHECK(has(finished.out, "Exit codes"));
  }
}

TEST_CASE("wrong usage ends with 2 and says how to go on", "[report][cli][one-thread]") {
  for (const char* line : {"CULPRIT 2>&1",
                           "CULPRIT bogus 2>&1",
                           "CULPRIT report 2>&1",
                           "CULPRIT report --bogus x 2>&1",
                           "CULPRIT run 2>&1",
                           "CULPRIT run -- 2>&1",
                           "CULPRIT run --bogus -- true 2>&1",
                           "CULPRIT run --bogus true 2>&1",
                           "CULPRIT report --format yaml x 2>&1",
                           "CULPRIT report --fail-on sometimes x 2>&1",
                           "CULPRIT report --error-exitcode 256 x 2>&1",
                           "CULPRIT report --fail-on new x 2>&1",
                           "CULPRIT run --fail-on new -- true 2>&1",
                           "CULPRIT report --min-bytes many x 2>&1",
                           "CULPRIT report --causes bad-luck x 2>&1",
                           "CULPRIT report --kinds teapot x 2>&1",
                           "CULPRIT report --devices all x 2>&1",
                           "CULPRIT report --suppressions 2>&1",
                           "CULPRIT report --no-source x 2>&1",
                           "CULPRIT report --format json --source-dir . x 2>&1",
                           "script -qec 'CULPRIT report --format html x' /dev/null 2>&1",
                           "CULPRIT report --allow-growth 10% x 2>&1",
                           "CULPRIT report --baseline b --allow-growth ten x 2>&1",
                           "CULPRIT sweep --fail-on new -- true 2>&1",
                           "CULPRIT run --depth 257 -- true 2>&1",
                           "CULPRIT sweep 2>&1",
                           "CULPRIT sweep --bogus -- true 2>&1",
                           "CULPRIT sweep --jobs 0 -- true 2>&1",
                           "CULPRIT sweep --timeout 0 -- true 2>&1",
                           "CULPRIT sweep --max-runs 0 -- true 2>&1",
                           "CULPRIT sweep --site xyz -- true 2>&1",
                           "CULPRIT sweep --resources -- true 2>&1",
                           "CULPRIT sweep --fail-on resources -- true 2>&1",
                           "CULPRIT run --fail-alloc 0 -- true 2>&1",
                           "CULPRIT run --fail-alloc x -- true 2>&1",
                           "CULPRIT run --fail-call cuMemAlloc -- true 2>&1",
                           "CULPRIT run --fail-call cuMemAlloc:1 -- true 2>&1",
                           "CULPRIT run --fail-call cuMemAlloc:0:2 -- true 2>&1",
                           "CULPRIT run --fail-call cuMemAlloc:1:0 -- true 2>&1",
                           "CULPRIT run --fail-call cuMemAlloc:1:CUDA_SUCCESS -- true 2>&1",
                           "CULPRIT run --fail-call cuMemAlloc:1:CUDA_ERROR_BOGUS -- true 2>&1",
                           "CULPRIT run --fail-call cuBogus:1:2 -- true 2>&1",
                           "CULPRIT run --fail-call cudaMalloc:1:2 -- true 2>&1"}) {
    INFO(line);
    const Finished finished = shell(line);
    CHECK(finished.exit_code == 2);
    CHECK(has(finished.out, "--help"));
  }
  CHECK(has(shell("CULPRIT report --bogus x 2>&1").out, "--bogus"));
  CHECK(has(shell("CULPRIT run --fail-call cudaMalloc:1:2 -- true 2>&1").out, "driver's function"));
  CHECK(has(shell("CULPRIT run --fail-call cuBogus:1:2 -- true 2>&1").out, "cuBogus: no such driver function"));
}

TEST_CASE("a wrong number is answered with the range in readable numbers", "[report][cli]") {
  // All options: numbers_test.cpp.
  const std::pair<const char*, const char*> rows[] = {
      {"attach abc", "PID: abc is no whole number from 1 to 2147483647"},
      {"attach -- -5", "-5 is no whole number from 1 to 2147483647"},
      {"start 4294967297", "4294967297 is no whole number from 1 to 2147483647"},
      {"run --depth 257 -- true", "257 is no whole number from 0 to 256"},
      {"top 1 --interval 0", "0 is no number from 0.1 to 3600"},
      {"top 1 --times x", "--times: x is no whole number from 0 to 4294967295"},
      {"attach 1 --for -5s", "--for: -5s is no time from 1ms to 10000h, such as 10s or 5m"},
      {"attach 1 --timeout x", "--timeout: x is no time from 1ms to 10000h, such as 10s or 5m"},
      {"doctor --gpu x", "--gpu: x is no whole number from 0 to 4294967295"},
  };
  for (const auto& [words, expected] : rows) {
    INFO(words);
    const Finished finished = shell(std::string("CULPRIT ") + words + " 2>&1");
    CHECK(finished.exit_code == 2);
    CHECK(has(finished.out, expected));
    CHECK(finished.out.size() < 200);
  }
}

TEST_CASE("output that does not arrive is an error", "[report][cli]") {
  Dumps dumps;
  for (const std::string& line : std::vector<std::string>{
           "--help", "run --help", "--version", "report " + dumps.leaky, "top " + dumps.leaky,
           "diff " + dumps.leaky + " " + dumps.leaky, "report --suggest-suppressions " + dumps.leaky}) {
    for (const std::string to : {" >/dev/full", " >&-"}) {
      INFO(line << to);
      const Finished finished = shell("CULPRIT " + line + to);
      CHECK(finished.exit_code == 3);
      CHECK(has(finished.err, "could not be written completely"));
    }
  }
}

TEST_CASE("the help of run says that its report goes to stderr", "[report][cli]") {
  const std::string help = shell("CULPRIT run --help").out;
  CHECK(has(help, "on stderr"));
  CHECK(has(help, "FILE instead of stderr"));
}

TEST_CASE("calls to fail reach the command in its environment", "[report][cli]") {
  const std::string run = "CULPRIT_FAIL=inherited " + kAnyLibrary + "CULPRIT run ";
  const std::string print = " -- sh -c 'echo \"$CULPRIT_FAIL\"' 2>/dev/null";
  CHECK(shell(run + print).out == "inherited\n");
  CHECK(shell(run + "--fail-alloc 3" + print).out == "alloc:3\n");
  CHECK(shell(run +
              "--fail-call cuMemcpyHtoD:2:CUDA_ERROR_ILLEGAL_ADDRESS --fail-alloc 1 --fail-alloc 4 --fail-call "
              "cuMemAlloc_v2:1:2" +
              print)
            .out == "alloc:1,alloc:4,cuMemcpyHtoD:2:700,cuMemAlloc_v2:1:2\n");
  std::string many;
  for (int i = 1; i <= 17; ++i) many += " --fail-alloc " + std::to_string(i);
  const Finished refused = shell(run + many + " -- true 2>&1");
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.out, "16 at most"));
}

TEST_CASE("inputs that cannot be read end with 3 and are named", "[report][cli]") {
  Dumps dumps;
  const Finished missing = shell("CULPRIT report /nonexistent.dump 2>&1");
  CHECK(missing.exit_code == 3);
  CHECK(has(missing.out, "/nonexistent.dump: cannot be opened"));
  CHECK(has(shell("CULPRIT report /etc/passwd 2>&1").out, "/etc/passwd"));
  SECTION("the others are reported all the same") {
    const Finished both = shell("CULPRIT report /nonexistent.dump " + dumps.leaky + " 2>/dev/null");
    CHECK(both.exit_code == 3);
    CHECK(has(both.out, "LEAKED 10.7 KiB"));
  }
  SECTION("an output that cannot be written") {
    CHECK(shell("CULPRIT report -o /nonexistent/x " + dumps.leaky + " 2>&1").exit_code == 3);
    CHECK(shell("CULPRIT report " + dumps.leaky + " 2>/dev/null >/dev/full").exit_code == 3);
  }
}

TEST_CASE("inputs and choices are checked before the program of run starts", "[report][cli]") {
  TemporaryFolder folder;
  const std::string begun = folder.file("begun");
  for (const char* options : {"-o /nonexistent/x", "--baseline /nonexistent/x", "--write-baseline /nonexistent/x",
                              "--suppressions /nonexistent/x", "--out a.dump -o a.dump", "--out /proc/x/a.dump"}) {
    INFO(options);
    const Finished refused =
        shell("cd " + folder.path().string() + " && " + kAnyLibrary + "CULPRIT run " + options + " -- touch " + begun);
    CHECK(refused.exit_code == 3);
    CHECK_FALSE(std::filesystem::exists(begun));
  }
}

TEST_CASE("a baseline is written to a new name, which no stranger can foresee", "[report][cli]") {
  Dumps dumps;
  const std::string victim = dumps.folder.file("victim");
  std::ofstream(victim) << "mine";
  const std::string baseline = dumps.folder.file("b.json");
  std::filesystem::create_symlink(victim, baseline + ".new");
  CHECK(shell("CULPRIT report --write-baseline " + baseline + " " + dumps.leaky).exit_code == 0);
  CHECK(has(file_text(baseline), "culprit.baseline/1"));
  CHECK(file_text(victim) == "mine");
}

TEST_CASE("the exit code is decided by --fail-on and --error-exitcode", "[report][cli]") {
  Dumps dumps;
  auto code = [&](const std::string& options, const std::string& dump) {
    return shell("CULPRIT report " + options + " " + dump).exit_code;
  };
  CHECK(code("", dumps.leaky) == 0);
  CHECK(code("--fail-on leaks", dumps.leaky) == 1);
  CHECK(code("--fail-on leaks", dumps.clean) == 0);
  CHECK(code("--fail-on errors", dumps.leaky) == 0);
  CHECK(code("--fail-on errors", dumps.wrong_free) == 1);
  CHECK(code("--fail-on leaks", dumps.wrong_free) == 0);
  CHECK(code("--fail-on errors,leaks", dumps.leaky) == 1);
  CHECK(code("--fail-on none --error-exitcode 7", dumps.leaky) == 0);
  CHECK(code("--error-exitcode 7", dumps.leaky) == 7);
  CHECK(code("--error-exitcode 7", dumps.clean) == 0);
  CHECK(code("--error-exitcode 7 --fail-on leaks", dumps.leaky) == 7);
}

TEST_CASE("a CUDA library without a single hook call ends with 4", "[report][cli]") {
  Dumps dumps;
  DumpBuilder silent;
  silent.header().hook_calls = 0;
  silent.write(dumps.clean);
  const Finished finished = shell("CULPRIT report " + dumps.clean);
  CHECK(finished.exit_code == 4);
  CHECK(has(finished.out, "none of its calls was seen"));
  CHECK(shell("CULPRIT report " + dumps.clean + " " + dumps.leaky).exit_code == 0);
}

TEST_CASE("JSON is one object for one dump and a list for several", "[report][cli]") {
  Dumps dumps;
  const nlohmann::json one = nlohmann::json::parse(shell("CULPRIT report --format json " + dumps.leaky).out);
  CHECK(one["schema"] == "culprit.report/1");
  CHECK(one["summary"]["leaked_bytes"] == 11001);
  CHECK(one["process"]["ended"] == "exit");
  const nlohmann::json two =
      nlohmann::json::parse(shell("CULPRIT report --format json " + dumps.leaky + " " + dumps.clean).out);
  CHECK(two["schema"] == "culprit.reports/1");
  CHECK(two["reports"].size() == 2);
}

TEST_CASE("a file named with -o gets the report and nothing else does", "[report][cli]") {
  Dumps dumps;
  const std::string file = dumps.folder.file("report.txt");
  CHECK(shell("CULPRIT report -o " + file + " " + dumps.leaky + " 2>&1").out.empty());
  std::ifstream written(file);
  CHECK(has(std::string((std::istreambuf_iterator<char>(written)), {}), "LEAKED"));
}

TEST_CASE("run passes input, output and the exit code through", "[report][cli]") {
  const Finished echo = shell("echo hello | " + kAnyLibrary + "CULPRIT run -- cat 2>/dev/null");
  CHECK(echo.exit_code == 0);
  CHECK(echo.out == "hello\n");
  CHECK(shell(kAnyLibrary + "CULPRIT run -- sh -c 'exit 42' 2>/dev/null").exit_code == 42);
  CHECK(has(shell(kAnyLibrary + "CULPRIT run -- true 2>&1").out, "no CUDA call was seen"));
  CHECK(shell(kAnyLibrary + "CULPRIT run echo a -- b 2>/dev/null").out == "a -- b\n");
  CHECK(shell(kAnyLibrary + "CULPRIT run -- printf '%s.' a '' 'b c' 2>/dev/null").out == "a..b c.");
}

TEST_CASE("run says why a command cannot be started", "[report][cli]") {
  const Finished missing = shell(kAnyLibrary + "CULPRIT run -- /nonexistent/app 2>&1");
  CHECK(missing.exit_code == 127);
  CHECK(has(missing.out, "/nonexistent/app: No such file or directory"));
  CHECK(shell(kAnyLibrary + "CULPRIT run -- /etc/passwd 2>&1").exit_code == 126);
  const Finished library = shell("CULPRIT_LIBRARY=/nonexistent/l.so CULPRIT run -- true 2>&1");
  CHECK(library.exit_code == 3);
  CHECK(library.out ==
        "culprit: /nonexistent/l.so: no such file, and CULPRIT_LIBRARY names it. Run: unset CULPRIT_LIBRARY\n");
}

TEST_CASE("where the library is missing, one command that helps is named", "[report][cli]") {
  const TemporaryFolder folder;
  const auto run_in = [&](const std::string& tree) {
    const std::string root = folder.file(tree);
    const std::string start = "mkdir -p '" + root + "/bin' && cp " CULPRIT_COMMAND " '" + root + "/bin' && '" + root;
    const Finished run = shell("unset CULPRIT_LIBRARY; " + start + "/bin/culprit' run -- true 2>&1");
    CHECK(run.exit_code == 3);
    return run.out.substr(run.out.rfind('/') + 1);
  };
  CHECK(run_in("tree") == "libculprit.so\n");
  CHECK(run_in("culprit/_native") ==
        "libculprit.so: no such file. Run: pip install --force-reinstall culprit_gpu-*.whl\n");
}

TEST_CASE("culprit library prints the path for LD_PRELOAD", "[report][cli]") {
  const Finished there = shell(kAnyLibrary + "CULPRIT library");
  CHECK(there.exit_code == 0);
  CHECK(there.out == "/lib/x86_64-linux-gnu/libm.so.6\n");
  const Finished missing = shell("CULPRIT_LIBRARY=/nowhere/libculprit.so CULPRIT library 2>/dev/null");
  CHECK(missing.exit_code == 3);
  CHECK(missing.out.empty());
  const TemporaryFolder folder;
  const std::string spaced = folder.file("with space.so");
  const Finished unusable = shell("touch '" + spaced + "'; CULPRIT_LIBRARY='" + spaced + "' CULPRIT library 2>&1");
  CHECK(unusable.exit_code == 3);
  CHECK(has(unusable.out, "LD_PRELOAD cannot hold a path with spaces or colons"));
}

TEST_CASE("run puts the library first and keeps its folder private", "[report][cli]") {
  // (A culprit with the address sanitizer does not start under another preloaded library without this option.)
  const Finished environment = shell("ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=libdl.so.2 " + kAnyLibrary +
                                     "CULPRIT run --depth 7 --log info -- env 2>/dev/null");
  CHECK(has(environment.out, "LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6:libdl.so.2\n"));
  CHECK(has(environment.out, "CULPRIT_QUIET=1\n"));
  CHECK(has(environment.out, "CULPRIT_DEPTH=7\n"));
  CHECK(has(environment.out, "CULPRIT_LOG=info\n"));
  const Finished mode =
      shell(kAnyLibrary +
            "CULPRIT run -- sh -c 'stat -c %a \"$(dirname \"$CULPRIT_OUT\")\"; dirname \"$CULPRIT_OUT\"' 2>/dev/null");
  REQUIRE(mode.out.substr(0, 4) == "700\n");
  struct stat info = {};
  CHECK(::stat(mode.out.substr(4, mode.out.size() - 5).c_str(), &info) != 0);
}

TEST_CASE("run reports the dumps that its command leaves", "[report][cli]") {
  Dumps dumps;
  // The command plays the library: it writes a dump to the library's path.
  DumpBuilder now;
  now.add_allocation(live_allocation(0, 11001));
  now.header().start_realtime_ns = 4000000000000000000ULL;
  const std::string made = dumps.folder.file("made");
  now.write(made);
  const std::string copy = "-- sh -c 'cp " + made + " \"$(dirname \"$CULPRIT_OUT\")/culprit.x.1.dump\"; cp " + made +
                           " \"$(dirname \"$CULPRIT_OUT\")/culprit.x.2.1.dump\"'";
  SECTION("on stderr") {
    const Finished run = shell(kAnyLibrary + "CULPRIT run " + copy + " 2>&1 >/dev/null");
    CHECK(run.exit_code == 0);
    CHECK(has(run.out, "LEAKED 10.7 KiB"));
    CHECK_FALSE(has(run.out, "next "));
  }
  SECTION("fail-on, and the command's own code first") {
    // A gate looks whether the library has a name that only libculprit.so has.
    const std::string library = dumps.folder.file("libculprit.so");
    REQUIRE(shell("cp /lib/x86_64-linux-gnu/libm.so.6 " + library + " && echo culprit_api_version >>" + library)
                .exit_code == 0);
    const std::string ours = "CULPRIT_LIBRARY=" + library + " ";
    CHECK(shell(kAnyLibrary + "CULPRIT run --fail-on leaks " + copy + " 2>&1").exit_code == 3);
    CHECK(shell(ours + "CULPRIT run --fail-on leaks " + copy + " 2>&1").exit_code == 1);
    CHECK(shell(ours + "CULPRIT run --error-exitcode 9 " + copy.substr(0, copy.size() - 1) + "; exit 3' 2>&1")
              .exit_code == 3);
  }
  SECTION("to a file, both processes") {
    const std::string file = dumps.folder.file("report.json");
    CHECK(shell(kAnyLibrary + "CULPRIT run --format json -o " + file + " " + copy + " 2>&1").out.empty());
    std::ifstream written(file);
    CHECK(nlohmann::json::parse(written)["reports"].size() == 2);
  }
  SECTION("kept where --out says, and older files left alone") {
    const std::string out = dumps.folder.file("kept");
    REQUIRE(::mkdir(out.c_str(), 0700) == 0);
    DumpBuilder old;
    old.header().start_realtime_ns = 1;
    old.write(out + "/culprit.x.9.dump");
    const Finished run = shell("cd " + out + " && " + kAnyLibrary +
                               "CULPRIT run --format json --out culprit.%n.%p.dump " + copy + " 2>&1");
    CHECK(nlohmann::json::parse(run.out)["reports"].size() == 2);
    struct stat info = {};
    CHECK(::stat((out + "/culprit.x.1.dump").c_str(), &info) == 0);
  }
}

TEST_CASE("without --format the name of the output file chooses the format", "[report][cli][one-thread]") {
  Dumps dumps;
  const auto content = [&](const std::string& name) { return file_text(dumps.folder.file(name)); };
  const auto report = [&](const std::string& options) {
    return shell("cd " + dumps.folder.path().string() + " && CULPRIT " + options + " 2>&1");
  };
  for (const auto& [name, begin] : {std::pair("r.html", "<!doctype html>"),
                                    {"r.json", "{\n  \"schema\": "},
                                    {"r.md", "#"},
                                    {"r.sarif", "{\n  \"$schema\": "},
                                    {"r.xml", "<?xml"},
                                    {"r.pb.gz", "\x1f\x8b"},
                                    {"r.other", "culprit "},
                                    {"r", "culprit "}}) {
    INFO(name);
    CHECK(report("report leaky.dump -o " + std::string(name)).exit_code == 0);
    CHECK(content(name).compare(0, std::string(begin).size(), begin) == 0);
  }
  // --format says more than the name.
  CHECK(report("report leaky.dump --format json -o page.html").exit_code == 0);
  CHECK(content("page.html")[0] == '{');
  CHECK(report("report leaky.dump --format text -o page.html").exit_code == 0);
  CHECK(content("page.html").compare(0, 7, "culprit") == 0);
  CHECK(report("diff clean.dump leaky.dump -o d.html").exit_code == 0);
  CHECK(has(content("d.html"), "</html>"));
  CHECK(shell("cd " + dumps.folder.path().string() + " && " + kAnyLibrary + "CULPRIT run -o run.json -- true 2>&1")
            .exit_code == 0);
  CHECK(content("run.json")[0] == '{');
  // Options for one format see the format of the name.
  CHECK(report("report leaky.dump --no-source -o page.html").exit_code == 0);
  CHECK(report("report leaky.dump --all -o all.sarif").exit_code == 2);
  // A format that the command does not have is not replaced by another.
  for (const char* line : {"diff clean.dump leaky.dump -o d.sarif", "doctor -o d.html", "sweep -o s.md -- true",
                           "merge leaky.dump -o job.html", "attach 1 -o a.xml"}) {
    INFO(line);
    const Finished refused = report(line);
    CHECK(refused.exit_code == 2);
    CHECK(has(refused.out, "-o "));
  }
  CHECK(report("merge leaky.dump -o job.merged").exit_code == 0);
  CHECK(report("merge leaky.dump -o job.json").exit_code == 0);
  CHECK(has(report("report --help").out, ".sarif"));
}
