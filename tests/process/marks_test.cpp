// Marks, NVTX ranges, snapshots and the rest of culprit.h.
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// "mark|range" by the size of the allocation.
std::map<std::uint64_t, std::string> labels(const Report& report) {
  std::map<std::uint64_t, std::string> found;
  for (const Group& group : report.leaks) {
    if (group.count != 1) continue;
    std::string text = "|";
    if (group.json.contains("marks")) {
      const nlohmann::json& share = group.json.at("marks").at(0);
      auto name = [&](const char* key) { return share.at(key).is_null() ? "" : share.at(key).get<std::string>(); };
      text = name("mark") + "|" + name("range");
    }
    found[group.bytes] = text;
  }
  return found;
}

Finished report_with(const std::vector<std::string>& options, const fs::path& dump) {
  std::vector<std::string> words = {"report"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(dump.string());
  return run_culprit(words);
}

}  // namespace

TEST_CASE("allocations carry the innermost mark of their thread", "[marks]") {
  const Run run = run_preloaded("marked", {"marks"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.out == "version 3\n");
  const std::map<std::uint64_t, std::string> found = labels(read_report(run.dump()));
  CHECK(found.at(1001) == "before CUDA|");
  CHECK(found.at(1002) == "inner|");
  CHECK(found.at(1003) == "|");
  CHECK(found.at(1004) == "before CUDA|");
  CHECK(found.at(1005) == "|");
  CHECK(found.at(1006) == "|");
}

TEST_CASE("a program with marks runs the same without the library", "[marks]") {
  RunOptions options;
  options.preload = false;
  for (const char* what : {"marks", "epochs", "deep", "switch", "fork"}) {
    const Run run = run_preloaded("marked", {what}, options);
    INFO(what << ": " << run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.out == "version 0\n");
  }
  CHECK(run_preloaded("marked_c", {}, options).out == "0\n");
}

TEST_CASE("marks in a C program", "[marks]") {
  const Run run = run_preloaded("marked_c");
  CHECK(run.out == "11001\n");
  CHECK(labels(read_report(run.dump())).at(11001) == "from C|");
}

TEST_CASE("marks that are too many or too long are cut and lose nothing else", "[marks]") {
  const Run run = run_preloaded("marked", {"deep"});
  REQUIRE(run.exit_code == 0);
  const std::map<std::uint64_t, std::string> found = labels(read_report(run.dump()));
  CHECK(found.at(1001) == "31|");
  CHECK(found.at(1002) == "30|");
  CHECK(found.at(1003) == "|");
  CHECK(found.at(1004) == std::string(111, 'x') + "|");
}

TEST_CASE("one leak of many marks is one group that --group-by mark shares out", "[marks]") {
  const Run run = run_preloaded("marked", {"epochs"});
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 1);
  const nlohmann::json& shares = report.leaks[0].json.at("marks");
  REQUIRE(shares.size() == 3);
  CHECK(shares[0] == nlohmann::json({{"mark", "epoch 2"}, {"range", nullptr}, {"bytes", 2000}, {"count", 2}}));
  CHECK(has(report_with({}, run.dump()).out, "   mark       epoch 2 (1.95 KiB, 2x); epoch 1 (1000 B, 1x); "));
  const std::string grouped = report_with({"--group-by", "mark"}, run.dump()).out;
  CHECK(has(grouped, "by mark\n1.95 KiB  2x      1 group    epoch 2\n1000 B    1x      1 group    epoch 1\n"));
  const std::string some = report_with({"--group-by", "mark"}, run_preloaded("marked", {"marks"}).dump()).out;
  CHECK(has(some, "(no mark)\n"));
  CHECK(has(some, "before CUDA\n"));
}

TEST_CASE("option --since-mark shows what came after", "[marks]") {
  const Run run = run_preloaded("marked", {"marks"});
  auto bytes_since = [&](const std::string& mark) {
    const Finished finished = report_with({"--since-mark", mark, "--format", "json"}, run.dump());
    INFO(finished.err);
    REQUIRE(finished.exit_code == 0);
    return nlohmann::json::parse(finished.out).at("summary").at("leaked_bytes").get<int>();
  };
  CHECK(bytes_since("before CUDA") == 1001 + 1002 + 1003 + 1004 + 1005 + 1006 + 1007 + 1007);
  CHECK(bytes_since("moment") == 1006 + 1007 + 1007);
  CHECK(bytes_since("epoch 2") == 1007);
  CHECK(has(report_with({"--since-mark", "epoch 2"}, run.dump()).out, "\nsince mark \"epoch 2\", at "));
  const Finished unknown = report_with({"--since-mark", "epoch 9"}, run.dump());
  CHECK(unknown.exit_code == 3);
  CHECK(has(unknown.err, "no process has this mark; there are: before CUDA, inner, moment, epoch 1, epoch 2"));
  CHECK(has(report_with({"--since-mark", "x"}, run_preloaded("leak_one").dump()).err, "no mark was set"));
  const Run passed = culprit_run({"--since-mark", "epoch 2", "--fail-on", "leaks"}, {"marked", "marks"});
  CHECK(passed.exit_code == 1);
  CHECK(has(passed.err, "LEAKED 1007 B in 1 allocation"));
}

// The mark and the range of each allocation of marked PART, with the library as NVTX's tool in either way. Calls check
// for each.
template <typename Check>
static void for_each_nvtx_tool(const char* part, Check check) {
  for (const bool by_command : {true, false}) {
    TemporaryFolder folder;
    const fs::path out = folder.path() / "kept.dump";
    RunOptions options;
    options.environment["NVTX_INJECTION64_PATH"] = by_command ? "" : library_path().string();
    const Run run = by_command ? culprit_run({"--out", out.string()}, {"marked", part}, options)
                               : run_preloaded("marked", {part}, options);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(by_command ? out : run.dump());
    const std::map<std::uint64_t, std::string> found = labels(report);
    if (!found.empty()) check(found, report.json.at("marks"));  // empty: built without NVTX's headers
  }
}

TEST_CASE("NVTX ranges that are pushed are read", "[marks]") {
  for_each_nvtx_tool("ranges", [](const std::map<std::uint64_t, std::string>& found, const nlohmann::json& marks) {
    CHECK(found.at(1000) == "|");
    CHECK(found.at(1001) == "|outer");
    CHECK(found.at(1002) == "|registered");
    CHECK(found.at(1003) == "a mark too|registered");
    CHECK(found.at(1004) == "a mark too|registered");
    CHECK(found.at(1005) == "a mark too|wide");
    CHECK(found.at(1006) == "a mark too|");
    CHECK(found.at(1007) == "a mark too|");  // the range's domain is destroyed
    for (const nlohmann::json& mark : marks) CHECK(mark.at("name") != "never allocates");
  });
}

TEST_CASE("NVTX ranges that the payload extension ends are over", "[marks]") {
  for_each_nvtx_tool("payload_ranges", [](const std::map<std::uint64_t, std::string>& found, const nlohmann::json&) {
    CHECK(found.at(1001) == "|initialize");
    CHECK(found.at(1002) == "|");
    CHECK(found.at(1003) == "|(unnamed)");
    CHECK(found.at(1004) == "|");
  });
}

TEST_CASE("a profiler keeps its NVTX ranges", "[marks]") {
  for (const char* variable : {"NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"}) {
    RunOptions options;
    options.environment["NVTX_INJECTION64_PATH"] = "";
    options.environment[variable] = "/opt/profiler.so";
    const Run run = culprit_run({}, {"/bin/sh", "-c", "echo \"=$NVTX_INJECTION64_PATH=\""}, options);
    CHECK(run.out == (std::string(variable) == "NVTX_INJECTION64_PATH" ? "=/opt/profiler.so=\n" : "==\n"));
  }
}

TEST_CASE("a snapshot is the dump as it stood", "[marks]") {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "then.dump";
  const Run run = run_preloaded("marked", {"snapshot", path.string()});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(read_report(run.dump()).leaked_bytes() == 2004);
  const Report then = read_report(path);
  CHECK(then.leaked_bytes() == 2003);
  CHECK(then.json.at("process").at("ended") == "running");
  CHECK(then.json.at("snapshot_ns") > 0);
  CHECK(has(report_with({}, path).out, " · snapshot at "));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  // Again, over the older one.
  CHECK(run_preloaded("marked", {"snapshot", path.string()}).exit_code == 0);
}

TEST_CASE("a snapshot that cannot be written loses nothing", "[marks]") {
  TemporaryFolder folder;
  const fs::path other = folder.path() / "letter.txt";
  std::ofstream(other) << "dear";
  CHECK(run_preloaded("marked", {"errors", other.string()}).exit_code == 0);  // before the first CUDA call
  RunOptions begun;
  const Run exists = run_preloaded("marked", {"snapshot", other.string()});
  CHECK(exists.exit_code == 3);
  CHECK(has(exists.err, "returned 17"));  // EEXIST
  std::ifstream letter(other);
  std::string text;
  letter >> text;
  CHECK(text == "dear");
  CHECK(has(run_preloaded("marked", {"snapshot", "/no/such/folder/x"}).err, "returned 2"));
}

TEST_CASE("open marks stay open in a fork child", "[marks]") {
  if (skip_fork_child()) return;
  const Run run = run_preloaded("marked", {"fork"});
  REQUIRE(run.exit_code == 0);
  std::map<std::uint64_t, std::string> found;
  for (const fs::path& dump : run.dumps) {
    const auto more = labels(read_report(dump));
    found.insert(more.begin(), more.end());
  }
  CHECK(found.at(1001) == "parent's|");
  CHECK(found.at(1002) == "parent's|");
  CHECK(found.at(1003) == "|");
}

TEST_CASE("a program switches recording off and on", "[marks][switch]") {
  const Run run = run_preloaded("marked", {"switch"});
  CHECK(read_report(run.dump()).leaked_bytes() == 1002);
}

}  // namespace culprit::test
