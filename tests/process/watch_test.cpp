// culprit watch: verdicts of programs that run for seconds, with samples of some hundredths of a second.
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/environment_variable.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

using Words = std::vector<std::string>;

Run watch(const Words& options, const Words& command) {
  Words words = {"--every", "25ms"};
  words.insert(words.end(), options.begin(), options.end());
  return culprit_command("watch", words, command);
}

// Of a program that leaks. On a machine with other work, samples of three seconds may be too few to say more than that
// it grows: then it is watched for longer.
Run watch_leak(const Words& options, Words command) {
  command.emplace_back("3000");
  Run run = watch(options, command);
  command.back() = "12000";
  return run.exit_code == 1 ? run : watch(options, command);
}

nlohmann::json json_of(const std::string& text) { return nlohmann::json::parse(text.substr(text.find("{\n"))); }

// The row whose stack passes through a function; `kind`: of the kinds that have such a stack, "" for any.
nlohmann::json row_through(const nlohmann::json& result, const std::string& function, const std::string& kind = "") {
  for (const nlohmann::json& row : result.at("rows")) {
    if ((kind.empty() || row.at("kind") == kind) && has_frame(read_stack(row.at("stack")), function)) return row;
  }
  return nullptr;
}

// The rows of the inside of the cache, by kind.
std::map<std::string, nlohmann::json> cache_rows(const Run& run) {
  std::map<std::string, nlohmann::json> rows;
  const nlohmann::json result = json_of(run.err);
  for (const nlohmann::json& row : result.at("rows")) {
    const std::string kind = row.at("kind");
    if (kind.rfind("cache-", 0) == 0) rows[kind] = row;
  }
  return rows;
}

}  // namespace

TEST_CASE("culprit watch finds the stack that leaks, although the program frees it at its end", "[watch]") {
  const Run run = watch_leak({"--format", "json"}, {"watched", "leak"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  const nlohmann::json result = json_of(run.err);
  CHECK(result.at("schema") == "culprit.watch/1");
  CHECK(result.at("verdict") == "leaking");
  const nlohmann::json leak = row_through(result, "keep_one");
  REQUIRE(leak.is_object());
  CHECK(leak.at("verdict") == "leaking");
  CHECK(leak.at("kind") == "device");
  CHECK(leak.at("api") == "cudaMalloc");
  CHECK(leak.at("bytes_per_minute") > 64 << 20);
  CHECK(leak.at("confidence") > 0.9);
  CHECK(leak.at("seconds_until_full") > 0);
  const nlohmann::json used = row_through(result, "use_and_free");
  if (used.is_object()) CHECK(used.at("verdict") != "leaking");
}

TEST_CASE("culprit watch finds the stack that leaks, although the program takes many samples to free it", "[watch]") {
  const Run run = watch_leak({"--format", "json"}, {"watched", "slow-end"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  CHECK(row_through(json_of(run.err), "keep_one").at("verdict") == "leaking");
}

TEST_CASE("A row of culprit watch has the id of its group in culprit report", "[watch]") {
  RunOptions options;
  nlohmann::json row;
  options.when_ready = [&row](pid_t pid) {
    const Finished found =
        run_culprit({"watch", std::to_string(pid), "--for", "2s", "--every", "25ms", "--format", "json"});
    INFO(found.err << found.out);
    CHECK(found.exit_code == 0);
    row = row_through(nlohmann::json::parse(found.out), "leak_here");
  };
  const Run run = run_preloaded("end_how", {"live"}, options);
  REQUIRE(row.is_object());
  CHECK(row.at("verdict") == "steady");
  CHECK(row.at("bytes") == 11001);
  CHECK(row.at("id") == read_report(run.dump()).through("leak_here").at(0).id);
}

TEST_CASE("culprit watch has the memory that no call explains, by NVML's figure for the process", "[watch]") {
  if (on_gpu()) return;
  const TemporaryFolder folder;
  RunOptions options;
  options.environment["SIMCUDA_OWN_MEMORY"] = "1";
  options.when_ready = [&folder](pid_t pid) {
    const std::string file = folder.file("nvml");
    std::ofstream(file) << "gpu name=H200 uuid=GPU-51adc0da-0000-4000-8000-000000000000 minor=0 total=2147483648 "
                           "reserved=0 free=1073741824\nprocess compute "
                        << pid << " " << (533 << 20) << "\n";
    const Finished found =
        run_culprit({"watch", std::to_string(pid), "--for", "1s", "--every", "25ms", "--format", "json"},
                    {{"CULPRIT_NVML", fake_nvml_path().string()}, {"CULPRIT_FAKE_NVML", file}});
    INFO(found.err << found.out);
    bool seen = false;
    const nlohmann::json result = nlohmann::json::parse(found.out);
    for (const nlohmann::json& one : result.at("rows")) {
      if (one.at("kind") != "driver-rest") continue;
      seen = true;
      CHECK(one.at("bytes") == 4 << 20);
      CHECK(one.at("stack").empty());
    }
    CHECK(seen);
  };
  CHECK(run_preloaded("end_how", {"live"}, options).exit_code == 9);
}

TEST_CASE("culprit watch sees tensors that leak inside of a cache whose segments stay as they are", "[watch]") {
  if (on_gpu()) return;
  const std::string library = subject_path("libc10_cuda.so").string();
  for (const char* form : {"", "2.13"}) {
    const EnvironmentVariable gap("POOL_COUNTS_GAP", form);
    const Run leak = watch_leak({"--format", "json"}, {"cached_tensors", library, "leak"});
    INFO(leak.err);
    CHECK(leak.exit_code == 1);
    std::map<std::string, nlohmann::json> rows = cache_rows(leak);
    REQUIRE(rows.size() == 3);
    CHECK(rows["cache-live"].at("verdict") == "leaking");
    CHECK(rows["cache-live"].at("bytes") > 5 << 20);
    CHECK(rows["cache-live"].at("stack").empty());
    CHECK(rows["cache-live"].at("seconds_until_full").is_null());
    CHECK(rows["cache-live"].at("bytes").get<long>() + rows["cache-idle"].at("bytes").get<long>() == 1 << 30);
    CHECK(rows["cache-idle"].at("verdict") == "steady");
    const nlohmann::json segment = row_through(json_of(leak.err), "take_segment");
    CHECK(segment.at("verdict") == "steady");
    CHECK(segment.at("pool") == "PyTorch caching allocator");
    CHECK(rows["cache-live"].at("pool").is_null());
    Run teeth = watch({"--format", "json"}, {"cached_tensors", library, "teeth", "3000"});
    if (teeth.exit_code == 4) teeth = watch({"--format", "json"}, {"cached_tensors", library, "teeth", "12000"});
    INFO(teeth.err);
    CHECK(teeth.exit_code == 0);
    CHECK(cache_rows(teeth).size() == 3);
  }
}

TEST_CASE("culprit watch calls memory that comes and goes steady", "[watch]") {
  for (const std::string what : {"teeth", "steady"}) {
    const Run run = watch({"--format", "json"}, {"watched", what, "3000"});
    INFO(what << "\n" << run.err);
    CHECK(run.exit_code == 0);
    const nlohmann::json result = json_of(run.err);
    CHECK(result.at("verdict") == "steady");
    if (what == "teeth") CHECK(row_through(result, "keep_one").at("verdict") == "saw-tooth");
  }
}

TEST_CASE("culprit watch counts objects", "[watch]") {
  const Run run = watch_leak({"--format", "json"}, {"watched", "streams"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  // NVIDIA's driver grows by the same stack: a row of bytes is beside that of the objects.
  const nlohmann::json leak = row_through(json_of(run.err), "keep_stream", "stream");
  REQUIRE(leak.is_object());
  CHECK(leak.at("verdict") == "leaking");
  CHECK(leak.at("objects_per_minute") > 60);
  CHECK(leak.at("bytes_per_minute").is_null());
}

TEST_CASE("The text of culprit watch names rate, stack and time, and --exec runs once for a row", "[watch]") {
  const Run run =
      watch_leak({"--exec", "echo exec $CULPRIT_WATCH_VERDICT $CULPRIT_WATCH_KIND $CULPRIT_WATCH_WHERE; exit 7"},
                 {"watched", "leak"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  CHECK(has(run.err, "culprit watch · "));
  CHECK(has(run.err, "\nLEAKING 1 of "));
  CHECK(has(run.err, "keep_one"));
  CHECK(has(run.err, " MiB/min  holds "));
  CHECK(has(run.err, "   full       GPU 0 in "));
  const std::size_t first = run.err.find("exec leaking device watched.cpp:");
  CHECK(first != std::string::npos);
  CHECK(run.err.find("exec leaking", first + 1) == std::string::npos);
  CHECK(has(run.err, "ended with exit code 7"));
  CHECK_FALSE(has(run.err, "\x1b["));
}

TEST_CASE("culprit watch: the command's own failure wins over the verdict", "[watch]") {
  CHECK(watch({}, {"watched", "leak", "3000", "5"}).exit_code == 5);
}

TEST_CASE("culprit watch does not know after a short time, or without CUDA", "[watch]") {
  const Run early = watch({}, {"watched", "leak", "200"});
  INFO(early.err);
  CHECK(early.exit_code == 4);
  CHECK(has(early.err, "was watched for too short a time: "));
  const Run without = watch({}, {"/bin/true"});
  CHECK(without.exit_code == 4);
  CHECK(has(without.err, "NOT KNOWN: no CUDA call was seen"));
}

TEST_CASE("culprit watch --grow leaves slow growth out", "[watch]") {
  const Run run = watch({"--grow", "1TiB/s"}, {"watched", "leak", "3000"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
}

TEST_CASE("culprit watch --for ends the command, and the verdict counts", "[watch]") {
  const Run run = watch({"--for", "3s"}, {"watched", "leak", "60000", "7"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  // A command that ended by itself, by a signal.
  const Run killed = watch({}, {"/bin/sh", "-c", "kill -TERM $$"});
  CHECK(killed.signal == SIGTERM);
}

TEST_CASE("culprit watch looks at a process that runs already", "[watch]") {
  RunOptions options;
  options.when_ready = [](pid_t pid) {
    Finished found;
    // On a machine with other work the samples of two seconds may be too few to say more than that it grows.
    for (const std::string time : {"2s", "7s"}) {
      found = run_culprit({"watch", std::to_string(pid), "--for", time, "--every", "25ms", "--format", "json"});
      if (found.exit_code != 4) break;
    }
    INFO(found.err << found.out);
    CHECK(found.exit_code == 1);
    CHECK(row_through(nlohmann::json::parse(found.out), "keep_one").at("verdict") == "leaking");
    const Finished named = run_culprit({"watch", "watched", "--for", "100ms", "--every", "25ms"});
    CHECK((named.exit_code == 4 || named.exit_code == 3));  // too short; or another test's process has the name, too
  };
  CHECK(run_preloaded("watched", {"leak", "12000"}, options).exit_code == 0);
}

TEST_CASE("culprit watch says why it cannot watch", "[watch]") {
  CHECK(has(run_culprit({"watch", "999999999"}).err, "there is no process 999999999"));
  CHECK(run_culprit({"watch", "999999999"}).exit_code == 3);
  CHECK(has(run_culprit({"watch", "no-such-program"}).err, "no process no-such-program runs here"));
  CHECK(has(run_culprit({"watch", std::to_string(getpid())}).err, "does not run under culprit: culprit attach"));
  CHECK(run_culprit({"watch"}).exit_code == 2);
  CHECK(has(run_culprit({"watch"}).err, "no process named, and no command after --"));
  CHECK(has(run_culprit({"watch", "1", "--", "true"}).err, "name one of them"));
  CHECK(has(run_culprit({"watch", "1", "--grow", "fast"}).err, "fast: a rate is needed"));
  CHECK(run_culprit({"watch", "1", "--every", "0"}).exit_code == 2);
  CHECK(run_culprit({"watch", "--", "/no/such/program"}).exit_code == 127);
}

}  // namespace culprit::test
