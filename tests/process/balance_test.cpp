// The memory that the driver takes for itself, on the simulated driver, which takes the amounts that were measured on
// an H200. The real figures are checked by tests/gpu/balance.py.
#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

using namespace culprit::test;
using nlohmann::json;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

RunOptions with_own_memory() {
  RunOptions options;
  options.environment["SIMCUDA_OWN_MEMORY"] = "1";
  options.environment["SIMCUDA_DEVICES"] = "2";
  return options;
}

// As slow as on a busy machine.
RunOptions with_slow_readings() {
  RunOptions options = with_own_memory();
  options.environment["SIMCUDA_MEMORY_INFO_US"] = "20";
  return options;
}

using Items = std::map<std::string, std::int64_t>;
Items items_of(const json& list) {
  Items items;
  for (const json& item : list) items[item["what"]] = item["bytes"];
  return items;
}

json run_json(const std::string& mode, RunOptions options = with_own_memory()) {
  const Run run = run_preloaded("driver_memory", {mode}, std::move(options));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return read_report(run.dump()).json;
}

json call_charges_of(const json& report, const std::string& what) {
  json found = json::array();
  for (const json& charge : report["bills"]) {
    if (charge["what"] == what) found.push_back(charge);
  }
  return found;
}

}  // namespace

TEST_CASE("everything in use has a name", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("all");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["contexts"] == (527 + 524) * kMiB);
  CHECK(items["local-memory"] == 1024LL * 132 * 2048);
  CHECK(items["modules"] == 2 * kMiB);
  CHECK(items["streams"] == 54 * kMiB / 100 * 100);
  CHECK(items["graph-executables"] == 546 * kMiB / 5000 * 1500);
  CHECK(items["allocations"] == 3 * kMiB + 1 + 10 * 1000 + 40 * kMiB);
  CHECK(items["blocks"] == (4 + 2) * kMiB - (3 * kMiB + 1 + 10 * 1000));
  CHECK(items["pool-reserve"] == 24 * kMiB);
  CHECK(items["custom-pool-reserve"] == 32 * kMiB);
  CHECK(items["rest"] == 0);

  // The lines that made the driver grow, and the calls that did not.
  const json graphs = call_charges_of(report, "graph-executables");
  REQUIRE(graphs.size() == 3);
  CHECK(graphs[0]["bytes"] == 546 * kMiB / 5000 * 1000);
  CHECK(graphs[1]["bytes"] == 546 * kMiB / 5000 * 500);
  CHECK(graphs[2]["bytes"] == 0);
  CHECK(graphs[2]["count"] == 0);
  CHECK(graphs[2]["live"] == 1);
  for (const json& charge : graphs) CHECK(has_frame(read_stack(charge["stack"]), "instantiate"));
  const json streams = call_charges_of(report, "streams");
  REQUIRE(streams.size() == 1);
  CHECK(streams[0]["count"] == 100);
  CHECK(streams[0]["api"] == "cudaStreamCreate");
  CHECK(has_frame(read_stack(streams[0]["stack"]), "make_streams"));
  CHECK(has_frame(read_stack(call_charges_of(report, "local-memory").at(0)["stack"]), "raise_stack_limit"));
  CHECK(has_frame(read_stack(call_charges_of(report, "modules").at(0)["stack"]), "load_code"));

  REQUIRE(report["contexts"].size() == 2);
  CHECK(report["contexts"][0]["bytes"] == 527 * kMiB);
  CHECK(report["contexts"][0]["others_included"] == true);
  CHECK(report["contexts"][1]["bytes"] == 524 * kMiB);
  CHECK(report["contexts"][1]["others_included"] == false);
  CHECK(has_frame(read_stack(report["contexts"][1]["stack"]), "second_context"));
  for (const json& context : report["contexts"]) CHECK(context["stray"] == false);
}

TEST_CASE("streams are measured where that teaches something", "[balance]") {
  if (on_gpu()) return;
  const Run run = run_preloaded("driver_memory", {"streams"}, with_own_memory());
  INFO(run.out << run.err);
  REQUIRE(run.exit_code == 0);
  std::map<std::string, int> readings;
  std::istringstream lines(run.out);
  for (std::string of; lines >> of;) lines >> readings[of];
  CHECK(readings["pairs"] >= 2);
  CHECK(readings["pairs"] <= 400);  // two for a hundredth of 20,000 pairs
  CHECK(readings["kept"] >= 2 * 60);
  CHECK(readings["kept"] <= 2 * 100);
  CHECK(readings["others"] >= 2 * 60);
  CHECK(readings["context"] >= 2 * 60);
  const json report = read_report(run.dump()).json;
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["streams"] == 54 * kMiB / 100 * (3000 + 100 + 100));
  CHECK(items["rest"] == 0);
  CHECK(report["balances"][0]["calls_not_measured"] == 0);
  std::int64_t charged = 0;
  for (const json& charge : call_charges_of(report, "streams")) charged += charge["bytes"].get<std::int64_t>();
  CHECK(charged == items["streams"]);
}

TEST_CASE("the first launch of a kernel is charged to its line", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("kernels");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["local-memory"] == 3072LL * 132 * 2048);
  CHECK(items["modules"] == (2 + 8 + 10) * kMiB);  // code, printf, heap
  CHECK(items["rest"] == 0);
  const json local = call_charges_of(report, "local-memory");
  REQUIRE(local.size() == 1);
  CHECK(local[0]["count"] == 1);
  CHECK(has_frame(read_stack(local[0]["stack"]), "launch_kernels"));
}

TEST_CASE("a kernel's first launch is measured, however long ago it was looked up", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("kernels later");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["local-memory"] == 3072LL * 132 * 2048);
  CHECK(items["rest"] == 0);
  CHECK(has_frame(read_stack(call_charges_of(report, "local-memory").at(0)["stack"]), "launch_later"));
}

TEST_CASE("very many look-ups leave time to measure other calls", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("look-ups", with_slow_readings());
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["graph-executables"] == 546 * kMiB / 5000 * 1000);
  CHECK(items["local-memory"] == 3072LL * 132 * 2048);
  CHECK(items["rest"] == 0);
}

TEST_CASE("a look-up that was made before is not measured again", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("same look-up", with_slow_readings());
  CHECK(items_of(report["devices"][0]["balance"])["graph-executables"] == 546 * kMiB / 5000 * 1000);
  CHECK(report["balances"][0]["calls_not_measured"] == 0);
}

TEST_CASE("local memory of a graph's kernel is named when the graph is instantiated", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("graph kernel");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["local-memory"] == 3072LL * 132 * 2048);
  CHECK(items["graph-executables"] == 546 * kMiB / 5000);
  CHECK(items["rest"] == 0);
  const json local = call_charges_of(report, "local-memory");
  REQUIRE(local.size() == 1);
  CHECK(local[0]["api"] == "cuGraphInstantiateWithFlags");
  CHECK(has_frame(read_stack(local[0]["stack"]), "launch_graph"));
  CHECK(report["balances"][0]["calls_not_measured"] == 0);
}

TEST_CASE("the first launch after an update of a graph is measured", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("updated graph");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["local-memory"] == 3072LL * 132 * 2048);
  CHECK(items["rest"] == 0);
}

TEST_CASE("memory of another thread's graphs is never counted as code", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("beside graph memory");
  Items items = items_of(report["devices"][0]["balance"]);
  const std::int64_t not_measured = report["balances"][0]["calls_not_measured"];
  INFO(report["balances"][0].dump(1));
  const std::int64_t executable = 546 * kMiB / 5000 + 14 * kMiB / 5000;  // made beside a load, perhaps
  CHECK(items["modules"] >= (40 - not_measured) * 2 * kMiB);
  CHECK(items["modules"] + items["graph-executables"] + items["rest"] == 40 * 2 * kMiB + executable);
}

TEST_CASE("memory that graphs allocate is no memory of executables", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("graph memory");
  Items items = items_of(report["devices"][0]["balance"]);
  // Two of four stay.
  CHECK(items["allocations"] + items["graph-pool-reserve"] >= 2 * 32 * kMiB);
  CHECK(items["graph-executables"] == 2 * (2 * (546 * kMiB / 5000) + 14 * kMiB / 5000));
  CHECK(items["rest"] == 0);
  CHECK(report["balances"][0]["calls_not_measured"] == 0);
}

TEST_CASE("memory of a pool lies where the pool does, and memory on the host is on no device", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("elsewhere");
  std::map<std::string, std::int64_t> leaked;  // by kind and device
  for (const json& leak : report["leaks"]) {
    const std::string device = leak["device"].is_null() ? "host" : std::to_string(leak["device"].get<int>());
    leaked[leak["kind"].get<std::string>() + " " + device] += leak["bytes"].get<std::int64_t>();
  }
  CHECK(leaked["stream-ordered host"] == 16 * kMiB);
  CHECK(leaked["stream-ordered 1"] == 2 * 16 * kMiB);
  CHECK(leaked["stream-ordered 0"] == kMiB);
  CHECK(leaked["vmm-physical host"] == 8 * kMiB);
  CHECK(report["devices"][0]["live_bytes"] == 3 * kMiB + 1 + kMiB);
  CHECK(report["devices"][1]["live_bytes"] == 2 * 16 * kMiB);
  CHECK(items_of(report["devices"][0]["balance"])["rest"] == 0);
}

TEST_CASE("a context on a device where its rank has nothing else is a stray one", "[balance]") {
  if (on_gpu()) return;
  RunOptions options = with_own_memory();
  options.environment["RANK"] = "1";
  options.environment["WORLD_SIZE"] = "2";
  options.environment["LOCAL_RANK"] = "1";
  const Run run = run_preloaded("driver_memory", {"stray"}, options);
  REQUIRE(run.exit_code == 0);
  const json report = read_report(run.dump()).json;
  REQUIRE(report["contexts"].size() == 2);
  CHECK(report["contexts"][0]["stray"] == true);
  CHECK(report["contexts"][0]["device"] == 0);
  CHECK(report["contexts"][0]["stray_kind"] == "empty");
  CHECK(report["contexts"][0]["leftover_bytes"] == 0);
  CHECK(report["contexts"][0]["allocates_on"] == json::array({1}));
  CHECK(has_frame(read_stack(report["contexts"][0]["stack"]), "look_at_gpu_0"));
  CHECK(report["contexts"][1]["stray"] == false);
  const Finished text = run_culprit({"report", run.dump()});
  INFO(text.out);
  CHECK(contains(text.out, "STRAY CONTEXT: rank 1 has a context on GPU 0, made by driver_memory.cpp:"));
  CHECK(contains(text.out, "527 MiB; it allocates on GPU 1 only"));
}

TEST_CASE("a context with leftovers of one stretch of work is a stray one", "[balance][stray]") {
  if (on_gpu()) return;
  struct Row {
    const char* way;
    bool stray;
    std::int64_t left;
  };
  const std::int64_t code = 2 * kMiB;
  const Row row = GENERATE_COPY(Row{"tensor before", true, 2 * kMiB + code},      // torch.zeros(1).cuda()
                                Row{"checkpoint before", true, 2 * kMiB + code},  // torch.load() on cuda:0
                                Row{"checkpoint after", true, 2 * kMiB + code},   // the same, once the model is there
                                Row{"freed", true, code}, Row{"launches", false, 0}, Row{"pipeline", false, 0},
                                Row{"large", false, 0}, Row{"second last", false, 0}, Row{"threads", false, 0});
  INFO(row.way);
  RunOptions options = with_own_memory();
  options.environment["RANK"] = options.environment["LOCAL_RANK"] = "1";
  options.environment["WORLD_SIZE"] = "2";
  const Run run = run_preloaded("driver_memory", {"work on two", row.way}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const json report = read_report(run.dump()).json;
  REQUIRE(report["contexts"].size() == 2);
  for (const json& context : report["contexts"]) {
    INFO(context.dump(1));
    const bool expected = row.stray && context["device"] == 0;
    CHECK(context["stray"] == expected);
    if (!expected) continue;
    CHECK(context["stray_kind"] == "leftovers");
    CHECK(context["leftover_bytes"] == row.left);
    CHECK(context["allocates_on"] == json::array({1}));
    CHECK(has_frame(read_stack(context["stack"]), "work_on"));
    const Finished text = run_culprit({"report", run.dump()});
    INFO(text.out);
    CHECK(contains(text.out, "STRAY CONTEXT: rank 1 has a context on GPU 0, made by driver_memory.cpp:"));
    CHECK(contains(text.out, "MiB left in it, together "));
    CHECK(contains(text.out, "its work is then on GPU 1"));
    CHECK(contains(text.out, "before that line: call cudaSetDevice with the process's own GPU"));
  }
}

TEST_CASE("a device whose memory was all freed is in use", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("two devices");
  REQUIRE(report["contexts"].size() == 2);
  for (const json& context : report["contexts"]) CHECK(context["stray"] == false);
}

TEST_CASE("contexts that ended have no charge", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("contexts");
  CHECK(items_of(report["devices"][0]["balance"])["contexts"] == 527 * kMiB);
  CHECK(items_of(report["devices"][0]["balance"])["rest"] == 0);
  const json call_charges = call_charges_of(report, "contexts");
  REQUIRE(call_charges.size() == 2);
  CHECK(call_charges[0]["bytes"] == 20 * 524 * kMiB);
  CHECK(call_charges[0]["count"] == 20);
  CHECK(call_charges[0]["ended"] == true);
}

TEST_CASE("what threads take at the same time is known as a sum", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("threads");
  Items items = items_of(report["devices"][0]["balance"]);
  // On a busy machine the readings of a few calls may be left out: they may take a hundredth of the time.
  const std::int64_t not_measured = report["balances"][0]["calls_not_measured"];
  CHECK(items["modules"] + items["rest"] == 80 * 2 * kMiB);
  CHECK(items["rest"] >= 0);
  CHECK(items["rest"] <= not_measured * 2 * kMiB);
}

TEST_CASE("allocations of another thread are never counted as code", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("beside allocations");
  Items items = items_of(report["devices"][0]["balance"]);
  const std::int64_t not_measured = report["balances"][0]["calls_not_measured"];
  CHECK(items["modules"] == (40 - not_measured) * 2 * kMiB);
  CHECK(items["rest"] == not_measured * 2 * kMiB);
}

TEST_CASE("calls during a capture are measured", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("capture");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["modules"] == 2 * kMiB);
  CHECK(items["rest"] == 0);
  CHECK(report["balances"][0]["calls_not_measured"] == 0);
}

TEST_CASE("a lower stack limit gives memory back", "[balance]") {
  if (on_gpu()) return;
  const json report = run_json("lower limit");
  Items items = items_of(report["devices"][0]["balance"]);
  CHECK(items["local-memory"] == 1024LL * 132 * 2048);
  CHECK(items["rest"] == 0);
}

TEST_CASE("the balance when memory ran out is there after SIGKILL", "[balance]") {
  if (on_gpu()) return;
  const Run run = run_preloaded("driver_memory", {"out of memory"}, with_own_memory());
  CHECK(run.signal == 9);
  const json report = read_report(run.dump()).json;
  json balance;
  for (const json& one : report["balances"]) {
    if (one["moment"] == "out-of-memory") balance = one;
  }
  REQUIRE(balance.is_object());
  Items items = items_of(balance["items"]);
  CHECK(items["contexts"] == 527 * kMiB);
  CHECK(items["rest"] == 0);
}
