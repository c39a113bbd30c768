// The first use of CUDA waits for nothing that the program would not wait for without the library.
#include <sys/resource.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

int lines_of(const Run& run, const std::string& line) {
  int count = 0;
  for (std::size_t at = run.out.find(line); at != std::string::npos; at = run.out.find(line, at + 1)) ++count;
  return count;
}

struct Started {
  Run run;
  std::uint64_t leaks = 0;
  int waits() const { return lines_of(run, "waits "); }
};

// Runs `start_ways ARGUMENTS` with a driver that has threads, and names its calls that wait. Every leak of the program
// must be in its dumps.
Started start(std::vector<std::string> arguments, rlim_t soft = 0, rlim_t hard = 0,
              const char* subject = "start_ways") {
  RunOptions options;
  options.environment = {{"SIMCUDA_THREADS", "2"}};
  if (soft != 0) {
    options.before_exec = [soft, hard] {
      const rlimit bound = {soft, hard};
      if (setrlimit(RLIMIT_NOFILE, &bound) != 0) _exit(125);
    };
  }
  arguments.insert(arguments.begin(), subject_path(subject).string());
  Started started;
  started.run = run_preloaded("kernel_waits", arguments, options);
  INFO(started.run.out << started.run.err);
  REQUIRE(started.run.exit_code == 0);
  for (const auto& dump : started.run.dumps) started.leaks += read_report(dump).leaked_count();
  return started;
}

}  // namespace

TEST_CASE("the start waits for no other processor, however CUDA is started", "[start]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver may wait itself");
    return;
  }
  struct Limits {
    rlim_t soft, hard, kept;
  };
  for (const Limits limits : {Limits{1024, 1024, 0}, Limits{1024, 4096, 1024}, Limits{300, 4096, 300}}) {
    for (const char* subject : {"start_ways", "start_ways_static"}) {
      const Started alone = start({"alone"}, limits.soft, limits.hard, subject);
      INFO(subject << " with " << limits.soft << " of " << limits.hard << " descriptors: " << alone.run.out);
      CHECK(alone.waits() == 0);
      CHECK(alone.leaks == 1);
      // The registration was made, so that threads have young records.
      CHECK(lines_of(alone.run, "quick membarrier") >= 1);
      if (limits.kept != 0) CHECK(lines_of(alone.run, "kept " + std::to_string(limits.kept) + "\n") == 1);
    }
  }
  for (const char* way : {"threads", "forks"}) {
    for (const Limits limits : {Limits{1024, 1024, 0}, Limits{1024, 4096, 0}}) {
      const Started other = start({way}, limits.soft, limits.hard);
      INFO(way << ": " << other.run.out);
      CHECK(other.waits() == 0);
      CHECK(other.leaks == (std::string(way) == "forks" ? 3 : 1));
    }
  }
}

TEST_CASE("a program that has threads before CUDA keeps no descriptor at first, and the dump grows", "[start]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver may wait itself");
    return;
  }
  const Started soon = start({"threads"}, 1024, 4096);
  INFO(soon.run.out);
  CHECK(lines_of(soon.run, "kept ") == 0);
  // Some seconds later the wait is less than a hundredth of the time.
  const Started later = start({"threads", "3"}, 1024, 4096);
  INFO(later.run.out);
  CHECK(lines_of(later.run, "kept 1024\n") == 1);
  CHECK(later.waits() == 1);
  CHECK(later.leaks == 1);
}

TEST_CASE("a process that only asks for the number of GPUs does not wait either", "[start]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver may wait itself");
    return;
  }
  const Started launcher = start({"counts"});
  INFO(launcher.run.out);
  CHECK(launcher.waits() == 0);
}

}  // namespace culprit::test
