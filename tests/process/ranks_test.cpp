// The ranks of a real mpirun: each leaves a dump that is named after it, and together they are one report.
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// Empty where there is none: scripts/test.sh installs it.
std::string mpirun() {
  for (const char* path : {"/usr/bin/mpirun", "/usr/local/bin/mpirun"}) {
    if (fs::exists(path)) return path;
  }
  return {};
}

}  // namespace

TEST_CASE("the ranks of an mpirun are one report and the odd one stands out", "[ranks]") {
  if (mpirun().empty()) {
    WARN("SKIPPED: no mpirun; scripts/install-packages.sh openmpi-bin brings it");
    return;
  }
  const auto folder = std::make_shared<TemporaryFolder>();
  const std::string pattern = (folder->path() / "rank%q{OMPI_COMM_WORLD_RANK}.dump").string();
  const Run run = culprit_run(
      {"--out", pattern}, {mpirun(), "--allow-run-as-root", "--oversubscribe", "-n", "4", subject_path("rank_leak")});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(has(run.err, "4 processes, ranks 0-3, on "));
  CHECK(has(run.err, "spread     all 4 ranks: 1000 B to 48.8 KiB, median 1000 B"));
  CHECK(has(run.err, "odd        rank 2 has 48.8 KiB"));
  CHECK(has(run.err, "rank_leak.cpp:10"));
  for (int rank = 0; rank < 4; ++rank) {
    const fs::path dump = folder->path() / ("rank" + std::to_string(rank) + ".dump");
    REQUIRE(fs::exists(dump));
    const Report report = read_report(dump);
    CHECK(report.json.at("process").at("rank") == rank);
    CHECK(report.json.at("process").at("job_size") == 4);
    CHECK(report.leaked_bytes() == (rank == 2 ? 50000 : 1000));
  }
}

// Open MPI starts a daemon on each other node with ssh; here a shell with an empty environment stands for the node.
TEST_CASE("an mpirun passes what recording needs to other nodes, and says what the user passes, too", "[ranks]") {
  if (mpirun().empty()) {
    WARN("SKIPPED: no mpirun; scripts/install-packages.sh openmpi-bin brings it");
    return;
  }
  const TemporaryFolder folder;
  const fs::path agent = folder.path() / "agent";
  // Each daemon has a session folder of its own, as on two machines.
  std::ofstream(agent) << "#!/bin/sh\nnode=" << folder.path().string()
                       << "/$1\nmkdir -p $node\nshift\nexec env -i PATH=/usr/bin:/bin HOME=/ TMPDIR=$node "
                          "LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" sh -c \"$*\"\n";
  fs::permissions(agent, fs::perms::owner_all);
  for (const bool user_passes : {false, true}) {
    INFO((user_passes ? "the user gives -x, too" : "the user gives no -x"));
    std::vector<std::string> command = {mpirun(), "--allow-run-as-root", "--oversubscribe",
                                        "--mca",  "plm_rsh_agent",       agent.string(),
                                        "--host", "node-a:1,node-b:1",   "-n",
                                        "2"};
    if (user_passes) command.insert(command.end(), {"-x", "HOME"});
    command.insert(command.end(), {"/usr/bin/env", "CULPRIT_ANYTHING=1", subject_path("rank_leak")});
    const Run run = culprit_run({"--fail-on", "errors"}, command);
    INFO(run.err);
    if (on_gpu() && contains(run.err, "already filled")) {
      WARN("SKIPPED: this Open MPI finds no slots on nodes that are not there");
      return;
    }
    CHECK(run.exit_code == 0);
    CHECK(has(run.err, "2 processes, ranks 0, 1, on "));
    CHECK(has(run.err, "LEAKED 1.95 KiB in 2 allocations"));
  }
}

// Slurm needs daemons, so a script stands for srun: it starts two ranks with the variables that srun(1) names.
TEST_CASE("the ranks of an srun with a list of variables are recorded", "[ranks]") {
  const TemporaryFolder folder;
  const fs::path srun = folder.path() / "srun";
  std::ofstream(srun) << R"SH(#!/bin/sh
list=${SLURM_EXPORT_ENV:-ALL}
while [ "${1#-}" != "$1" ]; do list=${1#--export=}; shift; done
case ",$list," in
  *,ALL,*) start=env ;;
  *) start="env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
     for name in $(echo "$list" | tr , ' '); do
       case $name in NONE) ;; *=*) start="$start $name" ;; *) start="$start $name=$(printenv "$name")" ;; esac
     done ;;
esac
for rank in 0 1; do $start SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 "$@" || exit; done
)SH";
  fs::permissions(srun, fs::perms::owner_all);
  for (const char* list : {"", "--export=ALL", "--export=NONE", "--export=HOME,A=1"}) {
    for (const bool batch : {false, true}) {
      INFO(list << (batch ? ", in a batch script with --export=NONE" : ""));
      RunOptions options;
      if (batch) options.environment["SLURM_EXPORT_ENV"] = "NONE";
      std::vector<std::string> command = {srun.string()};
      if (list[0] != '\0') command.emplace_back(list);
      command.insert(command.end(), {"/usr/bin/env", "CULPRIT_ANYTHING=1", subject_path("rank_leak")});
      const Run run = culprit_run({}, command, options);
      INFO(run.err);
      CHECK(run.exit_code == 0);
      CHECK(has(run.err, "2 processes, ranks 0, 1, on "));
      CHECK(has(run.err, "LEAKED 1.95 KiB in 2 allocations"));
    }
  }
}

// Dumps in a folder of the other node: what was found is no whole job.
TEST_CASE("a rank whose dump stays on another node makes the verdict unknown", "[ranks]") {
  RunOptions options;
  const std::string lonely = "WORLD_SIZE=2 RANK=0 exec " + subject_path("free_null").string();
  const Run run = culprit_run({"--fail-on", "leaks"}, {"/bin/sh", "-c", lonely}, options);
  INFO(run.err);
  CHECK(run.exit_code == 4);
  CHECK(has(run.err, "NOT KNOWN: no dump of rank 1 of 2: it ran on another node (--out must name a folder that all"));
  // Started by the launcher itself, culprit sees its own rank only.
  options.environment["RANK"] = "0";
  options.environment["WORLD_SIZE"] = "2";
  CHECK(culprit_run({"--fail-on", "leaks"}, {"/bin/sh", "-c", lonely}, options).exit_code == 0);
}

// A job's leak stood below the reports of its launcher and of rank 0, and nothing was merged.
TEST_CASE("a job's report begins with its merged ranks, and the launcher is one line", "[ranks]") {
  const Run run = culprit_run({}, {"launcher", subject_path("rank_leak")});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.err.rfind("culprit · ", 0) == 0);
  CHECK(has(run.err.substr(0, run.err.find('\n')), "2 processes, ranks 0, 1, on "));
  CHECK(has(run.err, "\nLEAKED 1.95 KiB in 2 allocations, 1 group\n"));
  CHECK(has(run.err, "spread     all 2 ranks: 1000 B each"));
  CHECK(has(run.err, "\n1 process allocated nothing: launcher ["));
  const Run everything = culprit_run({"--all"}, {"launcher", subject_path("rank_leak")});
  CHECK(has(everything.err, "NOTHING LEAKED · 0 allocations, 0 frees"));
  CHECK_FALSE(has(everything.err, "allocated nothing"));
  const Run markdown = culprit_run({"--format", "markdown"}, {"launcher", subject_path("rank_leak")});
  CHECK(has(markdown.err, "1 process allocated nothing: launcher"));
  const Run apart = culprit_run({"--no-merge"}, {"launcher", subject_path("rank_leak")});
  CHECK(has(apart.err, "rank 0 of 2"));
  CHECK(has(apart.err, "rank 1 of 2"));
}

TEST_CASE("a job's dumps keep the ranks apart from the launcher, however they are read", "[ranks]") {
  const TemporaryFolder folder;
  const std::string dumps = folder.file("dumps");
  const std::string job = folder.file("job.json");
  REQUIRE(culprit_run({"--out", dumps + "/%p.dump"}, {"launcher", subject_path("rank_leak")}).exit_code == 0);
  const std::string reported = run_culprit({"report", dumps}).out;
  CHECK(has(reported.substr(0, reported.find('\n')), "2 processes, ranks 0, 1, on "));
  CHECK(has(reported, "spread     all 2 ranks: 1000 B each"));
  CHECK(has(reported, "\n1 process allocated nothing: launcher ["));
  REQUIRE(run_culprit({"merge", dumps, "-o", job}).exit_code == 0);
  for (const std::string& merged : {run_culprit({"report", job}).out, run_culprit({"report", "--merge", dumps}).out}) {
    CHECK(has(merged.substr(0, merged.find('\n')), "3 processes, ranks 0, 1 and 1 other, on "));
    CHECK(has(merged, "\nLEAKED 1.95 KiB in 2 allocations, 1 group\n"));
    CHECK(has(merged, "spread     all 2 ranks: 1000 B each"));
  }
  const Finished diff = run_culprit({"diff", job, job, "--fail-on", "new"});
  CHECK(diff.exit_code == 0);
  CHECK(has(diff.out, "\nNOTHING NEW OR GROWN, 1 unchanged · leaked"));
  // Without the dump of a rank, nothing is known of it, whether the launcher's is there or not.
  std::vector<std::string> words = {"report", "--merge", "--fail-on", "errors"};
  for (const fs::directory_entry& entry : fs::directory_iterator(dumps)) {
    if (entry.path().extension() != ".dump") continue;
    const nlohmann::json rank = read_report(entry.path()).json.at("process").at("rank");
    if (rank != 1) words.push_back(entry.path().string());
  }
  REQUIRE(words.size() == 6);
  const Finished lacking = run_culprit(words);
  CHECK(has(lacking.out, "no dump of rank 1 of 2: it was not named, or the process made no CUDA call"));
  CHECK(lacking.exit_code == 4);
}

TEST_CASE("a launcher that leaks is reported after its ranks", "[ranks]") {
  const Run run = culprit_run({}, {"start_other", "fork", subject_path("launcher"), subject_path("rank_leak")});
  INFO(run.err);
  const std::size_t job = run.err.find("2 processes, ranks 0, 1");
  const std::size_t other = run.err.find("LEAKED 10.7 KiB");
  CHECK(job != std::string::npos);
  CHECK(other != std::string::npos);
  CHECK(job < other);
}

TEST_CASE("a rank of torchrun and no rank at all", "[ranks]") {
  RunOptions options;
  options.environment["RANK"] = "5";
  options.environment["WORLD_SIZE"] = "8";
  const Report ranked = read_report(run_preloaded("rank_leak", {}, options).dump());
  CHECK(ranked.json.at("process").at("rank") == 5);
  CHECK(ranked.json.at("process").at("job_size") == 8);
  CHECK(read_report(run_preloaded("leak_one").dump()).json.at("process").at("rank").is_null());
}

}  // namespace culprit::test
