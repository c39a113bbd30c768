// `culprit run` compares the processes that NVML charges with those that began to record. NVML is the fake one of
// tests/unit/report/doctor/fake_nvml.cpp; a program with the driver loaded and no call stands for one whose calls are
// not seen.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace {

const char* const kLookedFor = "processes that use a GPU unseen were looked for by their environment";

class Gpu {
 public:
  Gpu() { write("gpu name=H200 uuid=GPU-51adc0da-0000-4000-8000-000000000000 minor=0 total=2147483648 free=0"); }
  void write(const std::string& line) const { std::ofstream(file(), std::ios::app) << line << "\n"; }
  std::string file() const { return folder_.file("nvml"); }
  // A shell line that charges the shell, and what it executes next.
  std::string charge(const std::string& use = "compute", const std::string& pid = "$$") const {
    return "echo process " + use + " " + pid + " 943718400 >>" + file() + "; ";
  }
  RunOptions options() const {
    RunOptions options;
    options.environment["CULPRIT_NVML"] = fake_nvml_path().string();
    options.environment["CULPRIT_FAKE_NVML"] = file();
    return options;
  }

 private:
  TemporaryFolder folder_;
};

// With the driver and the library, and no call. It lives long enough for a busy machine to ask NVML meanwhile.
const std::string kUnseen = "export LD_PRELOAD=$LD_PRELOAD:libcuda.so.1; exec sleep 4";

std::string recorded() { return subject_path("free_null").string(); }

Run run_line(const std::string& line, const RunOptions& options, std::vector<std::string> words = {}) {
  words.insert(words.begin(), {"--fail-on", "leaks"});
  return culprit_run(words, {"/bin/sh", "-c", line}, options);
}

}  // namespace

TEST_CASE("a process that NVML charges, and that began no record, makes the verdict not known", "[whole][charges]") {
  if (on_gpu()) return;
  const Gpu gpu;
  const TemporaryFolder folder;
  const Run run =
      run_line(recorded() + "; " + gpu.charge() + kUnseen, gpu.options(), {"--out", folder.file("%p.dump")});
  INFO(run.err);
  CHECK(run.exit_code == 4);
  CHECK(has(run.err,
            "NOT KNOWN: the process has 900 MiB of GPU 0, as NVML says, and began no record: none of its "
            "calls was seen\n"));
  CHECK(has(run.err, "/sleep ["));
  CHECK_FALSE(has(run.err, kLookedFor));
  // Later, too.
  const Finished later = run_culprit({"report", folder.path().string(), "--fail-on", "leaks"});
  CHECK(later.exit_code == 4);
  CHECK(has(later.out, "as NVML says, and began no record"));
}

TEST_CASE("a process that goes on after the command, and that NVML charges, is not one without CUDA",
          "[whole][charges]") {
  if (on_gpu()) return;
  const Gpu gpu;
  const Run run = run_line("(" + gpu.charge("compute", "$(exec sh -c 'echo $PPID')") + kUnseen +
                               ") </dev/null >/dev/null 2>&1 & " + recorded(),
                           gpu.options());
  INFO(run.err);
  CHECK(run.exit_code == 4);
  CHECK_FALSE(has(run.err, "without CUDA so far"));
}

TEST_CASE("a process whose parent ended before a look is known by NVML and its control group", "[whole][charges]") {
  if (on_gpu()) return;
  const Gpu gpu;
  // It has neither the mark of the run nor a parent, group or session of it.
  const std::string daemon = "(" + gpu.charge("compute", "\\$(exec sh -c 'echo \\$PPID')") +
                             "LD_PRELOAD=libcuda.so.1 exec sleep 4) </dev/null >/dev/null 2>&1 &";
  const Run run = run_line(
      recorded() + "; sleep 0.2; env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH setsid sh -c \"" + daemon + "\"; sleep 2",
      gpu.options());
  INFO(run.err);
  CHECK(run.exit_code == 4);
  CHECK(has(run.err, "as NVML says, and began no record"));
  CHECK(has(run.err, "in its control group, and its parent has ended"));
}

TEST_CASE("a process of a PID namespace of its own that NVML charges is known to the run", "[whole][charges]") {
  if (on_gpu()) return;
  if (geteuid() != 0 || std::system("unshare --pid --fork true >/dev/null 2>&1") != 0) {
    WARN("skipped: needs root and unshare");
    return;
  }
  const Gpu gpu;
  SECTION("by its number in there") {
    const Run run = run_line(
        "unshare --pid --fork sh -c '(" + gpu.charge("compute", "$(exec sh -c \"echo \\$PPID\")") + kUnseen + "); :'",
        gpu.options());
    INFO(run.err);
    CHECK(run.exit_code == 4);
    CHECK(has(run.err, "as NVML says, and began no record"));
  }
  SECTION("one that records is not taken for one that does not") {
    const Run run = run_line(
        "unshare --pid --fork sh -c '" + recorded() + "; sleep 1.5 | " + subject_path("switched").string() + " w'",
        gpu.options());
    INFO(run.err);
    CHECK_FALSE(has(run.err, "began no record"));
  }
}

TEST_CASE("NVML's list makes no process of a run unseen that is none", "[whole][charges]") {
  if (on_gpu()) return;
  const Gpu gpu;
  std::string line;
  SECTION("one that records") {
    line = "sleep 1.5 | sh -c '" + gpu.charge() + "exec " + subject_path("switched").string() + " a f w'";
  }
  SECTION("one that draws") { line = recorded() + "; " + gpu.charge("graphics") + kUnseen; }
  SECTION("one that uses no GPU: its number was another one's") {
    line = recorded() + "; " + gpu.charge() + "exec sleep 1.5";
  }
  SECTION("one that is not of the run") {
    gpu.write("process compute " + std::to_string(::getpid()) + " 943718400");
    line = recorded() + "; sleep 1.5";
  }
  const Run run = run_line(line, gpu.options());
  INFO(run.err);
  CHECK_FALSE(has(run.err, "began no record"));
  CHECK(run.exit_code == 0);
}

TEST_CASE("where NVML cannot be asked the run says so, and its verdict stays", "[whole][charges]") {
  if (on_gpu()) return;
  const Gpu gpu;
  RunOptions options = gpu.options();
  std::string words;
  SECTION("it hangs") {
    gpu.write("hang");
    words = "NVML did not answer within 1 s at the end of the run";
  }
  SECTION("there is none") {
    options.environment["CULPRIT_NVML"] = "/no/nvml.so";
    words = "NVML cannot be used: /no/nvml.so: cannot open";
  }
  SECTION("it does not list processes") {
    gpu.write("gpu name=H200 uuid=GPU-1 minor=1 total=2147483648 free=0 processes=4");
    words = "GPU 1: the list of its processes: Insufficient Permissions";
  }
  const TemporaryFolder folder;
  const Run run = run_line("sleep 1.3; " + recorded(), options, {"--out", folder.file("%p.dump"), "--format", "json"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(has(run.err, std::string("\"") + kLookedFor));
  CHECK(has(run.err, words));
  const Finished later = run_culprit({"report", folder.path().string(), "--fail-on", "leaks"});
  CHECK(later.exit_code == 0);
  CHECK(has(later.out, "note    " + std::string(kLookedFor)));
}

TEST_CASE("a short run, and one whose processes all record, ask NVML nothing", "[whole][charges]") {
  if (on_gpu()) return;
  const Gpu gpu;
  gpu.write("crash");  // a question would have a note
  const bool is_short = GENERATE(true, false);
  RunOptions options = gpu.options();
  if (!is_short) options.when_ready = [](pid_t) { usleep(1500000); };
  // An orphan of another test that runs at the same time may be one of the run's, and is asked about.
  bool asked = true;
  for (int i = 0; i < 5 && asked; ++i) {
    std::vector<std::string> program = {"switched", "a", "f"};
    if (!is_short) program.emplace_back("w");
    const Run run = culprit_run({"--fail-on", "leaks"}, program, options);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    asked = has(run.err, kLookedFor);
  }
  CHECK_FALSE(asked);
}

}  // namespace culprit::test
