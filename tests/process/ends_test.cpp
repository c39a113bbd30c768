// How a program ended, as its report says: with the library preloaded, where only what the process itself did is known,
// and below `culprit run`, which knows how its own child ended.
#include <signal.h>

#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// The facts that a report has when the library is preloaded.
enum class Seen {
  kExit,           // the exit code, and globals were searched
  kExitNoSearch,   // the exit code
  kUnknown,        // that the process has ended
  kUnknownSearch,  // likewise, and globals were searched
};

struct Way {
  const char* how;  // the argument of end_how
  int code;         // -1: ended by the signal
  int signal;
  Seen seen;
  const char* cause = "";  // empty: held where globals were searched, else never-freed
};

const Way kWays[] = {
    {"return", 9, 0, Seen::kExit},
    {"exit", 9, 0, Seen::kExit},
    {"exit large", 9, 0, Seen::kExit},
    {"exit again", 9, 0, Seen::kExit},
    {"exit _exit", 9, 0, Seen::kExit},
    {"exit raw", 9, 0, Seen::kUnknownSearch},
    {"exit kill", -1, SIGKILL, Seen::kUnknownSearch},
    {"thread", 9, 0, Seen::kExit},
    {"vfork", 9, 0, Seen::kExit},
    {"abort jump", 9, 0, Seen::kExit},
    {"handler exit", 9, 0, Seen::kExit},
    {"handler _exit", 9, 0, Seen::kExitNoSearch},
    {"_exit", 9, 0, Seen::kExitNoSearch},
    {"_Exit", 9, 0, Seen::kExitNoSearch},
    {"quick_exit", 9, 0, Seen::kExit},
    {"exit_group", 9, 0, Seen::kUnknown},
    {"last thread", 9, 0, Seen::kUnknown},
    {"exec", 9, 0, Seen::kUnknown},
    {"kill", -1, SIGKILL, Seen::kUnknown},
    {"term", -1, SIGTERM, Seen::kUnknown},
    {"abort", -1, SIGABRT, Seen::kUnknown},
    {"segv", -1, SIGSEGV, Seen::kUnknown},
    {"terminate", -1, SIGABRT, Seen::kUnknown, "exception"},
};

// Threads of NVIDIA's driver go on when all threads of the program have ended, so that such a process never ends.
bool driver_has_threads() { return on_gpu(); }

std::string name_of(int signal) {
  return signal == SIGKILL ? "SIGKILL" : signal == SIGTERM ? "SIGTERM" : signal == SIGABRT ? "SIGABRT" : "SIGSEGV";
}

bool is_exit(Seen seen) { return seen == Seen::kExit || seen == Seen::kExitNoSearch; }
bool is_searched(Seen seen) { return seen == Seen::kExit || seen == Seen::kUnknownSearch; }

std::string cause_of(const Way& way) {
  if (way.cause[0] != '\0') return way.cause;
  return is_searched(way.seen) ? "held" : "never-freed";
}

// Whether the memory is called leaked: the program had the time to free it, or its cause is proven.
bool is_leaked(const Way& way, bool by_exit) { return by_exit || way.cause[0] != '\0'; }

// The first lines of the report as text.
void check_text(const Way& way, const Run& run) {
  const std::string text = run_culprit({"report", run.dump().string()}).out;
  INFO(text);
  CHECK(has(text, is_exit(way.seen) ? " · exit 9 · GPU 0" : " · end unknown · GPU 0"));
  CHECK(has(text, is_leaked(way, is_exit(way.seen)) ? "\nLEAKED 10.7 KiB" : "\nLIVE AT THE END 10.7 KiB"));
  CHECK(has(text, "\nNOT SEARCHED: ") != is_searched(way.seen));
}

void check_preloaded(const Way& way, bool as_text) {
  const Run run = run_preloaded("end_how", {way.how});
  CHECK(run.exit_code == way.code);
  CHECK(run.signal == way.signal);
  const Report report = read_report(run.dump());
  const nlohmann::json& process = report.json.at("process");
  CHECK(process.at("ended") == (is_exit(way.seen) ? "exit" : "unknown"));
  CHECK(process.at("has_ended") == true);
  CHECK(process.at("exit_status") == (is_exit(way.seen) ? nlohmann::json(way.code) : nlohmann::json()));
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].bytes == 11001);
  CHECK(report.leaks[0].count == 1);
  CHECK(report.leaks[0].has_frame("leak_here"));
  CHECK(report.leaks[0].cause == cause_of(way));
  CHECK(report.json.at("holder_search").at("state") == (is_searched(way.seen) ? "done" : "not-run"));
  CHECK(report.json.at("summary").at("not_searched").is_null() == is_searched(way.seen));
  if (as_text) check_text(way, run);
}

void check_run(const Way& way) {
  const Run run = culprit_run({}, {"end_how", way.how});
  INFO(run.err);
  CHECK(run.signal == way.signal);
  CHECK(run.exit_code == way.code);
  CHECK(has(run.err, way.signal != 0 ? " · killed by " + name_of(way.signal) + " · GPU 0" : " · exit 9 · GPU 0"));
  CHECK(has(run.err, is_leaked(way, way.signal == 0) ? "\nLEAKED 10.7 KiB" : "\nLIVE WHEN KILLED 10.7 KiB"));
  CHECK(has(run.err, "\nNOT SEARCHED: ") != is_searched(way.seen));
}

}  // namespace

TEST_CASE("a report has the end of its process as far as that is proven", "[ends]") {
  std::set<Seen> as_text;  // one way of each kind is enough
  for (const Way& way : kWays) {
    INFO(way.how);
    if (driver_has_threads() && way.how == std::string("last thread")) continue;
    check_preloaded(way, as_text.insert(way.seen).second);
    check_run(way);
  }
}

TEST_CASE("handlers of quick_exit that free are waited for", "[ends]") {
  const Run run = run_preloaded("end_how", {"quick_exit free"});
  CHECK(run.exit_code == 9);
  CHECK(run.err.empty());
  const Report report = read_report(run.dump());
  CHECK(report.leaks.empty());
  CHECK(report.json.at("process").at("exit_status") == 9);
  CHECK(report.json.at("summary").at("not_searched").is_null());
}

TEST_CASE("a process below the command's own is not said to be killed", "[ends]") {
  const std::string program = subject_path("end_how").string();
  for (const char* how : {"kill", "exit_group"}) {
    INFO(how);
    const Run run = culprit_run({}, {"/bin/sh", "-c", program + " " + how + "; exit 5"});
    INFO(run.err);
    CHECK(run.exit_code == 5);
    CHECK(has(run.err, " · end unknown"));
    CHECK(has(run.err, "\nLIVE AT THE END 10.7 KiB"));
    CHECK(has(run.err, "note    it is not known how the process ended: "));
  }
}

TEST_CASE("the dump of a program that exec replaced does not get the end of the next one", "[ends]") {
  const std::string program = subject_path("end_how").string();
  const Run run = culprit_run({"--format", "json"}, {"end_how", "exec self"});
  INFO(run.err);
  CHECK(run.exit_code == 9);
  const nlohmann::json reports = nlohmann::json::parse(run.err).at("reports");
  REQUIRE(reports.size() == 2);
  const nlohmann::json& first = reports[0].at("process");
  const nlohmann::json& second = reports[1].at("process");
  CHECK(first.at("pid") == second.at("pid"));
  CHECK(first.at("ended") == "unknown");
  CHECK(has(reports[0].at("notes").dump(), "replaced itself by another program (exec)"));
  CHECK(second.at("ended") == "exit");
  CHECK(second.at("exit_status") == 9);
}

namespace {

std::string text_of(const nlohmann::json& value) { return value.get<std::string>(); }

void check_names(const Report& report, const char* how) {
  const nlohmann::json& process = report.json.at("process");
  CHECK(has(text_of(process.at("exe")), "/main_ended"));
  REQUIRE(process.at("command").size() == 2);
  CHECK(process.at("command")[1] == how);
  CHECK_FALSE(text_of(process.at("working_directory")).empty());
}

}  // namespace

TEST_CASE("a process goes on, and ends, without its main thread", "[ends]") {
  if (driver_has_threads()) {
    WARN("skipped: a process with NVIDIA's driver does not end with its last own thread");
    return;
  }
  for (const char* how : {"before", "after", "last"}) {
    INFO(how);
    const Run run = run_preloaded("main_ended", {how});
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(has(run.err, "2 allocations"));
    const Report report = read_report(run.dump());
    check_names(report, how);
    CHECK(report.json.at("process").at("ended") == "exit");
    CHECK(report.json.at("process").at("exit_status") == 0);
    CHECK(report.json.at("holder_search").at("state") == "done");
    CHECK(report.json.at("summary").at("complete") == true);
    REQUIRE(report.leaks.size() == 2);
    for (const Group& group : report.leaks) {
      CHECK(group.count == 1);
      CHECK(group.has_frame(group.bytes == 11001 ? "leak_here" : "leak_in_destructor"));
      CHECK(group.json.at("threads")[0].at("name") == "goes-on");
      CHECK(group.cause == (group.bytes == 11001 ? "held" : "never-freed"));
    }
  }
}

TEST_CASE("a process whose main thread has ended is running", "[ends]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  bool looked = false;
  options.when_ready = [&](pid_t pid) {
    const Report report = read_report(std::filesystem::directory_iterator(options.folder->path())->path());
    CHECK(report.json.at("process").at("ended") == "running");
    check_names(report, "live");
    const Finished top = run_culprit({"top", std::to_string(pid)});
    INFO(top.out << top.err);
    CHECK(top.exit_code == 0);
    CHECK(has(top.out, "main_ended live [" + std::to_string(pid) + "] · running"));
    CHECK(has(top.out, "10.7 KiB   1x       cudaMalloc  main_ended.cpp:"));
    looked = true;
  };
  const Run run = run_preloaded("main_ended", {"live"}, options);
  CHECK(looked);
  CHECK(run.exit_code == 0);
}

}  // namespace culprit::test
