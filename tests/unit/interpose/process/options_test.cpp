#include "interpose/process/options.h"
#include "interpose/format/signal_names.h"
#include "interpose/process/job_rank.h"
#include "interpose/process/variables.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/catch.h"
#include "tests/support/environment_variable.h"

using namespace culprit;

namespace {

using Variable = culprit::test::EnvironmentVariable;

std::string expand(const char* pattern) {
  char path[4096];
  CHECK(expand_path(pattern, 4242, Variables(), path, sizeof(path)));
  return path;
}

// The refused variables, and the values used instead.
std::string refused(const Options& options) {
  std::string text;
  for (int i = 0; i < options.refused_count; ++i) {
    const RefusedOption& one = options.refused[i];
    text += (text.empty() ? "" : ", ") + std::string(one.variable) + "=" + one.value + ": " + one.used;
  }
  return text;
}

}  // namespace

TEST_CASE("without variables the defaults stand") {
  Options options;
  read_options(Variables(), &options);
  CHECK(std::string(options.out) == "culprit.%n.%p.dump");
  CHECK(options.depth == 64);
  CHECK(options.log_level == LogLevel::kWarn);
  CHECK_FALSE(options.quiet);
  CHECK(options.refused_count == 0);
}

TEST_CASE("sizes have units") {
  Options options;
  read_options(Variables(), &options);
  CHECK(options.max_dump == 1ULL << 30);
  struct Row {
    const char* text;
    std::uint64_t bytes;  // 0: no size, or out of range
  };
  for (const Row& row : {Row{"1048576", 1 << 20}, Row{"2048K", 2 << 20}, Row{"3m", 3 << 20}, Row{"4GiB", 4ULL << 30},
                         Row{"5Mb", 5 << 20}, Row{"64G", 64ULL << 30}, Row{"65G", 0}, Row{"1K", 0}, Row{"-1G", 0},
                         Row{"2GG", 0}, Row{"M", 0}, Row{"99999999999999999999999", 0}, Row{"7T", 0}}) {
    INFO(row.text);
    Variable variable("CULPRIT_MAX_DUMP", row.text);
    read_options(Variables(), &options);
    CHECK(options.max_dump == (row.bytes != 0 ? row.bytes : 1ULL << 30));
    CHECK((options.refused_count == 0) == (row.bytes != 0));
  }
}

TEST_CASE("the rank in a job is what the launcher says") {
  // The tests may themselves run under a job launcher.
  const char* const known[] = {"RANK",      "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
                               "PMIX_RANK", "PMI_RANK",   "PALS_RANKID",          "FLUX_TASK_RANK"};
  for (const char* name : known) unsetenv(name);
  unsetenv("SLURM_STEP_NUM_TASKS");
  CHECK(find_job_rank(Variables()).rank == -1);
  SECTION("Open MPI") {
    Variable rank("OMPI_COMM_WORLD_RANK", "3"), size("OMPI_COMM_WORLD_SIZE", "8");
    CHECK(find_job_rank(Variables()).rank == 3);
    CHECK(find_job_rank(Variables()).size == 8);
    Variable inner("RANK", "11"), inner_size("WORLD_SIZE", "16");
    CHECK(find_job_rank(Variables()).rank == 11);
    CHECK(find_job_rank(Variables()).size == 16);
  }
  SECTION("a size without a usual name") {
    Variable rank("PMI_RANK", "0");
    CHECK(find_job_rank(Variables()).rank == 0);
    CHECK(find_job_rank(Variables()).size == 0);
  }
  SECTION("a variable of some other program") {
    Variable rank("RANK", "3");
    CHECK(find_job_rank(Variables()).rank == -1);
    Variable slurm("SLURM_PROCID", "0");
    CHECK(find_job_rank(Variables()).rank == -1);
  }
  SECTION("no number") {
    for (const char* bad : {"", "x", "-1", "3 ", "99999999999999999999"}) {
      Variable rank("PMIX_RANK", bad);
      CHECK(find_job_rank(Variables()).rank == -1);
    }
  }
}

TEST_CASE("variables are read, and one that cannot be used is named") {
  Options options;
  SECTION("good") {
    Variable depth("CULPRIT_DEPTH", "256"), log("CULPRIT_LOG", "Debug"), quiet("CULPRIT_QUIET", "1");
    read_options(Variables(), &options);
    CHECK(options.depth == 256);
    CHECK(options.log_level == LogLevel::kDebug);
    CHECK(options.quiet);
    CHECK(options.refused_count == 0);
  }
  SECTION("a number out of range") {
    Variable depth("CULPRIT_DEPTH", "257");
    read_options(Variables(), &options);
    CHECK(options.depth == 64);
    CHECK(refused(options) == "CULPRIT_DEPTH=257: 64");
  }
  SECTION("no number") {
    Variable depth("CULPRIT_DEPTH", "64k");
    read_options(Variables(), &options);
    CHECK(refused(options) == "CULPRIT_DEPTH=64k: 64");
  }
  SECTION("an unknown level") {
    Variable log("CULPRIT_LOG", "loud");
    read_options(Variables(), &options);
    CHECK(options.log_level == LogLevel::kWarn);
    CHECK(chosen_log_level() == LogLevel::kWarn);
    CHECK(refused(options) == "CULPRIT_LOG=loud: warn");
  }
  SECTION("each of several") {
    Variable depth("CULPRIT_DEPTH", "abc"), quiet("CULPRIT_QUIET", "perhaps"), fail("CULPRIT_FAIL", "garbage"),
        start("CULPRIT_START", "soon"), scan("CULPRIT_SCAN", "maybe");
    read_options(Variables(), &options);
    CHECK(refused(options) ==
          "CULPRIT_DEPTH=abc: 64, CULPRIT_QUIET=perhaps: 0, CULPRIT_FAIL=garbage: no rule, CULPRIT_START=soon: now, "
          "CULPRIT_SCAN=maybe: exit");
    CHECK(options.depth == 64);
    CHECK_FALSE(options.quiet);
    CHECK(options.search_holders);
  }
}

TEST_CASE("the path pattern") {
  Variable rank("RANK", "3"), evil("EVIL", "../../etc"), out("CULPRIT_OUT", "%q{EVIL}%q{NONE}");
  char here[4096];
  REQUIRE(getcwd(here, sizeof(here)) != nullptr);
  CHECK(expand("/tmp/a.%p.dump") == "/tmp/a.4242.dump");
  CHECK(expand("a.dump") == std::string(here) + "/a.dump");
  CHECK(expand("/x/%q{RANK}/%q{NONE}y") == "/x/3/y");
  CHECK(expand("/x/%q{EVIL}") == "/x/.._.._etc");
  CHECK(expand("/x/100%%") == "/x/100%");
  CHECK(expand("/x/%z%") == "/x/%z%");
  CHECK(expand("/x/%q{open") == "/x/%q{open");
  CHECK(expand("/x/%n") == "/x/interpose_unit_test");
}

TEST_CASE("a path that does not fit is cut off, never written past") {
  char path[16];
  std::memset(path, '#', sizeof(path));
  CHECK_FALSE(expand_path("/0123456789/0123456789/0123456789", 1, Variables(), path, 12));
  CHECK(std::string(path) == "/0123456789");
  CHECK(path[12] == '#');
}

TEST_CASE("a path of up to 4,095 bytes is kept, a longer one is known to be cut off") {
  const std::string longest = "/" + std::string(4094, 'x'), longer = longest + "x";
  Options options;
  Variable fits("CULPRIT_OUT", longest.c_str());
  read_options(Variables(), &options);
  CHECK(options.out == longest);
  CHECK_FALSE(options.paths_cut);
  Variable cut("CULPRIT_OUT", longer.c_str());
  read_options(Variables(), &options);
  CHECK(options.paths_cut);
}

TEST_CASE("a signal by name or number") {
  CHECK(parse_signal("USR2") == SIGUSR2);
  CHECK(parse_signal("sigwinch") == SIGWINCH);
  CHECK(parse_signal("10") == 10);
  CHECK(parse_signal("RTMIN+3") == SIGRTMIN + 3);
  for (const char* unusable : {"", "0", "-1", "KILL", "9", "STOP", "SIGSEGV", "SIGABRT", "CHLD", "NOPE", "12x", "99",
                               "32", "33", "RTMIN+99", "RTMIN+", "RTMIN+-5", "RTMIN+x", "RTMIN-1"}) {
    INFO(unusable);
    CHECK(parse_signal(unusable) == 0);
  }
}
