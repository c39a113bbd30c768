// The program's own files get the same numbers with the library, and the library writes into none of them.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Outcome {
  Run run;
  std::string numbers;
};

Outcome run_descriptors(const char* mode, bool preload, std::function<void()> before_exec) {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  options.preload = preload;
  options.before_exec = std::move(before_exec);
  const fs::path result = options.folder->path() / "result";
  Outcome outcome;
  outcome.run = run_preloaded("descriptors", {result.string(), mode}, options);
  outcome.numbers = content(result);
  return outcome;
}

// Runs the program both ways: its files have the same numbers, and all of its calls are recorded. Returns how many
// leaks the report has.
std::uint64_t leaks_with_same_numbers(const char* mode, const std::function<void()>& before_exec) {
  const Outcome without = run_descriptors(mode, false, before_exec);
  const Outcome with = run_descriptors(mode, true, before_exec);
  INFO("stderr: " << with.run.err);
  REQUIRE(without.run.exit_code == 0);
  REQUIRE_FALSE(without.numbers.empty());
  CHECK(with.run.exit_code == 0);
  CHECK(with.numbers == without.numbers);
  const Report report = read_report(with.run.dump());
  CHECK(report.json.at("summary").at("dropped_allocations") == 0);
  return report.leaked_count();
}

}  // namespace

TEST_CASE("a program's files get the numbers that they get without the library", "[descriptors]") {
  // A process on a GPU takes a second beside other programs: none closed, each one, and all are enough there.
  for (unsigned closed = 0; closed < 8; ++closed) {
    if (on_gpu() && (closed & (closed - 1)) != 0 && closed != 7) continue;
    INFO("closed at the start: " << closed);
    const auto close_some = [closed] {
      for (int fd = 0; fd < 3; ++fd) {
        if ((closed >> fd & 1) != 0) close(fd);
      }
    };
    CHECK(leaks_with_same_numbers("next", close_some) == 50081);
  }
}

TEST_CASE("a program that uses all its descriptors keeps all of them, and is recorded to its end", "[descriptors]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver needs more descriptors");
    return;
  }
  struct Limits {
    rlim_t soft, hard;
  };
  for (const Limits limits : {Limits{24, 24}, Limits{256, 256}, Limits{256, 1024}}) {
    INFO("RLIMIT_NOFILE " << limits.soft << " of " << limits.hard);
    const auto limit = [limits] {
      const rlimit bound = {limits.soft, limits.hard};
      setrlimit(RLIMIT_NOFILE, &bound);
    };
    const std::uint64_t leaks = leaks_with_same_numbers("fill", limit);
    CHECK(leaks > 50000);
    CHECK(leaks % 10 == 1);
  }
}

TEST_CASE("a file that took the place of stderr is not written to", "[descriptors]") {
  const Outcome with = run_descriptors("database", true, {});
  CHECK(with.run.exit_code == 0);
  CHECK(with.numbers == "data");
  CHECK(with.run.err.empty());
  CHECK(read_report(with.run.dump()).leaked_count() == 50001);
}

TEST_CASE("a program whose stderr is a pipe without a reader ends as it would", "[descriptors]") {
  // The reader of a pipe has gone: writing a line of the library would raise SIGPIPE.
  const Outcome with = run_descriptors("next", true, [] {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
  });
  CHECK(with.run.signal == 0);
  CHECK(with.run.exit_code == 0);
}

TEST_CASE("CULPRIT_OUT=/dev/null records and leaves no file", "[descriptors]") {
  RunOptions options;
  options.environment["CULPRIT_OUT"] = "/dev/null";
  const Run run = run_preloaded("leak_one", {}, options);
  CHECK(run.exit_code == 7);
  CHECK(run.out == "done\n");
  CHECK(has(run.err, "not freed. No dump was kept: CULPRIT_OUT is /dev/null"));
  CHECK_FALSE(fs::exists("/dev/null.1"));
  CHECK(run.dumps.empty());
}

TEST_CASE("CULPRIT_OUT that cannot hold a dump costs one line that says what to do", "[descriptors]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  options.environment["CULPRIT_OUT"] = options.folder->path().string();
  const Run run = run_preloaded("leak_one", {}, options);
  CHECK(run.exit_code == 7);
  CHECK(has(run.err, "Is a directory. Name a file in it with CULPRIT_OUT"));
  CHECK(run.dumps.empty());
}

}  // namespace culprit::test
