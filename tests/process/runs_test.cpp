// Two steps judge like one: what `culprit run` knows besides its dumps, `culprit report` knows later.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

std::string program(const std::string& name) { return subject_path(name).string(); }

std::vector<std::string> shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

// `culprit report PATHS --fail-on leaks`.
Finished gate(std::vector<std::string> paths, const std::vector<std::string>& more = {"--fail-on", "leaks"}) {
  paths.insert(paths.begin(), "report");
  paths.insert(paths.end(), more.begin(), more.end());
  return run_culprit(paths);
}

void check_gate(const Finished& report, int exit_code, const std::string& words = "") {
  INFO(report.out << report.err);
  CHECK(report.exit_code == exit_code);
  if (!words.empty()) CHECK(has(report.out + report.err, words));
  if (exit_code == 4) CHECK(contains(report.out.substr(0, report.out.find('\n')), "NOT KNOWN"));
}

std::vector<std::string> files_with(const fs::path& folder, const std::string& part) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (contains(entry.path().filename().string(), part)) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// A process whose dump would have too long a name, beside one without leaks.
std::string with_one_that_has_no_dump() {
  return program("free_null") + "; LONG=$(printf %0300d 0) " + program("driver_leak_one");
}

}  // namespace

TEST_CASE("a process without a dump is known to the report that is made later", "[runs]") {
  const TemporaryFolder folder;
  const Run run =
      culprit_run({"--fail-on", "leaks", "--out", folder.file("%q{LONG}%p.dump")}, shell(with_one_that_has_no_dump()));
  INFO(run.err);
  REQUIRE(run.exit_code == 4);
  const std::vector<std::string> dumps = files_with(folder.path(), ".dump");
  REQUIRE(dumps.size() == 1);
  const std::string reason = "File name too long";
  check_gate(gate({folder.path().string()}), 4, reason);
  check_gate(gate({dumps[0]}), 4, reason);
  check_gate(gate({dumps[0]}, {"--fail-on", "leaks", "--merge"}), 4, reason);
  check_gate(gate({dumps[0]}, {"--error-exitcode", "9"}), 4, reason);
  // A merged file, and what is made of it.
  const std::string merged = folder.file("job.json");
  REQUIRE(run_culprit({"merge", folder.path().string(), "-o", merged}).exit_code == 0);
  check_gate(gate({merged}), 4, reason);
  CHECK(run_culprit({"diff", dumps[0], merged, "--fail-on", "new"}).exit_code == 4);
  CHECK(run_culprit({"diff", merged, dumps[0], "--fail-on", "new"}).exit_code == 4);
}

TEST_CASE("a run whose processes are all recorded is as green later", "[runs]") {
  const TemporaryFolder folder;
  const std::string both = program("free_null") + "; " + program("free_null");
  REQUIRE(culprit_run({"--fail-on", "leaks", "--out", folder.file("%n.%p.dump")}, shell(both)).exit_code == 0);
  check_gate(gate({folder.path().string()}), 0, "NOTHING LEAKED");
  // Moved together, they stay what they are.
  const TemporaryFolder other;
  fs::copy(folder.path(), other.path(), fs::copy_options::recursive);
  fs::remove_all(folder.path());
  fs::create_directory(folder.path());
  check_gate(gate({other.path().string()}), 0, "NOTHING LEAKED");
  // Several runs in one folder.
  CHECK(culprit_run({"--out", other.file("%n.%p.dump")}, {"driver_leak_one"}).exit_code == 0);
  check_gate(gate({other.path().string()}), 1);
  CHECK(files_with(other.path(), "culprit-run.").size() == 2);
}

TEST_CASE("a dump whose run is not known cannot be green", "[runs]") {
  const TemporaryFolder folder;
  REQUIRE(culprit_run({"--out", folder.file("%p.dump")}, {"free_null"}).exit_code == 0);
  const std::vector<std::string> dumps = files_with(folder.path(), ".dump");
  const std::vector<std::string> files = files_with(folder.path(), "culprit-run.");
  REQUIRE(dumps.size() == 1);
  REQUIRE(files.size() == 1);
  check_gate(gate(dumps), 0);
  const std::string text = file_text(files[0]);
  for (const std::string& damaged : {text.substr(0, text.size() / 2), std::string(), std::string("{}"),
                                     std::string("{\"schema\":\"culprit.run/1\",\"ended\":true,\"id\":\"x\"}")}) {
    std::ofstream(files[0]) << damaged;
    check_gate(gate(dumps), 4, fs::path(files[0]).filename().string());
  }
  fs::remove(files[0]);
  check_gate(gate(dumps), 4, "is missing");
  // A dump of a program that was only preloaded is of no run.
  const Run alone = run_preloaded("free_null");
  check_gate(gate({alone.dump().string()}), 0, "NOTHING LEAKED");
}

TEST_CASE("a dump of the run that is gone, or was not named, is missed", "[runs]") {
  const TemporaryFolder folder;
  const std::string line = program("free_null") + "; " + program("driver_leak_one");
  REQUIRE(culprit_run({"--out", folder.file("a.dump")}, shell(line)).exit_code == 0);
  check_gate(gate({folder.path().string()}), 1);
  check_gate(gate({folder.file("a.dump")}), 4, "a.1.dump");
  // Without a gate one dump may be looked at alone.
  const Finished alone = run_culprit({"report", folder.file("a.dump")});
  CHECK(alone.exit_code == 0);
  CHECK(has(alone.out, "NOTHING LEAKED"));
  CHECK(has(alone.out, "a.1.dump"));
  fs::remove(folder.file("a.1.dump"));
  check_gate(gate({folder.path().string()}), 4, "a.1.dump");
}

TEST_CASE("a run that did not come to its end cannot be green", "[runs]") {
  const TemporaryFolder folder;
  RunOptions options;
  options.when_ready = [&](pid_t pid) {
    kill(pid, SIGKILL);
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
  };
  culprit_run({"--out", folder.file("%p.dump")}, {"end_how", "live"}, options);
  check_gate(gate({folder.path().string()}, {"--fail-on", "leaks", "--min-bytes", "1G"}), 4, "did not come to its end");
}

TEST_CASE("the exit code of the command is not lost", "[runs]") {
  const TemporaryFolder folder;
  REQUIRE(culprit_run({"--fail-on", "leaks", "--out", folder.file("%p.dump")}, shell(program("free_null") + "; exit 3"))
              .exit_code == 3);
  const Finished report = gate({folder.path().string()});
  INFO(report.out << report.err);
  CHECK(report.exit_code == 4);
  CHECK(has(report.err, "exit code 3"));
  CHECK(gate({folder.path().string()}, {}).exit_code == 0);
  // How the command itself ended is known later, too.
  const TemporaryFolder other;
  const Run killed = culprit_run({"--out", other.file("%p.dump")}, {"end_how", "abort"});
  INFO(killed.err);
  CHECK(has(killed.err, "killed by SIGABRT"));
  CHECK(has(gate({other.path().string()}).out, "killed by SIGABRT"));
}

TEST_CASE("dumps of a run in several folders are joined", "[runs]") {
  const TemporaryFolder folder;
  const std::string line = program("free_null") + "; " + program("driver_leak_one");
  REQUIRE(culprit_run({"--out", folder.file("%n/%p.dump")}, shell(line)).exit_code == 0);
  check_gate(gate({folder.file("free_null"), folder.file("driver_leak_one")}), 1);
  check_gate(gate({folder.file("free_null")}), 4, "driver_leak_one");
  // Each folder can be taken elsewhere.
  const TemporaryFolder other;
  fs::copy(folder.file("free_null"), other.path(), fs::copy_options::recursive);
  check_gate(gate({other.path().string()}), 4, "driver_leak_one");
}

TEST_CASE("runs with one pattern see their own dumps only", "[runs]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("%n.%p.dump");
  const std::string inner = culprit_path().string() + " run --out '" + out + "' -- " + program("driver_leak_one");
  const Run outer = culprit_run({"--fail-on", "leaks", "--out", out}, shell(inner + " && " + program("free_null")));
  INFO(outer.err);
  CHECK(outer.exit_code == 4);  // what the inner one recorded is not in its report
  const std::size_t own = outer.err.find("NOT KNOWN");
  REQUIRE(own != std::string::npos);
  CHECK_FALSE(contains(outer.err.substr(own), "LEAKED"));
  CHECK(files_with(folder.path(), ".dump").size() == 2);
}

TEST_CASE("what a folder has besides readable dumps is named", "[runs]") {
  const Run good = run_preloaded("free_null");
  for (const char* what : {"damaged", "cut", "empty", "dangling", "nested", "nested deeper", "nested empty",
                           "nested dangling", "fifo", "no dump"}) {
    INFO(what);
    const std::string kind = what;
    const TemporaryFolder folder;
    fs::copy_file(good.dump(), folder.file("good.dump"));
    const std::string bad = folder.file("bad.dump");
    if (kind == "damaged" || kind == "cut") fs::copy_file(good.dump(), bad);
    if (kind == "damaged") std::fstream(bad, std::ios::in | std::ios::out).seekp(4096) << "damaged";
    if (kind == "cut") fs::resize_file(bad, 5000);
    if (kind == "empty") std::ofstream(bad).flush();
    if (kind == "no dump") std::ofstream(bad) << std::string(10000, 'x');
    if (kind == "dangling") fs::create_symlink("nowhere", bad);
    if (kind == "fifo") REQUIRE(mkfifo(bad.c_str(), 0600) == 0);
    if (kind == "nested") {
      fs::create_directory(folder.file("sub"));
      fs::copy_file(good.dump(), folder.file("sub/bad.dump"));
    }
    if (kind == "nested deeper") {
      fs::create_directories(folder.file("sub/a/b"));
      fs::copy_file(good.dump(), folder.file("sub/a/b/bad.dump"));
    }
    if (kind == "nested empty" || kind == "nested dangling") fs::create_directory(folder.file("sub"));
    if (kind == "nested empty") std::ofstream(folder.file("sub/bad.dump")).flush();
    if (kind == "nested dangling") fs::create_symlink("nowhere", folder.file("sub/bad.dump"));
    check_gate(gate({folder.path().string()}), 4, "bad.dump");
    const Finished shown = run_culprit({"report", folder.path().string()});
    CHECK(shown.exit_code == 0);
    CHECK(has(shown.out, "NOT KNOWN"));
    // A named file is another matter, and so is a folder without any that can be read.
    if (contains(kind, "nested")) continue;
    check_gate(gate({folder.file("good.dump"), bad}), 3, "bad.dump");
    fs::remove(folder.file("good.dump"));
    check_gate(gate({folder.path().string()}), 3, "bad.dump");
  }
}

TEST_CASE("one line serves one process and many: summary.verdict", "[runs]") {
  const std::string clean = program("free_null"), leaks = program("driver_leak_one");
  const std::vector<std::pair<std::string, std::string>> rows = {
      {clean, "clean"},
      {leaks, "leaks"},
      {"true", "clean"},
      {clean + "; " + clean, "clean"},
      {clean + "; " + leaks, "leaks"},
      {leaks + "; " + with_one_that_has_no_dump(), "not-known"}};
  for (const auto& [line, verdict] : rows) {
    INFO(line);
    const TemporaryFolder folder;
    const std::string file = folder.file("report.json");
    culprit_run({"-o", file, "--out", folder.file("%q{LONG}%p.dump")}, shell(line));
    const nlohmann::json json = nlohmann::json::parse(file_text(file));
    CHECK(json.at("summary").at("verdict") == verdict);
    const std::uint64_t bytes = json.at("summary").at("leaked_bytes");
    CHECK(bytes == (contains(line, leaks) && verdict != "clean" ? 11001 : 0));
  }
  const TemporaryFolder failed;
  const std::string file = failed.file("report.json");
  culprit_run({"-o", file, "--require-cuda"}, {"/bin/true"});
  CHECK(nlohmann::json::parse(file_text(file)).at("summary").at("verdict") == "not-known");
}

TEST_CASE("a run that is not known replaces no baseline", "[runs]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("known.json");
  const std::string out = folder.file("dumps/%q{LONG}%p.dump");
  REQUIRE(culprit_run({"--write-baseline", file}, {"driver_leak_one"}).exit_code == 0);
  std::string text = file_text(file);
  const std::string empty = "\"comment\": \"\"";
  REQUIRE(contains(text, empty));
  text.replace(text.rfind(empty), empty.size(), "\"comment\": \"kept\"");
  std::ofstream(file) << text;
  const Run run = culprit_run({"--write-baseline", file, "--out", out}, shell(with_one_that_has_no_dump()));
  CHECK(run.exit_code == 4);
  CHECK(has(run.err, "was not replaced"));
  CHECK(file_text(file) == text);
  CHECK(run_culprit({"report", folder.file("dumps"), "--write-baseline", file}).exit_code == 4);
  CHECK(file_text(file) == text);
  // A complete run replaces it, and keeps the comment.
  CHECK(culprit_run({"--write-baseline", file}, {"driver_leak_one"}).exit_code == 0);
  CHECK(has(file_text(file), "kept"));
}

TEST_CASE("files beside a dump are no dumps", "[runs]") {
  const Run good = run_preloaded("free_null");
  const TemporaryFolder folder;
  fs::copy_file(good.dump(), folder.file("good.dump"));
  std::ofstream(folder.file("good.dump.gpu.json")) << "{}";
  std::ofstream(folder.file("good.dump.python.json")) << "{}";
  std::ofstream(folder.file("leaks.html")) << "<html>";
  check_gate(gate({folder.path().string()}), 0);
  // As `*.dump*` names them.
  check_gate(gate({folder.file("good.dump"), folder.file("good.dump.gpu.json"), folder.file("good.dump.python.json")}),
             0);
  check_gate(gate({folder.file("good.dump.gpu.json")}), 3);
}

}  // namespace culprit::test
