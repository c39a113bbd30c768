// `culprit run --keep`: each path of a dump that is printed names a file that is there afterwards.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/pattern.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// The paths behind "culprit report" and behind "most ... by rank N:".
std::vector<std::string> named_dumps(const std::string& text) {
  return first_groups(text, "(?:culprit report |most [^\n]*: )(\\S+)");
}

void add_dumps(const nlohmann::json& report, std::vector<std::string>* paths) {
  paths->push_back(report.at("dump"));
  if (!report.contains("processes")) return;
  for (const nlohmann::json& process : report["processes"]) paths->push_back(process.at("dump"));
}

std::vector<std::string> dumps_in_json(const std::string& file) {
  std::ifstream stream(file);
  const nlohmann::json whole = nlohmann::json::parse(stream);
  std::vector<std::string> paths;
  for (const nlohmann::json& one : whole.contains("reports") ? whole["reports"] : nlohmann::json::array({whole}))
    add_dumps(one, &paths);
  return paths;
}

std::vector<std::string> ranks(const std::string& program) {
  return {"/bin/sh", "-c", "for i in 0 1; do RANK=$i WORLD_SIZE=2 LOCAL_RANK=$i " + program + "; done"};
}

}  // namespace

TEST_CASE("each dump that culprit run --keep names is there", "[run][keep]") {
  const std::string leaks = subject_path("driver_leak_one").string();
  const std::string other = subject_path("leak_one").string();
  struct Row {
    const char* name;
    std::vector<std::string> options;
    std::vector<std::string> command;
    std::size_t named;  // at least
  };
  const Row rows[] = {
      {"one process", {"--keep"}, {leaks}, 1},
      {"a gate", {"--keep", "--fail-on", "leaks"}, {leaks}, 1},
      {"a pattern of its own", {"--out", "a/b/%p.dump"}, {leaks}, 1},
      {"a pattern without a conversion, twice", {"--out", "same.dump"}, {"/bin/sh", "-c", leaks + "; " + leaks}, 2},
      {"a process and its child", {"--keep"}, {"start_other", "spawn", other}, 2},
      {"a launcher without CUDA", {"--keep"}, {"/bin/sh", "-c", "cd /; " + leaks + "; true"}, 1},
      {"one of two without a leak",
       {"--keep"},
       {"/bin/sh", "-c", subject_path("free_null").string() + "; " + leaks},
       1},
      {"the other one removed", {"--keep"}, {"/bin/sh", "-c", other + "; rm -f culprit.*; " + leaks}, 1},
      {"ranks of a job", {"--keep"}, ranks(leaks), 1},
      {"a process that executes another program", {"--keep"}, {"start_other", "exec", other}, 1},
      {"a process that is killed", {"--keep"}, {"/bin/sh", "-c", subject_path("end_how").string() + " kill; true"}, 1},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    for (const bool into_file : {false, true}) {
      TemporaryFolder folder;
      RunOptions options;
      options.working_directory = folder.path().string();
      std::vector<std::string> words = row.options;
      if (into_file) words.insert(words.end(), {"-o", folder.file("report.txt")});
      const Run run = culprit_run(words, row.command, options);
      const std::string text = run.err + (into_file ? file_text(folder.file("report.txt")) : "");
      INFO(text);
      const std::vector<std::string> named = named_dumps(text);
      CHECK(named.size() >= row.named);
      for (const std::string& path : named) CHECK(fs::exists(path));
    }
    TemporaryFolder folder;
    RunOptions options;
    options.working_directory = folder.path().string();
    std::vector<std::string> words = row.options;
    words.insert(words.end(), {"-o", folder.file("report.json")});
    culprit_run(words, row.command, options);
    std::size_t there = 0;
    for (const std::string& path : dumps_in_json(folder.file("report.json"))) {
      INFO(path);
      there += path.empty() ? 0 : 1;
      CHECK((path.empty() || fs::exists(path)));
    }
    CHECK(there >= row.named);
  }
}

TEST_CASE("a command that a message shows can be typed as it is, whatever the dump is called", "[run][keep][words]") {
  const auto line_after = [](const std::string& text, const std::string& words) {
    const std::size_t at = text.find(words);
    return at == std::string::npos ? "" : text.substr(at + words.size(), text.find('\n', at) - at - words.size());
  };
  for (const char* name : {"a b.dump", "it's $HOME `id`.dump", "-x.dump", "a\nb.dump", "caf\xc3\xa9 \xff.dump"}) {
    INFO(name);
    TemporaryFolder folder;
    RunOptions options;
    options.working_directory = folder.path().string();
    const Run run = culprit_run({"--out", name}, {"driver_leak_one"}, options);
    INFO(run.err);
    const auto typed = [&](const std::string& words) {
      ProgramOptions shell;
      shell.working_directory = folder.path().string();
      return run_program({"/bin/bash", "-c", culprit_path().string() + " report " + words}, shell);
    };
    const std::string next = line_after(run.err, "next    culprit report ");
    CHECK(typed(next).exit_code == 0);
    // Of the library itself.
    RunOptions alone = options;
    alone.folder = std::make_shared<TemporaryFolder>();
    alone.environment["CULPRIT_OUT"] = folder.file(std::string("of its own ") + name);
    alone.environment["CULPRIT_QUIET"] = "0";
    const Run itself = run_preloaded("driver_leak_one", {}, alone);
    INFO(itself.err);
    const std::string see = line_after(itself.err, "See: culprit report ");
    REQUIRE_FALSE(see.empty());
    CHECK(typed(see).exit_code == 0);
  }
}

TEST_CASE("without --keep no report names a dump", "[run][keep]") {
  const std::string leaks = subject_path("driver_leak_one").string();
  for (const std::vector<std::string>& command : {std::vector<std::string>{leaks}, ranks(leaks)}) {
    TemporaryFolder folder;
    const Run run = culprit_run({}, command);
    INFO(run.err);
    CHECK(has(run.err, "LEAKED "));
    CHECK(named_dumps(run.err).empty());
    CHECK_FALSE(has(run.err, ".dump"));
    culprit_run({"-o", folder.file("report.json")}, command);
    for (const std::string& path : dumps_in_json(folder.file("report.json"))) CHECK(path.empty());
  }
}

TEST_CASE("a merged file does not name dumps that are gone", "[run][keep]") {
  TemporaryFolder folder;
  RunOptions options;
  options.working_directory = folder.path().string();
  const Run run =
      culprit_run({"--keep", "--out", folder.file("%p.dump")}, ranks(subject_path("driver_leak_one")), options);
  INFO(run.err);
  const std::string job = folder.file("job.json");
  std::vector<std::string> words = {"merge", "-o", job};
  for (const auto& entry : fs::directory_iterator(folder.path())) words.push_back(entry.path().string());
  REQUIRE(words.size() == 6);  // with the file of the run
  REQUIRE(run_culprit(words).exit_code == 0);
  CHECK(named_dumps(run_culprit({"report", job}).out).size() == 2);
  for (std::size_t i = 3; i < words.size(); ++i) fs::remove(words[i]);
  const std::string text = run_culprit({"report", job}).out;
  CHECK(has(text, "LEAKED "));
  CHECK(named_dumps(text).empty());
}

}  // namespace culprit::test
