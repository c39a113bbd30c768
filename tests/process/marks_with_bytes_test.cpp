// culprit_mark_with_bytes(): what is live at moments of a run, and the comparison of two of them.
#include <set>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

Finished diff_marks(const fs::path& dump, std::vector<std::string> options) {
  options.insert(options.begin(), {"diff", dump.string()});
  return run_culprit(options);
}

nlohmann::json diff_marks_json(const fs::path& dump, std::vector<std::string> options) {
  options.insert(options.end(), {"--format", "json"});
  const Finished done = diff_marks(dump, options);
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  return nlohmann::json::parse(done.out);
}

// "new 1048576 capture_graph" for each change.
std::vector<std::string> changes_of(const nlohmann::json& diff) {
  std::vector<std::string> texts;
  for (const nlohmann::json& change : diff.at("changes")) {
    const nlohmann::json& side = change.at("new").is_null() ? change.at("old") : change.at("new");
    texts.push_back(change.at("change").get<std::string>() + " " + std::to_string(side.at("bytes").get<int>()) + " " +
                    change.at("stack").at(0).at("function").get<std::string>());
  }
  return texts;
}

nlohmann::json kept_marks(const fs::path& dump) {
  return nlohmann::json::parse(run_culprit({"report", dump.string(), "--format", "json"}).out).at("marks_with_bytes");
}

}  // namespace

TEST_CASE("what an engine still has after it slept", "[marks][marked]") {
  const Run run = run_preloaded("sleep_mode", {"once"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json diff = diff_marks_json(run.dump(), {"--from", "awake", "--to", "asleep"});
  CHECK(changes_of(diff) == std::vector<std::string>{"new 1048576 capture_graph", "shrunk 4194304 load_weights",
                                                     "gone 16777216 make_cache"});
  CHECK(diff.at("old").at("leaked_bytes") == 28 << 20);
  CHECK(diff.at("new").at("leaked_bytes") == 5 << 20);
  CHECK(diff.at("new").at("source") == "mark");
  CHECK(diff.at("new").at("mark").at("name") == "asleep");
  CHECK(diff.at("new").at("mark").at("number") == 1);
  CHECK(diff.at("changes")[0].at("cause") == "live");
  const nlohmann::json left = diff_marks_json(run.dump(), {"--to", "asleep"});
  CHECK(changes_of(left) == std::vector<std::string>{"new 4194304 load_weights", "new 1048576 capture_graph"});
  CHECK(left.at("old").at("mark").is_null());
  const nlohmann::json later = diff_marks_json(run.dump(), {"--from", "asleep"});
  CHECK(changes_of(later).empty());
  CHECK(diff_marks(run.dump(), {"--from", "asleep", "--fail-on", "new"}).exit_code == 0);
  CHECK(diff_marks(run.dump(), {"--from", "awake", "--fail-on", "new"}).exit_code == 1);
  CHECK(later.at("summary").at("unchanged") == 2);
  CHECK(
      has(run_culprit({"report", run.dump().string()}).out,
          "marks   live bytes by line at \"awake\" (28.0 MiB), \"asleep\" (5.00 MiB): culprit diff DUMP --from NAME"));
}

TEST_CASE("a dump keeps what was live at the newest sixteen marks", "[marks][marked]") {
  const Run run = run_preloaded("sleep_mode", {"many"});
  REQUIRE(run.exit_code == 0);
  const nlohmann::json kept = kept_marks(run.dump());
  CHECK(kept.at("taken") == 40);
  REQUIRE(kept.at("kept").size() == 16);
  for (int i = 0; i < 16; ++i) {
    const nlohmann::json& one = kept.at("kept")[static_cast<std::size_t>(i)];
    CHECK(one.at("live_bytes") == (25 + i) << 20);
    CHECK(one.at("live_allocations") == 25 + i);
    CHECK(one.at("number") == (26 + i) / 2);
  }
  CHECK(has(run_culprit({"report", run.dump().string()}).out, "at the newest 16 of 40 moments: ..., \"odd#19\" (37.0"));
  const Finished gone = diff_marks(run.dump(), {"--from", "odd#1"});
  CHECK(gone.exit_code == 3);
  CHECK(has(gone.err, "a dump keeps those of the newest 16 moments; there are: odd#13, even#13, "));
  CHECK(changes_of(diff_marks_json(run.dump(), {"--from", "odd#13", "--to", "even"})) ==
        std::vector<std::string>{"grown 41943040 capture_graph"});
}

TEST_CASE("a mark with bytes before the first CUDA call has none", "[marks][marked]") {
  const Run run = run_preloaded("sleep_mode", {"early"});
  REQUIRE(run.exit_code == 0);
  const nlohmann::json diff = diff_marks_json(run.dump(), {"--from", "start"});
  CHECK(diff.at("old").at("leaked_bytes") == 0);
  CHECK(changes_of(diff) == std::vector<std::string>{"new 12582912 load_weights"});
  CHECK(diff.at("changes")[0].at("cause") == "held");
}

TEST_CASE("what is live at a mark is right beside threads that allocate and free", "[marks][marked]") {
  const Run run = run_preloaded("sleep_mode", {"threads"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json kept = kept_marks(run.dump());
  CHECK(kept.at("taken") == 200);
  for (const nlohmann::json& one : kept.at("kept")) {
    CHECK(one.at("live_bytes") >= 12 << 20);
    CHECK(one.at("live_bytes") <= (12 << 20) + 4 * 512);
  }
}

TEST_CASE("a fork child keeps what is live at its own marks", "[marks][marked]") {
  if (skip_fork_child()) return;
  const Run run = run_preloaded("sleep_mode", {"fork"});
  REQUIRE(run.dumps.size() == 2);
  std::set<std::string> found;
  for (const fs::path& dump : run.dumps) {
    const nlohmann::json kept = kept_marks(dump);
    REQUIRE(kept.at("kept").size() == 1);
    const nlohmann::json& one = kept.at("kept")[0];
    found.insert(one.at("name").get<std::string>() + " " + std::to_string(one.at("live_bytes").get<int>()));
  }
  CHECK(found == std::set<std::string>{"parent 12582912", "child 1048576"});
}

TEST_CASE("marks without bytes are not compared", "[marks][marked]") {
  const Run run = run_preloaded("sleep_mode", {"plain"});
  const Finished done = diff_marks(run.dump(), {"--from", "plain"});
  CHECK(done.exit_code == 3);
  CHECK(has(done.err, "--from plain: it was set without its bytes; no mark was: use culprit_mark_with_bytes(NAME)"));
  CHECK(diff_marks(run.dump(), {run.dump().string(), "--from", "plain"}).exit_code == 2);
  CHECK(has(diff_marks(run.dump(), {}).err, "NEW is required"));
  CHECK(diff_marks("/no/such.dump", {"--from", "x"}).exit_code == 3);
}

TEST_CASE("options --since-mark and --before-mark take a number of a mark", "[marks][marked]") {
  const Run run = run_preloaded("sleep_mode", {"repeated"});
  auto report = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"report", run.dump().string()});
    return run_culprit(options);
  };
  const Finished newest = report({"--since-mark", "step"});
  CHECK(has(newest.out, " · exit 0 · only since mark \"step\" · GPU 0"));
  CHECK(has(newest.out, "\nsince mark \"step\", number 3 of 3, at "));
  CHECK(has(newest.out, "LEAKED 1.00 MiB in 1 allocation"));
  CHECK(has(report({"--since-mark", "step#1"}).out, "LEAKED 3.00 MiB in 3 allocations"));
  const Finished between = report({"--since-mark", "step#1", "--before-mark", "step#3"});
  CHECK(has(between.out, "only since mark \"step#1\", before mark \"step#3\""));
  CHECK(has(between.out, "LEAKED 2.00 MiB in 2 allocations"));
  const Finished unknown = report({"--before-mark", "step#9"});
  CHECK(unknown.exit_code == 3);
  CHECK(has(unknown.err, "--before-mark step#9: no process has this mark; there are: step (#1 to #3)"));
  CHECK(report({"--since-mark", "step#3", "--before-mark", "step#1"}).exit_code == 3);
  const Finished json = report({"--before-mark", "step#2", "--format", "json"});
  CHECK(nlohmann::json::parse(json.out).at("before_mark").at("number") == 2);
  CHECK(has(report({"--before-mark", "step#2", "--format", "markdown"}).out, "], only before mark \"step\\#2\"\n"));
}

TEST_CASE("a program with a newer culprit.h keeps what an older library has", "[marks][marked]") {
  RunOptions options;
  options.preload = false;
  options.preload_before = {"old_library.so"};
  const Run old = run_preloaded("sleep_mode", {"version"}, options);
  INFO(old.err);
  CHECK(old.exit_code == 0);
  // ENOSYS; the moment is named all the same. A null name is refused by no function of that version.
  CHECK(has(old.out, "mark old\n"));
  CHECK(has(old.out, "version 2, 38, refused\n"));
  CHECK(run_preloaded("sleep_mode", {"version"}).out == "version 3, 0, refused\n");
  options.preload_before.clear();
  CHECK(run_preloaded("sleep_mode", {"version"}, options).out == "version 0, 38, refused\n");
}

}  // namespace culprit::test
