// A program that runs out of memory: the report explains the failure, also when the program was killed at once after
// it.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

using nlohmann::json;

RunOptions with_small_device() {
  RunOptions options;
  options.environment["SIMCUDA_MEMORY_MB"] = "2048";
  return options;
}

std::vector<std::string> ways() {
  RunOptions options;
  options.preload = false;
  std::istringstream lines(run_preloaded("hog", {"list"}, options).out);
  std::vector<std::string> list;
  for (std::string line; std::getline(lines, line);) list.push_back(line);
  return list;
}

// The function of a line, or of its caller where others call it, too.
bool is_hog(const json& line) {
  const auto named = [](const json& one) {
    return one["function"].is_string() && has(one["function"].get<std::string>(), "hog");
  };
  return named(line) || (!line["callers"].empty() && named(line["callers"][0]));
}

// The first line of the text's list, with its callers.
std::string first_line(const std::string& text) {
  const std::size_t head = text.find("by this process:\n");
  if (head == std::string::npos) return {};
  std::istringstream lines(text.substr(text.find('\n', head) + 1));
  std::string first, line;
  std::getline(lines, first);
  if (std::getline(lines, line) && has(line, "called from")) first += line;
  return first;
}

}  // namespace

TEST_CASE("a planted hog is first in twenty programs that run out of memory", "[out-of-memory]") {
  if (on_gpu()) return;  // the program would take the memory of the tests beside it
  const std::vector<std::string> list = ways();
  CHECK(list.size() >= 20);
  for (const std::string& way : list) {
    const Run run = run_preloaded("hog", {way}, with_small_device());
    INFO(way << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const json failures = read_report(run.dump()).json["out_of_memory"];
    REQUIRE(failures.size() == 1);
    INFO(failures[0].dump(1).substr(0, 4000));
    REQUIRE_FALSE(failures[0]["lines"].empty());
    CHECK(is_hog(failures[0]["lines"][0]));
    CHECK(failures[0]["lines"][0]["bytes"] >= failures[0]["memory"]["total_bytes"].get<std::uint64_t>() * 4 / 10);
    const std::string text = run_culprit({"report", "--color", "never", run.dump().string()}).out;
    INFO(text);
    CHECK(has(first_line(text), "hog"));
    CHECK(has(text, "\nwould have fit without the "));
    CHECK(has(failures[0]["would_fit"]["text"].get<std::string>(), "hog"));
  }
}

TEST_CASE("a failure is explained after SIGKILL", "[out-of-memory]") {
  if (on_gpu()) return;
  const Run run = run_preloaded("hog", {"one", "kill"}, with_small_device());
  CHECK(run.signal == 9);
  const json failure = read_report(run.dump()).json["out_of_memory"][0];
  CHECK(failure["api"] == "cudaMalloc");
  CHECK(has_frame(read_stack(failure["stack"]), "ask"));
  CHECK(is_hog(failure["lines"][0]));
  CHECK(failure["missing_bytes"] ==
        failure["asked_bytes"].get<std::uint64_t>() - failure["memory"]["free_bytes"].get<std::uint64_t>());
  CHECK(failure["would_fit"]["rule"] == "line");
  CHECK_FALSE(failure["balance"].empty());
}

TEST_CASE("a merged report explains the failure of each process", "[out-of-memory]") {
  if (on_gpu()) return;
  RunOptions options = with_small_device();
  options.folder = std::make_shared<TemporaryFolder>();
  run_preloaded("hog", {"one"}, options);
  const Run both = run_preloaded("hog", {"class"}, options);
  REQUIRE(both.dumps.size() == 2);
  const std::string merged = options.folder->file("job.json");
  REQUIRE(run_culprit({"merge", both.dumps[0].string(), both.dumps[1].string(), "-o", merged}).exit_code == 0);
  const json failures = read_report(merged).json["out_of_memory"];
  REQUIRE(failures.size() == 2);
  for (const json& failure : failures) {
    CHECK(failure["process"] < 2);
    CHECK(is_hog(failure["lines"][0]));
    CHECK(failure["would_fit"]["rule"] == "line");
    CHECK_FALSE(failure["balance"].empty());
  }
}

}  // namespace culprit::test
