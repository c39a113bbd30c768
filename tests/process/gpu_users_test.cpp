// What NVML charges to processes: beside the balance of a running one, and to others when memory ran out. NVML is the
// fake one of tests/unit/report/doctor/fake_nvml.cpp.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

using nlohmann::json;

namespace culprit::test {
namespace {

constexpr std::uint64_t kMiBytes = 1 << 20;

// A machine with the simulated driver's first GPU.
class FakeGpu {
 public:
  explicit FakeGpu(std::uint64_t used = 2048 * kMiBytes) {
    write("gpu name=H200 uuid=GPU-51adc0da-0000-4000-8000-000000000000 minor=0 total=2147483648 reserved=0 free=" +
          std::to_string(2048 * kMiBytes - used) + "\n");
  }
  std::string file() const { return folder_.file("nvml"); }
  void write(const std::string& text) const { std::ofstream(file(), std::ios::app) << text; }
  void charge(pid_t pid, std::uint64_t bytes) const {
    write("process compute " + std::to_string(pid) + " " + std::to_string(bytes) + "\n");
  }
  std::map<std::string, std::string> environment() const {
    return {{"CULPRIT_NVML", fake_nvml_path().string()}, {"CULPRIT_FAKE_NVML", file()}};
  }
  RunOptions options() const {
    RunOptions options;
    for (const auto& [name, value] : environment()) options.environment[name] = value;
    options.environment["SIMCUDA_MEMORY_MB"] = "2048";
    return options;
  }
  // A command that charges itself, as the process number that the program will have, and then runs the hog.
  std::vector<std::string> hog(const std::string& end) const {
    return {"/bin/sh", "-c",
            "echo process compute $$ " + std::to_string(900 * kMiBytes) + " >>" + file() + "; exec " +
                subject_path("hog").string() + " one " + end};
  }

 private:
  TemporaryFolder folder_;
};

RunOptions waiting() {
  RunOptions options;
  options.environment["SIMCUDA_OWN_MEMORY"] = "1";
  return options;
}

json failure_of(const std::filesystem::path& dump) { return read_report(dump).json["out_of_memory"].at(0); }

bool wait_for_file(const std::filesystem::path& folder, const std::string& ending) {
  for (int i = 0; i < 200; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().string();
      if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace

TEST_CASE("culprit top shows the balance of now, and NVML's figure beside it", "[top][gpu-users]") {
  if (on_gpu()) return;
  RunOptions options = waiting();
  options.when_ready = [](pid_t pid) {
    const FakeGpu gpu;
    const std::string number = std::to_string(pid);
    const Finished unlisted = run_culprit({"top", number}, gpu.environment());
    CHECK(has(unlisted.out, "\nGPU 0   527 MiB contexts, with what other processes had then + "));
    CHECK(has(unlisted.out,
              "the balance explains 529 MiB; NVML's figure for this process is not known: NVML does not list this "
              "process\n"));
    gpu.charge(pid, 533 * kMiBytes);
    const Finished listed = run_culprit({"top", number}, gpu.environment());
    INFO(listed.out);
    CHECK(has(listed.out,
              "\nGPU 0   527 MiB contexts + 1.99 MiB rest of blocks of 2 MiB + 10.7 KiB allocated and not freed\n"));
    CHECK(has(listed.out, " + 4.00 MiB rest (not known)\n"));
    CHECK(has(listed.out, "\n        NVML says 533 MiB for this process; the balance explains 529 MiB\n"));
    CHECK(has(run_culprit({"top", number}, {{"CULPRIT_NVML", "/no/nvml.so"}}).out,
              "is not known: NVML cannot be used: /no/nvml.so: cannot open"));
  };
  CHECK(run_preloaded("end_how", {"live"}, options).exit_code == 9);
}

TEST_CASE("culprit top goes on when NVML hangs or crashes", "[top][gpu-users]") {
  if (on_gpu()) return;
  const auto [trouble, words] = GENERATE(
      table<std::string, std::string>({{"hang", "NVML did not answer within 5.00 s"},
                                       {"crash", "the copy of culprit that asked NVML ended without an answer"}}));
  const FakeGpu gpu;
  gpu.write(trouble + "\n");
  RunOptions options = waiting();
  options.when_ready = [&gpu, words = words, trouble_words = trouble](pid_t pid) {
    const auto begin = std::chrono::steady_clock::now();
    const Finished twice =
        run_culprit({"top", std::to_string(pid), "--times", "3", "--interval", "0.1"}, gpu.environment());
    INFO(trouble_words << ": signal " << twice.signal << twice.err << twice.out);
    CHECK(twice.exit_code == 0);
    CHECK(has(twice.out, "is not known: " + words));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  };
  CHECK(run_preloaded("end_how", {"live"}, options).exit_code == 9);
}

TEST_CASE("culprit top shows what a process exports, and what it has open of others", "[top][gpu-users]") {
  if (on_gpu()) return;
  const Run run = run_preloaded("sharing", {"ipc", "stays"});
  if (run.exit_code == 77) return;
  REQUIRE(run.dumps.size() == 2);
  std::string both;
  for (const auto& dump : run.dumps) both += run_culprit({"top", dump.string()}).out;
  INFO(both);
  CHECK(has(both,
            "\nshared  512 MiB (1x) exported and freed: the memory stays while "
            "others map it (culprit doctor)\n"));
  CHECK(has(both, "\nshared  memory of unknown size (1x) of other processes is open here\n"));
  const Run open = run_preloaded("sharing", {"ipc", "open"});
  both.clear();
  for (const auto& dump : open.dumps) both += run_culprit({"top", dump.string()}).out;
  CHECK(has(both, "\nshared  512 MiB (1x) exported to other processes\n"));
}

TEST_CASE("culprit doctor has the balance of each process that culprit records", "[doctor][gpu-users]") {
  if (on_gpu()) return;
  RunOptions options = waiting();
  options.when_ready = [](pid_t pid) {
    const FakeGpu gpu;
    gpu.charge(pid, 533 * kMiBytes);
    const Finished text = run_culprit({"doctor"}, gpu.environment());
    INFO(text.out);
    CHECK(has(text.out, "now 527 MiB contexts + "));
    CHECK(has(text.out, "NVML says 533 MiB for this process; the balance explains 529 MiB\n"));
    const json holder =
        json::parse(run_culprit({"doctor", "--format", "json"}, gpu.environment()).out)["gpus"][0]["holders"][0];
    const json& balance = holder["inside"]["balance"];
    CHECK(balance["process_bytes"] == 533 * kMiBytes);
    CHECK(balance["problem"].is_null());
    CHECK(balance["items"][0] == json({{"what", "contexts"}, {"bytes", 527 * kMiBytes}}));
    CHECK(balance["items"].back()["what"] == "rest");
    CHECK(balance["explained_bytes"].get<std::int64_t>() + balance["items"].back()["bytes"].get<std::int64_t>() ==
          533 * kMiBytes);
  };
  CHECK(run_preloaded("end_how", {"live"}, options).exit_code == 9);
}

TEST_CASE("culprit top and doctor have one table of all processes of a GPU", "[top][doctor][gpu-users][table]") {
  if (on_gpu()) return;
  RunOptions options = waiting();
  options.when_ready = [](pid_t pid) {
    // 1 GiB is in use.
    const FakeGpu gpu(1024 * kMiBytes);
    gpu.charge(pid, 533 * kMiBytes);
    gpu.charge(1, 400 * kMiBytes);
    const std::string number = std::to_string(pid);
    // Processes of tests that run at the same time may stand below.
    const std::string row = "533 MiB   " + number + " ";
    const std::string recorded = "end_how ";
    const std::string sum = "91.0 MiB  charged to no process";
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"top", number}, {"top"}, {"doctor"}, {"top", "--times", "2", "--interval", "0.1"}}) {
      const Finished shown = run_culprit(words, gpu.environment());
      INFO(words.front() << shown.out << shown.err);
      CHECK(shown.exit_code == 0);
      CHECK(has(shown.out, row));
      CHECK(has(shown.out, recorded));
      CHECK(has(shown.out, "10.7 KiB: 10.7 KiB live\n"));
      CHECK(has(shown.out, "400 MiB   1 "));
      CHECK(has(shown.out, sum));
      CHECK(has(shown.out, "1.00 GiB  in use on GPU 0\n"));
      CHECK_FALSE(has(shown.out, "\x1b"));
    }
    CHECK(has(run_culprit({"--color", "always", "top"}, gpu.environment()).out, "\x1b[1m1.00 GiB"));
    const json table =
        json::parse(run_culprit({"doctor", "--format", "json"}, gpu.environment()).out)["gpus"][0]["table"];
    CHECK(table["uncharged_bytes"] == 91 * kMiBytes);
    CHECK(table["in_use_bytes"] == 1024 * kMiBytes);
    const json& first = table["rows"][0];
    CHECK(first["pid"] == pid);
    CHECK(first["name"] == "end_how");
    CHECK(first["recorded"]["live_bytes"] == 11001);
    CHECK(table["rows"][1]["recorded"].is_null());
  };
  CHECK(run_preloaded("end_how", {"live"}, options).exit_code == 9);
}

TEST_CASE("culprit top without NVML says that the processes are not known", "[top][gpu-users][table]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  std::string words;
  std::map<std::string, std::string> environment = gpu.environment();
  SECTION("it refuses") {
    gpu.write("init 4\n");
    words = "NVML cannot be used: Insufficient Permissions";
  }
  SECTION("there is none") {
    environment["CULPRIT_NVML"] = "/no/nvml.so";
    words = "NVML cannot be used: /no/nvml.so: cannot open";
  }
  const Finished top = run_culprit({"top", "--times", "3"}, environment);
  INFO(top.err);
  CHECK(top.exit_code == 3);
  CHECK(has(top.err, "the processes of the GPUs are not known: "));
  CHECK(has(top.err, words));
  CHECK(top.out.empty());
}

TEST_CASE("culprit doctor goes on with /proc when NVML crashes", "[doctor][gpu-users]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  gpu.write("crash\n");
  const Finished doctor = run_culprit({"doctor"}, gpu.environment());
  CHECK(doctor.exit_code == 3);
  CHECK(has(doctor.out, "NVML cannot be used: the copy of culprit that asked NVML ended without"));
}

TEST_CASE("culprit run asks NVML who else has memory while the program that ran out of it runs", "[gpu-users]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  gpu.charge(1, 700 * kMiBytes);
  RunOptions options = gpu.options();
  options.folder = std::make_shared<TemporaryFolder>();
  const std::string folder = options.folder->path();
  options.when_ready = [&](pid_t) { CHECK(wait_for_file(folder, ".gpu.json")); };
  const Run run = culprit_run({"--out", folder + "/a.%p.dump"}, gpu.hog("wait"), options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(has(run.err, " after the failure: 700 MiB by 1 ("));
  CHECK(has(run.err, "); 900 MiB by this process\n"));
  // The stored answer is that of later reports, and of a merged one.
  const json failure = failure_of(run.dump());
  CHECK(failure["nvml"]["after_end"] == false);
  CHECK(failure["nvml"]["process_bytes"] == 900 * kMiBytes);
  CHECK(failure["nvml"]["problem"].is_null());
  CHECK(failure["nvml"]["time_ns"] >= failure["time_ns"]);
  REQUIRE(failure["other_processes"].size() == 1);
  CHECK(failure["other_processes"][0]["pid"] == 1);
  CHECK(failure["other_processes"][0]["name"].is_string());
  CHECK(failure["other_processes"][0]["bytes"] == 700 * kMiBytes);
  const std::string merged = folder + "/job.json";
  REQUIRE(run_culprit({"merge", run.dump().string(), "-o", merged}).exit_code == 0);
  CHECK(failure_of(merged)["other_processes"] == failure["other_processes"]);
  CHECK(failure_of(merged)["nvml"] == failure["nvml"]);
}

TEST_CASE("a program that ends at once after it ran out of memory: NVML is asked after its end", "[gpu-users]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  gpu.charge(1, 700 * kMiBytes);
  const std::string end = GENERATE("", "kill");
  RunOptions options = gpu.options();
  options.folder = std::make_shared<TemporaryFolder>();
  const Run run = culprit_run({"--out", options.folder->file("a.%p.dump")}, {"hog", "one", end}, options);
  INFO(run.err);
  CHECK(run.signal == (end == "kill" ? 9 : 0));
  CHECK(has(run.err, " after the failure"));
  const json failure = failure_of(run.dump());
  CHECK(failure["other_processes"][0]["bytes"] == 700 * kMiBytes);
  CHECK(failure["nvml"]["process_bytes"].is_null());
}

TEST_CASE("a program that removes or cuts off its dump does not disturb culprit run", "[gpu-users]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  const std::string harm = GENERATE("rm", "truncate -s 0", "truncate -s 5000");
  RunOptions options = gpu.options();
  options.folder = std::make_shared<TemporaryFolder>();
  const std::string folder = options.folder->path();
  // The dump is harmed while the program waits, and is looked at once more.
  const Run run = culprit_run({"--out", folder + "/a.dump"},
                              {"/bin/sh", "-c",
                               "(sleep 0.5; " + harm + " " + folder + "/a.dump) & sleep 1.2 | " +
                                   subject_path("hog").string() + " one wait; exit 7"},
                              options);
  INFO(run.err);
  CHECK(run.exit_code == 7);
  CHECK_FALSE(run.timed_out);
}

TEST_CASE("without an answer of NVML a report of a program that ran out of memory says so", "[gpu-users]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  RunOptions options = gpu.options();
  std::string words;
  SECTION("no library") {
    options.environment["CULPRIT_NVML"] = "/no/nvml.so";
    words = "NVML cannot be used: /no/nvml.so: cannot open shared object file: No such file or directory";
  }
  SECTION("no permission") {
    gpu.write("init 4\n");
    words = "NVML cannot be used: Insufficient Permissions";
  }
  SECTION("it hangs") {
    gpu.write("hang\n");
    words = "NVML did not answer within 5.00 s";
  }
  SECTION("it crashes") {
    gpu.write("crash\n");
    words = "the copy of culprit that asked NVML ended without an answer";
  }
  const Run run = culprit_run({}, {"hog", "one"}, options);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(has(run.err, "\nothers  not known: " + words));
}

TEST_CASE("NVML is not asked about a program that does not run out of memory", "[gpu-users]") {
  if (on_gpu()) return;
  const FakeGpu gpu;
  gpu.write("hang\n");
  RunOptions options = gpu.options();
  options.folder = std::make_shared<TemporaryFolder>();
  const Run run = culprit_run({"--out", options.folder->file("a.%p.dump")}, {"leak_one"}, options);
  for (const auto& entry : std::filesystem::directory_iterator(options.folder->path()))
    CHECK(entry.path().string().find(".gpu.json") == std::string::npos);
}

}  // namespace culprit::test
