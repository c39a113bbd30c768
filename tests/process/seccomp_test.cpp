// Under a seccomp filter that kills, libculprit.so makes only the system calls that system_calls.txt allows it.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

// The system calls in system_calls.txt with one of these `times`.
std::vector<std::string> listed(const std::vector<std::string>& times) {
  std::vector<std::string> names;
  std::ifstream file(std::string(CULPRIT_SOURCE_DIR) + "/interpose/system/system_calls.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, time;
    if (line.empty() || line[0] == '#' || !(words >> name >> time)) continue;
    if (std::find(times.begin(), times.end(), time) != times.end()) names.push_back(name);
  }
  return names;
}

Run run_filtered(const char* when, const std::vector<std::string>& allowed, bool preload) {
  RunOptions options;
  options.preload = preload;
  std::vector<std::string> arguments = {when, "20000"};
  arguments.insert(arguments.end(), allowed.begin(), allowed.end());
  return run_preloaded("filtered", arguments, options);
}

}  // namespace

TEST_CASE("a filter that is there before the first CUDA call meets only calls of the short list", "[seccomp]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver makes other calls");
    return;
  }
  const std::vector<std::string> always = listed({"always"});
  REQUIRE(always.size() > 10);
  const Run without = run_filtered("before", {}, false);
  REQUIRE(without.exit_code == 0);  // the program itself needs none of them
  const Run run = run_filtered("before", always, true);
  INFO("stderr: " << run.err);
  CHECK(run.signal == 0);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "done\n");
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 40001);
  CHECK(report.json.at("summary").at("dropped") == 0);
  CHECK_FALSE(report.through("leak").empty());
}

TEST_CASE("a filter that is installed after the first CUDA call meets only calls of the list", "[seccomp]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver makes other calls");
    return;
  }
  const Run run = run_filtered("after", listed({"always"}), true);
  INFO("stderr: " << run.err);
  CHECK(run.signal == 0);
  CHECK(run.out == "done\n");
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 40001);
}

TEST_CASE("the filter of these tests kills", "[seccomp]") {
  if (on_gpu()) return;
  std::vector<std::string> fewer = listed({"always"});
  fewer.erase(std::remove(fewer.begin(), fewer.end(), "fallocate"), fewer.end());
  CHECK(run_filtered("before", fewer, true).signal == SIGSYS);
}

}  // namespace culprit::test
