// Situations 7, 9 and 10: priorities, filters of system calls, changes to the dump by others, and other properties of a
// program's environment.
#include <signal.h>
#include <sys/resource.h>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {

namespace fs = std::filesystem;

TEST_CASE("a real-time thread waits for no ordinary one", "[surroundings]") {
  Situation situation{"fifo_priority", {}};
  situation.fake_driver_only = true;  // NVIDIA's has locks of its own
  const BothWays runs = both_ways(situation);
  if (!runs.ran) return;
  if (runs.alone.out == "not permitted\n") return not_run_here("SCHED_FIFO is not permitted");
  CHECK(runs.alone.out == "no call took 100 ms\n");
}

TEST_CASE("a filter that allows the documented system calls only kills no process", "[surroundings]") {
  for (const char* when : {"after", "before", "exec"}) {
    Situation situation{"seccomp_kill", {when}};
    situation.fake_driver_only = true;
    const BothWays runs = both_ways(situation);
    if (runs.ran) CHECK(runs.alone.exit_code == 0);
  }
}

TEST_CASE("a dump that another process truncates, removes, renames or locks away harms no program", "[surroundings]") {
  for (const char* how : {"truncate", "half", "unlink", "rename", "chmod"}) {
    const BothWays runs = both_ways({"harmed_dump", {how, on_gpu() ? "1000" : "8000"}});
    CHECK(figure(runs.figures_alone, "found") == 0);
    CHECK(figure(runs.figures_under, "found") == 1);
  }
}

TEST_CASE("a program that closes all descriptors, leaves its folder, its user or its root directory goes on",
          "[surroundings]") {
  for (const char* how : {"closefrom", "daemon", "setuid", "chroot", "clearenv"}) {
    Situation situation{"own_descriptors", {how}};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a handler that interrupts hooks may replace the program", "[surroundings]") {
  Situation situation{"exec_in_handler", {}};
  situation.fake_driver_only = true;
  both_ways(situation);
}

TEST_CASE("a program without CUDA dies of a signal as it would, whatever starts a recording", "[surroundings]") {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) {
    for (const char* start : {"now", "signal"}) {
      INFO("signal " << signal << ", CULPRIT_START=" << start);
      Situation situation{"no_cuda_signal", {std::to_string(signal)}};
      situation.environment["CULPRIT_START"] = start;
      const BothWays runs = both_ways(situation);
      CHECK(runs.alone.signal == signal);
    }
  }
}

TEST_CASE("a device as CULPRIT_OUT stays a device, and gets no neighbour", "[surroundings]") {
  for (const std::string device : {"/dev/null", "/dev/full", "/dev/zero"}) {
    INFO(device);
    Situation situation{"endless", {"stacks", on_gpu() ? "500" : "3000"}};
    situation.environment["CULPRIT_OUT"] = device;
    both_ways(situation);
    CHECK(fs::is_character_file(device));
    CHECK_FALSE(fs::exists(device + ".1"));
    std::error_code ignored;
    fs::remove(device + ".1", ignored);
  }
}

TEST_CASE("a program with a small limit of file sizes goes on", "[surroundings]") {
  for (const rlim_t limit : {0, 4096, 1 << 20}) {
    INFO("RLIMIT_FSIZE " << limit);
    // Enough for a dump of more than a MiB. Five times as many took minutes on a GPU that other tests used, too.
    Situation situation{"endless", {"stacks", "4000"}};
    situation.environment["GUEST_FIGURES"] = "";
    situation.before_exec = [limit] {
      const rlimit bound = {limit, limit};
      setrlimit(RLIMIT_FSIZE, &bound);
    };
    both_ways(situation);
  }
}

}  // namespace culprit::test
