// The balance of a process beside others on its GPU: the simulated driver and the fake NVML have neighbours
// (tests/simcuda/neighbours.h).
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

using nlohmann::json;

namespace culprit::test {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class SharedGpu {
 public:
  SharedGpu() {
    std::ofstream(folder_.file("nvml"))
        << "gpu name=H200 uuid=GPU-51adc0da-0000-4000-8000-000000000000 minor=0 total=2147483648 reserved=0 free=0\n";
  }
  void add_to_nvml(const std::string& line) const {
    std::ofstream(folder_.file("nvml"), std::ios::app) << line << "\n";
  }
  RunOptions options() const {
    RunOptions options;
    options.environment["SIMCUDA_OWN_MEMORY"] = "1";
    options.environment["SIMCUDA_NEIGHBOURS"] = folder_.file("machine");
    options.environment["SIMCUDA_UNCHARGED_MB"] = "9";
    options.environment["CULPRIT_NVML"] = fake_nvml_path().string();
    options.environment["CULPRIT_FAKE_NVML"] = folder_.file("nvml");
    return options;
  }
  // Runs `command` beside the neighbour, which ends before this returns.
  std::vector<std::string> beside(const std::string& neighbour, const std::string& command) const {
    if (neighbour.empty()) return {"/bin/sh", "-c", "exec " + command};
    const std::string fifo = folder_.file("end");
    const std::string told = folder_.file("told");
    return {"/bin/sh", "-c",
            "rm -f " + fifo + " " + told + "; mkfifo " + fifo + "; env -u LD_PRELOAD " +
                subject_path("neighbour").string() + " " + neighbour + " <" + fifo + " >" + told + " & exec 9>" + fifo +
                "; until [ -s " + told + " ]; do sleep 0.01; done; " + command +
                "; code=$?; exec 9>&-; wait; exit $code"};
  }

 private:
  TemporaryFolder folder_;
};

using Items = std::map<std::string, std::int64_t>;
Items items_of(const json& balance) {
  Items items;
  for (const json& item : balance["items"]) items[item["what"]] = item["bytes"];
  return items;
}

json balance_at(const json& report, const std::string& moment) {
  for (const json& balance : report["balances"]) {
    if (balance["moment"] == moment) return balance;
  }
  return {};
}

json at_exit(const json& report) { return balance_at(report, "exit"); }

std::int64_t sum_of(const Items& items) {
  std::int64_t sum = 0;
  for (const auto& item : items) sum += item.second;
  return sum;
}

struct Recorded {
  json balance;
  json report;
};

// Where the machine is busy an answer may come too late. The program then runs again, also where a part went to the
// rest.
std::optional<Recorded> run_beside(const SharedGpu& gpu, const std::string& neighbour,
                                   const std::vector<std::string>& command, const std::string& moment = "exit") {
  std::optional<Recorded> last;
  for (int i = 0; i < 20; ++i) {
    RunOptions options = gpu.options();
    options.folder = std::make_shared<TemporaryFolder>();
    const std::string program = subject_path(command[0]).string() + " '" + command[1] + "'";
    const Run run = culprit_run({"--out", options.folder->file("a.dump")}, gpu.beside(neighbour, program), options);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const json report = read_report(options.folder->file("a.dump")).json;
    const json balance = balance_at(report, moment);
    REQUIRE(balance.is_object());
    const bool complete = balance["calls_not_attributed"] == 0 && !balance["process_bytes"].is_null() &&
                          balance["not_known"].empty() && report["contexts"][0]["others_included"] == false;
    if (!complete) continue;
    last = Recorded{balance, report};
    if (items_of(balance)["rest"] == 0) break;
  }
  return last;
}

bool were_answered(const std::optional<Recorded>& alone, const std::optional<Recorded>& beside) {
  if (alone && beside) return true;
  WARN("no run in which all answers came in time: this machine is too busy");
  return false;
}

// `late`: of the fake NVML. These items of the mode of driver_memory are not 0 and as alone; a rest is.
void check_late_answers(const std::string& late, const std::string& neighbour, const std::string& mode,
                        const std::vector<std::string>& same) {
  const SharedGpu gpu;
  const std::optional<Recorded> alone = run_beside(gpu, "", {"driver_memory", mode});
  gpu.add_to_nvml(late);
  const std::optional<Recorded> beside = run_beside(gpu, neighbour, {"driver_memory", mode});
  if (!were_answered(alone, beside)) return;
  INFO(alone->balance.dump(1) << beside->balance.dump(1));
  Items expected = items_of(alone->balance);
  Items items = items_of(beside->balance);
  for (const std::string& what : same) {
    CHECK(items[what] == expected[what]);
    CHECK((items[what] == 0) == (what == "rest"));
  }
}

}  // namespace

TEST_CASE("beside other processes a balance has the same figures as alone", "[shared-gpu]") {
  if (on_gpu()) return;
  const SharedGpu gpu;
  const std::string neighbour = GENERATE("keep", "churn", "come", "restart");
  INFO(neighbour);
  const std::optional<Recorded> alone = run_beside(gpu, "", {"driver_memory", "all"});
  const std::optional<Recorded> beside = run_beside(gpu, neighbour, {"driver_memory", "all"});
  if (!were_answered(alone, beside)) return;
  Items expected = items_of(alone->balance);
  Items items = items_of(beside->balance);
  INFO(alone->balance.dump(1) << beside->balance.dump(1));
  CHECK(expected["contexts"] == (527 + 524) * kMiB);
  CHECK(expected["no-process"] == 9 * kMiB);
  CHECK(expected.count("other-processes") == 0);
  for (const auto& [what, bytes] : items) {
    if (what != "other-processes" && what != "no-process") CHECK(bytes == expected[what]);
    if (what != "rest") CHECK(bytes > 0);
  }
  CHECK(items["rest"] == 0);
  CHECK(sum_of(items) == beside->balance["in_use_bytes"].get<std::int64_t>());
  CHECK(beside->balance["not_known"].empty());
  CHECK(beside->balance["problem"].is_null());
  if (neighbour == "keep") {
    CHECK(items["other-processes"] == (527 + 64) * kMiB);
    CHECK(items["no-process"] == 9 * kMiB);
    REQUIRE(beside->balance["other_processes"].size() == 1);
    CHECK(beside->balance["other_processes"][0]["name"] == "neighbour");
    CHECK(beside->balance["other_processes"][0]["bytes"] == (527 + 64) * kMiB);
  }
  for (const json& context : beside->report["contexts"])
    CHECK(context["bytes"].get<std::int64_t>() == (context == beside->report["contexts"][0] ? 527 : 524) * kMiB);
}

TEST_CASE("beside another process the balances at the peak and after a failure are as alone", "[shared-gpu]") {
  if (on_gpu()) return;
  const SharedGpu gpu;
  const std::string moment = GENERATE("peak", "out-of-memory");
  INFO(moment);
  const std::optional<Recorded> alone = run_beside(gpu, "", {"peak", "fail"}, moment);
  const std::optional<Recorded> beside = run_beside(gpu, "churn", {"peak", "fail"}, moment);
  if (!were_answered(alone, beside)) return;
  Items expected = items_of(alone->balance);
  Items items = items_of(beside->balance);
  INFO(alone->balance.dump(1) << beside->balance.dump(1));
  CHECK(sum_of(items) == beside->balance["in_use_bytes"].get<std::int64_t>());
  CHECK(items["other-processes"] >= 527 * kMiB);
  items.erase("other-processes");
  CHECK(items == expected);
  CHECK(items["allocations"] >= 64 * kMiB);
}

TEST_CASE("what calls took whose answers came late is known by the next answer", "[shared-gpu]") {
  if (on_gpu()) return;
  // Without a later answer that settles them, there are always calls that are not attributed.
  check_late_answers("late 1300 8", "churn", "some streams", {"streams", "contexts", "allocations", "rest"});
}

TEST_CASE("calls that take nothing ask no question, and segments of whole blocks disturb none", "[shared-gpu]") {
  if (on_gpu()) return;
  // With a question for each of 700 calls the share of the time that waits have would be spent.
  check_late_answers("late 300 1", "keep", "framework", {"streams", "modules", "contexts", "allocations", "rest"});
}

TEST_CASE("a call in a signal handler asks no question", "[shared-gpu]") {
  if (on_gpu()) return;
  const SharedGpu gpu;
  RunOptions options = gpu.options();
  options.folder = std::make_shared<TemporaryFolder>();
  const std::string dump = options.folder->file("a.dump");
  const Run run = culprit_run({"--out", dump}, {"driver_memory", "in a handler"}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  // The one measured call is that in the handler. Without a question the context is one of all processes' readings.
  CHECK(read_report(dump).json["contexts"][0]["others_included"] == true);
}

TEST_CASE("without culprit run what others may have changed is not known", "[shared-gpu]") {
  if (on_gpu()) return;
  const SharedGpu gpu;
  bool found = false;
  // Whether figures contradict one another depends on the moments of the neighbour's changes.
  for (int i = 0; i < 20 && !found; ++i) {
    RunOptions options = gpu.options();
    options.folder = std::make_shared<TemporaryFolder>();
    const std::string dump = options.folder->file("a.dump");
    options.preload = false;
    const std::string program = "env LD_PRELOAD=" + library_path().string() + " CULPRIT_OUT=" + dump + " " +
                                subject_path("driver_memory").string() + " all";
    const std::vector<std::string> command = gpu.beside("churn", program);
    const Run run = run_preloaded(command[0], {command[1], command[2]}, options);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(dump);
    const json balance = at_exit(report.json);
    INFO(balance.dump(1));
    for (const json& item : balance["items"]) {
      if (item["what"] != "rest") CHECK(item["bytes"] > 0);
    }
    CHECK(balance["process_bytes"].is_null());
    CHECK(balance["other_processes"].is_null());
    CHECK(has(balance["problem"], "started without culprit run"));
    CHECK(report.json["contexts"][0]["others_included"] == true);
    const json& not_known = balance["not_known"];
    found = std::find(not_known.begin(), not_known.end(), "contexts") != not_known.end();
    if (!found) continue;
    CHECK(report.json["contexts"][0]["bytes"].is_null());
    CHECK(report.json["contexts"][0]["beside_others"] == true);
    for (const json& item : balance["items"]) {
      CHECK(item["what"] != "streams");
      CHECK(item["what"] != "contexts");
    }
    const std::string text = run_culprit({"report", "--all", dump}).out;
    CHECK(has(text, "not known beside other processes: "));
    CHECK(has(text, "culprit run -- ./app"));
  }
  CHECK(found);
}

TEST_CASE("a program goes on when NVML hangs or crashes, or cannot be used", "[shared-gpu]") {
  if (on_gpu()) return;
  const std::string trouble = GENERATE("hang", "crash", "init 4");
  INFO(trouble);
  const SharedGpu gpu;
  gpu.add_to_nvml(trouble);
  RunOptions options = gpu.options();
  options.folder = std::make_shared<TemporaryFolder>();
  const std::string dump = options.folder->file("a.dump");
  const auto begin = std::chrono::steady_clock::now();
  const Run run = culprit_run({"--out", dump}, {"driver_memory", "all"}, options);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  const json balance = at_exit(read_report(dump).json);
  CHECK(balance["process_bytes"].is_null());
  CHECK(balance["problem"].is_string());
  // Alone, the figures agree all the same; the driver's own memory is in the first context.
  Items items = items_of(balance);
  CHECK(items["contexts"] == (527 + 524 + 9) * kMiB);
  CHECK(items["rest"] == 0);
}

}  // namespace culprit::test
