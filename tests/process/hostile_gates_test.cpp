// Ways to a green gate although something was not seen: runs inside runs, dumps and files of runs that are gone or
// exchanged, variables and options that name nothing.
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

std::string program(const std::string& name) { return subject_path(name).string(); }

std::vector<std::string> shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

void check_exit(const std::string& text, int found, int exit_code, const std::string& words) {
  INFO(text);
  CHECK(found == exit_code);
  CHECK(has(text, words));
}

void check_run(const std::vector<std::string>& options, const std::vector<std::string>& command, int exit_code,
               const std::string& words, const RunOptions& more = {}) {
  const Run run = culprit_run(options, command, more);
  check_exit(run.err, run.exit_code, exit_code, words);
}

void check_report(const std::vector<std::string>& words_of_command, int exit_code, const std::string& words) {
  const Finished report = run_culprit(words_of_command);
  check_exit(report.out + report.err, report.exit_code, exit_code, words);
}

// The files of a folder whose names end so.
std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("what a run inside of a run recorded is not known to the outer one", "[gates]") {
  const TemporaryFolder folder;
  const std::string culprit = culprit_path().string();
  const std::string words = "ran under a `culprit run` of its own";
  for (const std::string& inner :
       {culprit + " run -- " + program("driver_leak_one"),
        culprit + " run --out " + folder.file("inner/%p.dump") + " -- " + program("free_null"),
        culprit + " sweep -- " + program("driver_leak_one")}) {
    INFO(inner);
    check_run({"--fail-on", "leaks"}, shell(inner), 4, words);
    check_run({"--fail-on", "leaks"}, shell(program("free_null") + "; " + inner), 4, words);
  }
  const fs::path dumps = folder.path() / "outer";
  check_run({"--fail-on", "leaks", "--out", (dumps / "%p.dump").string()},
            shell(culprit + " run -- " + program("driver_leak_one")), 4, words);
  check_report({"report", dumps.string(), "--fail-on", "leaks"}, 4, words);
  // One that recorded nothing hides nothing.
  check_run({"--fail-on", "leaks"}, shell(culprit + " run -- true; " + program("free_null")), 0, "NOTHING LEAKED");
}

TEST_CASE("a folder whose dumps are all gone is not green", "[gates]") {
  const TemporaryFolder folder;
  for (int run = 0; run < 2; ++run) culprit_run({"--out", folder.file("%p.dump")}, {"driver_leak_one"});
  for (const fs::path& dump : files_in(folder.path(), ".dump")) fs::remove(dump);
  check_report({"report", folder.path().string(), "--fail-on", "leaks"}, 4, "is not here");
  // Files of runs whose dumps were cleaned up, beside dumps of another run.
  culprit_run({"--out", folder.file("%p.dump")}, {"free_null"});
  check_report({"report", folder.path().string(), "--fail-on", "leaks"}, 0, "dumps are no longer here");
}

TEST_CASE("files of a run that were exchanged are not believed", "[gates]") {
  const TemporaryFolder folder;
  for (const char* name : {"a.dump", "b.dump"}) culprit_run({"--out", folder.file(name)}, {"free_null"});
  const std::vector<fs::path> runs = files_in(folder.path(), ".json");
  REQUIRE(runs.size() == 2);
  const std::vector<std::string> gate = {"report", folder.path().string(), "--fail-on", "leaks"};
  REQUIRE(run_culprit(gate).exit_code == 0);
  const std::string before = file_text(runs[0]);
  fs::copy_file(runs[1], runs[0], fs::copy_options::overwrite_existing);
  check_report(gate, 4, "is damaged");
  for (const std::string& damage : {std::string(), before.substr(0, before.size() / 2), std::string("{}")}) {
    std::ofstream(runs[0]) << damage;
    check_report(gate, 4, "the file of the run cannot be used");
  }
  fs::remove(runs[0]);
  fs::create_directory(runs[0]);
  check_report(gate, 4, "the file of the run cannot be used");
  fs::remove(runs[0]);
  fs::create_symlink(runs[0].filename(), runs[0]);  // leads to itself
  check_report(gate, 4, "the file of the run cannot be used");
}

TEST_CASE("a dump that was renamed, exchanged or leads to itself is missed", "[gates]") {
  const TemporaryFolder folder;
  const std::string name = folder.file("a\nb");
  culprit_run({"--out", name + "/%n.dump"}, shell(program("free_null") + "; " + program("driver_leak_one")));
  const fs::path leak = name + "/driver_leak_one.dump";
  REQUIRE(fs::exists(leak));
  const std::vector<std::string> gate = {"report", name, "--fail-on", "leaks"};
  check_report(gate, 1, "LEAKED 10.7 KiB");
  fs::rename(leak, name + "/no dump\n.txt");
  check_report(gate, 1, "LEAKED 10.7 KiB");  // known by its content
  const std::string bytes = file_text(name + "/no dump\n.txt");
  fs::remove(name + "/no dump\n.txt");
  fs::create_symlink("driver_leak_one.dump", leak);
  check_report(gate, 4, "driver_leak_one.dump");
  fs::remove(leak);
  fs::copy_file(name + "/free_null.dump", leak);
  check_report(gate, 4, "1 dump of the run was not named");
  std::ofstream(leak) << bytes.substr(0, 4096);
  CHECK(run_culprit(gate).exit_code == 4);
}

TEST_CASE("a diff with a report of nothing knows nothing", "[gates]") {
  const TemporaryFolder folder;
  culprit_run({"--format", "json", "-o", folder.file("old.json")}, {"driver_leak_one"});
  culprit_run({"--require-cuda", "--format", "json", "-o", folder.file("new.json")}, {"/bin/true"});
  check_report({"diff", folder.file("old.json"), folder.file("new.json"), "--fail-on", "new"}, 4, "NOT KNOWN");
  culprit_run({"--format", "json", "-o", folder.file("none.json")}, {"/bin/true"});
  check_report({"diff", folder.file("old.json"), folder.file("none.json"), "--fail-on", "new"}, 0, "NOTHING NEW");
}

TEST_CASE("a device that no process used is named, as a mark that none set", "[gates]") {
  check_run({"--fail-on", "leaks", "--devices", "7"}, {"driver_leak_one"}, 3,
            "--devices 7: no process used such a GPU");
  check_run({"--fail-on", "leaks", "--devices", "0,7"}, {"driver_leak_one"}, 1, "LEAKED");
  check_run({"--fail-on", "leaks", "--devices", "host"}, {"driver_leak_one"}, 0, "NOTHING LEAKED");
  const TemporaryFolder folder;
  culprit_run({"--out", folder.file("a.dump")}, {"driver_leak_one"});
  check_report({"report", folder.file("a.dump"), "--fail-on", "leaks", "--devices", "7"}, 3, "there is: GPU 0");
}

TEST_CASE("a file that is not libculprit.so judges nothing", "[gates]") {
  // The libraries of a broken installation: of another tool, cut off, empty.
  const TemporaryFolder folder;
  std::ofstream(folder.file("libculprit.so")) << file_text(library_path()).substr(0, fs::file_size(library_path()) / 2);
  for (const std::string& library : {std::string("/bin/sh"), folder.file("libculprit.so")}) {
    INFO(library);
    const std::string command = "CULPRIT_LIBRARY=" + library + " " + culprit_path().string();
    for (const char* rest : {" run --fail-on leaks -- ", " run --require-complete -- ", " sweep --fail-on leaks -- "}) {
      const Finished run = run_program({"/bin/sh", "-c", command + rest + program("driver_leak_one")}, {});
      check_exit(run.err, run.exit_code, 3, "is no libculprit.so");
    }
  }
}

}  // namespace culprit::test
