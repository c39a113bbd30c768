// The dump is the live image: it survives every kind of end, can be read at any time, and its problems never affect the
// program.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

void check_leak_of_end_how(const Report& report) {
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].bytes == 11001);
  CHECK(report.leaks[0].count == 1);
  CHECK(report.leaks[0].has_frame("leak_here"));
}

int line_count(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("a dump can be read while its program runs", "[dump]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  bool read_live = false;
  options.when_ready = [&](pid_t) {
    for (const fs::directory_entry& entry : fs::directory_iterator(options.folder->path())) {
      const Report report = read_report(entry.path());
      CHECK(report.json.at("process").at("ended") == "running");
      check_leak_of_end_how(report);
      read_live = true;
    }
  };
  const Run run = run_preloaded("end_how", {"live"}, options);
  CHECK(read_live);
  CHECK(run.exit_code == 9);
  const Report report = read_report(run.dump());
  CHECK(report.json.at("process").at("ended") == "exit");
  check_leak_of_end_how(report);
}

TEST_CASE("a dump read in the middle of a storm is consistent", "[dump]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  options.when_ready = [&](pid_t) {
    for (int i = 0; i < 10; ++i) {
      const Report report = read_report(fs::directory_iterator(options.folder->path())->path());
      std::uint64_t steady = 0;
      for (const Group& group : report.through("leak_steadily")) steady += group.count;
      CHECK(steady == 3);
      CHECK(report.leaked_count() <= 3 + 4 * 8);
      for (const Group& group : report.through("churn")) CHECK(group.bytes == group.count * 20001);
    }
  };
  const Run run = run_preloaded("churn_live", {}, options);
  CHECK(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 3);
  CHECK(report.error_count() == 0);
}

TEST_CASE("a program killed in the middle of a storm leaves a consistent dump", "[dump]") {
  RunOptions options;
  options.when_ready = [](pid_t pid) { kill(pid, SIGKILL); };
  for (int i = 0; i < 5; ++i) {
    const Run run = run_preloaded("churn_live", {}, options);
    CHECK(run.signal == SIGKILL);
    const Report report = read_report(run.dump());
    std::uint64_t steady = 0;
    for (const Group& group : report.through("leak_steadily")) steady += group.count;
    CHECK(steady == 3);
    CHECK(report.leaked_count() <= 3 + 4 * 8);
  }
}

TEST_CASE("a program killed from outside leaves a complete dump", "[dump]") {
  RunOptions options;
  options.when_ready = [](pid_t pid) { kill(pid, SIGKILL); };
  const Run run = run_preloaded("end_how", {"live"}, options);
  CHECK(run.signal == SIGKILL);
  const Report report = read_report(run.dump());
  CHECK(report.json.at("process").at("ended") == "unknown");
  check_leak_of_end_how(report);
}

TEST_CASE("one line at exit says how much was not freed", "[dump]") {
  const Run run = run_preloaded("leak_one");
  INFO(run.err);
  CHECK(line_count(run.err) == 1);
  CHECK(has(run.err, "culprit report"));
  CHECK(has(run.err, run.dump().string()));
  CHECK(run.out == "done\n");

  RunOptions quiet;
  quiet.environment["CULPRIT_QUIET"] = "1";
  CHECK(run_preloaded("leak_one", {}, quiet).err.empty());
  CHECK(run_preloaded("free_null").err.empty());
}

TEST_CASE("a library that was unloaded is still named", "[dump]") {
  const Run run = run_preloaded("load_plugin", {subject_path("plugin.so").string()});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  const std::vector<Group> plugin = report.through("leak_in_plugin");
  REQUIRE(plugin.size() == 2);  // main calls it twice
  bool has_build_id = false;
  for (const nlohmann::json& module : report.json.at("modules")) {
    const bool is_plugin = fs::path(module.at("path").get<std::string>()).filename() == "plugin.so";
    if (is_plugin) has_build_id = module.at("build_id").get<std::string>().size() == 40;
  }
  CHECK(has_build_id);
  for (const Group& group : plugin) {
    CHECK(group.bytes == 11001);
    REQUIRE_FALSE(group.stack.empty());
    CHECK(fs::path(group.stack[0].module).filename() == "plugin.so");
    CHECK(group.has_frame("use_plugin"));
  }
  std::uint64_t program_bytes = 0;
  for (const Group& group : report.through("leak_in_program")) program_bytes += group.bytes;
  CHECK(program_bytes == 2 * 20001);
}

TEST_CASE("two runtimes in one process are both seen", "[dump]") {
  const std::string subject = on_gpu() ? "load_plugin_nvstatic" : "load_plugin_static";
  if (!fs::exists(subject_path(subject))) {
    WARN("skipped: no " << subject);
    return;
  }
  const Run run = run_preloaded(subject, {subject_path("plugin.so").string()});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_bytes() == 2 * 11001 + 2 * 20001);
  CHECK(report.leaked_count() == 4);
  for (const Group& group : report.leaks) CHECK(group.api == "cudaMalloc");
}

TEST_CASE("the runtimes of CUDA 11, 12 and 13 in one process are all seen", "[dump]") {
  for (const char* plugin : {"plugin_cudart11.so", "plugin_cudart12.so"}) {
    if (!on_gpu() || !fs::exists(subject_path(plugin))) {
      WARN("skipped: older runtimes need a GPU and scripts/cudart-versions.sh");
      return;
    }
    INFO(plugin);
    const Run run = run_preloaded("load_plugin", {subject_path(plugin).string()});
    INFO("stderr: " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    CHECK(report.leaked_bytes() == 2 * 11001 + 2 * 20001);
    CHECK(report.leaked_count() == 4);
    CHECK(report.through("leak_in_plugin").size() == 2);
    for (const Group& group : report.leaks) CHECK(group.api == "cudaMalloc");
  }
}

TEST_CASE("stacks are cut at the depth that was asked for", "[dump]") {
  struct Row {
    const char* depth;
    std::size_t most;
  };
  for (const Row& row : {Row{"", 64}, Row{"16", 16}, Row{"256", 256}}) {
    INFO("CULPRIT_DEPTH=" << row.depth);
    RunOptions options;
    options.environment["CULPRIT_DEPTH"] = row.depth;
    const Report report = read_report(run_preloaded("deep_stack", {"1000"}, options).dump());
    REQUIRE(report.leaks.size() == 1);
    // The frames of cudart count and are hidden in the report.
    CHECK(report.leaks[0].stack.size() <= row.most);
    CHECK(report.leaks[0].stack.size() >= row.most - 8);
    CHECK(report.leaks[0].has_frame("recurse"));
  }
  const Report whole = read_report(run_preloaded("deep_stack", {"20"}).dump());
  REQUIRE(whole.leaks.size() == 1);
  CHECK(whole.leaks[0].has_frame("main"));
}

TEST_CASE("without stacks leaks are still counted, by call", "[dump]") {
  RunOptions options;
  options.environment["CULPRIT_DEPTH"] = "0";
  const Report report = read_report(run_preloaded("deep_stack", {"20"}, options).dump());
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].stack.empty());
  CHECK(report.leaks[0].api == "cuMemAlloc");
  CHECK(report.leaked_count() == 1);
}

TEST_CASE("device memory in use is noted at the first call and at exit", "[dump]") {
  const Report report = read_report(run_preloaded("leak_one").dump());
  const nlohmann::json& devices = report.json.at("devices");
  REQUIRE(devices.size() >= 1);
  INFO(devices.dump(1));
  CHECK(devices[0].at("ordinal") == 0);
  CHECK_FALSE(devices[0].at("name").get<std::string>().empty());
  for (const char* when : {"first", "peak", "exit"}) {
    const nlohmann::json& reading = devices[0].at("memory").at(when);
    CHECK(reading.at("total_bytes").get<std::uint64_t>() > 0);
    CHECK(reading.at("free_bytes").get<std::uint64_t>() <= reading.at("total_bytes").get<std::uint64_t>());
  }
}

TEST_CASE("the most that was in use is known, also when it was given back", "[dump]") {
  // Threads keep up to 4 MiB to themselves, which are added at the end.
  CHECK(read_report(run_preloaded("leak_one").dump()).json.at("devices")[0].at("time_line").at("peak_bytes") == 31002);
  const nlohmann::json devices = read_report(run_preloaded("free_null").dump()).json.at("devices");
  for (const nlohmann::json& device : devices) {
    CHECK((device.at("time_line").is_null() || device.at("time_line").at("peak_bytes") == 0));
  }
}

TEST_CASE("a program that ends while its threads allocate ends as it wants", "[dump]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver crashes such a program, with and without us");
    return;
  }
  const Run run = run_preloaded("exit_while_allocating");
  INFO("stderr: " << run.err);
  CHECK(run.exit_code == 5);
  CHECK(run.signal == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() <= 4);
}

TEST_CASE("a dump that cannot be created costs one warning and nothing else", "[dump]") {
  for (const char* out : {"/dev/null/x.dump", "/proc/no-such-folder/x.dump"}) {
    INFO(out);
    RunOptions options;
    options.environment["CULPRIT_OUT"] = out;
    const Run run = run_preloaded("leak_one", {}, options);
    INFO(run.err);
    CHECK(run.exit_code == 7);
    CHECK(run.out == "done\n");
    CHECK(line_count(run.err) == 1);
    CHECK(has(run.err, out));
    CHECK(run.dumps.empty());
  }
}

TEST_CASE("a file size limit stops the recording and not the program", "[dump]") {
  for (const rlim_t limit : {rlim_t{0}, rlim_t{4096}, rlim_t{1 << 20}, rlim_t{3 << 20}}) {
    INFO("limit " << limit);
    RunOptions options;
    options.before_exec = [limit] {
      const rlimit bound = {limit, limit};
      setrlimit(RLIMIT_FSIZE, &bound);
    };
    const Run run = run_preloaded("many_live", {"60000", "4"}, options);
    INFO("stderr: " << run.err);
    CHECK(run.signal == 0);
    CHECK(run.exit_code == 0);
    CHECK(run.out == "done\n");
    CHECK(has(run.err, "culprit"));
    if (run.dumps.empty()) continue;
    CHECK(fs::file_size(run.dump()) <= limit);
    // Too small for a header: there is nothing to read.
    if (fs::file_size(run.dump()) < 4096) continue;
    const Report report = read_report(run.dump());
    const std::uint64_t dropped = report.json.at("summary").at("dropped_allocations").get<std::uint64_t>();
    CHECK(dropped > 0);
    CHECK(report.leaked_count() + dropped == 60000);
  }
}

TEST_CASE("the largest size of a dump ends its growth and not the recording", "[dump]") {
  RunOptions options;
  options.environment["CULPRIT_MAX_DUMP"] = "3M";
  const Run run = run_preloaded("many_live", {"60000", "4"}, options);
  INFO("stderr: " << run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "done\n");
  CHECK(has(run.err, "CULPRIT_MAX_DUMP allows (3.00 MiB)"));
  CHECK(fs::file_size(run.dump()) <= 3 << 20);
  const Report report = read_report(run.dump());
  const nlohmann::json& summary = report.json.at("summary");
  const std::uint64_t dropped = summary.at("dropped_allocations").get<std::uint64_t>();
  CHECK(dropped > 0);
  CHECK(report.leaked_count() + dropped == 60000);
  CHECK(has(summary.at("stop_reason").get<std::string>(), "CULPRIT_MAX_DUMP (3.00 MiB)"));
  CHECK(report.json.at("process").at("ended") == "exit");
}

TEST_CASE("a full file system stops the recording and not the program", "[dump]") {
  TemporaryFolder parent;
  const std::string folder = parent.path().string();
  if (std::system(("mount -t tmpfs -o size=3m,mode=777 culprit-test " + folder + " 2>/dev/null").c_str()) != 0) {
    WARN("skipped: no right to mount a small tmpfs");
    return;
  }
  {
    RunOptions options;
    options.environment["CULPRIT_OUT"] = folder + "/full.dump";
    const Run run = run_preloaded("many_live", {"100000", "4"}, options);
    INFO("stderr: " << run.err);
    CHECK(run.signal == 0);
    CHECK(run.exit_code == 0);
    CHECK(run.out == "done\n");
    // One warning when the disk was full, one line at exit.
    CHECK(line_count(run.err) == 2);
    const Report report = read_report(folder + "/full.dump");
    const std::uint64_t dropped = report.json.at("summary").at("dropped_allocations").get<std::uint64_t>();
    CHECK(dropped > 0);
    CHECK(report.leaked_count() > 0);
    CHECK(report.leaked_count() + dropped == 100000);
  }
  CHECK(std::system(("umount " + folder).c_str()) == 0);
}

TEST_CASE("an existing file is never overwritten or followed", "[dump]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  const fs::path out = options.folder->path() / "fixed.dump";
  const fs::path victim = options.folder->path() / "victim.txt";
  std::ofstream(victim) << "mine";
  options.environment["CULPRIT_OUT"] = out.string();

  SECTION("a file: the dump gets a numbered name") {
    std::ofstream(out) << "old";
    const Run run = run_preloaded("leak_one", {}, options);
    CHECK(run.exit_code == 7);
    REQUIRE(run.dumps.size() == 2);
    CHECK(fs::file_size(out) == 3);
    const fs::path other = run.dumps[0] == out ? run.dumps[1] : run.dumps[0];
    CHECK(read_report(other).leaked_bytes() == 11001);
  }
  SECTION("a symbolic link: what it points to is left alone") {
    fs::create_symlink(victim, out);
    const Run run = run_preloaded("leak_one", {}, options);
    CHECK(run.exit_code == 7);
    CHECK(fs::file_size(victim) == 4);
    CHECK(fs::is_symlink(out));
  }
  SECTION("a dangling link: nothing is created through it") {
    const fs::path target = options.folder->path() / "never";
    fs::create_symlink(target, out);
    const Run run = run_preloaded("leak_one", {}, options);
    CHECK(run.exit_code == 7);
    CHECK_FALSE(fs::exists(target));
  }
}

TEST_CASE("a dump is readable by its owner only", "[dump]") {
  const Run run = run_preloaded("leak_one");
  struct stat status = {};
  REQUIRE(stat(run.dump().c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
}

TEST_CASE("a program that closes and reuses all descriptors keeps its files intact", "[dump]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver needs its own descriptors");
    return;
  }
  TemporaryFolder files;
  const Run run = run_preloaded("close_descriptors", {files.path().string()});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  const std::uint64_t dropped = report.json.at("summary").at("dropped_allocations").get<std::uint64_t>();
  CHECK(report.leaked_count() + dropped == 100001);
  CHECK(report.leaked_count() >= 1);
}

TEST_CASE("a dump grows with live allocations and distinct stacks only", "[dump]") {
  const std::uint64_t count = on_gpu() ? 20000 : 200000;
  const std::uint64_t stacks = 1000;
  const Run few = run_preloaded("many_live", {"1", "1"});
  const Run many = run_preloaded("many_live", {std::to_string(count), std::to_string(stacks)});
  REQUIRE(few.exit_code == 0);
  REQUIRE(many.exit_code == 0);
  const std::uint64_t fixed = fs::file_size(few.dump());
  CHECK(fixed < 2u << 20);
  constexpr std::uint64_t kFrames = 64;
  CHECK(fs::file_size(many.dump()) <= (2u << 20) + count * 128 + stacks * (192 + 8 * kFrames));
  const Report report = read_report(many.dump());
  CHECK(report.leaked_count() == count);
  CHECK(report.leaked_bytes() == count * 11001);
  CHECK(report.leaks.size() == stacks);
  CHECK(report.json.at("summary").at("dropped") == 0);

  // Events that leave nothing behind use no space.
  const Run churn = run_preloaded("address_reuse", {"2", on_gpu() ? "500" : "50000"});
  CHECK(fs::file_size(churn.dump()) < 2u << 20);
}

}  // namespace culprit::test
