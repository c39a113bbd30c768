// Memory to which no pointer is left at exit is lost. Memory that anything still refers to is never called so.
#include <filesystem>
#include <functional>
#include <set>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

constexpr std::uint64_t kBytes = 11001;

Report report_after(const std::string& subject, const std::string& how, RunOptions options = {},
                    const std::vector<std::string>& more = {}) {
  options.environment["CULPRIT_QUIET"] = "1";
  options.environment.emplace("CULPRIT_SCAN", "lost");
  std::vector<std::string> words = {how};
  words.insert(words.end(), more.begin(), more.end());
  const Run run = run_preloaded(subject, words, options);
  INFO(subject << " " << how << ": " << run.err);
  REQUIRE(run.exit_code == 0);
  return read_report(run.dump());
}

std::string search_of(const Report& report) { return report.json.at("holder_search").at("lost"); }

// Lost allocations, and how many of them only memory that is lost too refers to.
struct LostSum {
  std::uint64_t count = 0;
  std::uint64_t indirectly = 0;
  bool operator==(const LostSum& other) const { return count == other.count && indirectly == other.indirectly; }
};
std::ostream& operator<<(std::ostream& to, const LostSum& sum) { return to << sum.count << ", " << sum.indirectly; }

LostSum lost_in(const Report& report) {
  LostSum sum;
  for (const Group& leak : report.leaks) {
    for (const nlohmann::json& evidence : leak.json.at("evidence")) {
      if (evidence.at("type") != "lost") continue;
      CHECK(evidence.at("count") == leak.count);
      CHECK(leak.cause == "lost");
      sum.count += leak.count;
      sum.indirectly += evidence.at("indirectly").get<std::uint64_t>();
    }
  }
  return sum;
}

struct Way {
  const char* how;
  LostSum lost;
};

const std::vector<Way> kLosses = {
    {"local", {1, 0}},        {"scope", {2, 0}},          {"overwritten", {4, 0}},   {"cleared", {40, 0}},
    {"erased", {1, 0}},       {"deleted", {1, 0}},        {"dangling", {1, 0}},      {"large", {2, 0}},
    {"list", {20, 0}},        {"table", {4, 3}},          {"leaked-owner", {1, 0}},  {"circle", {3, 2}},
    {"self", {1, 0}},         {"managed", {1, 0}},        {"pinned", {1, 0}},        {"pool", {1, 0}},
    {"pinned-table", {2, 1}}, {"before", {1, 0}},         {"beside-pipe", {1, 0}},   {"left-on-stack", {1, 0}},
    {"large-table", {2, 1}},  {"numbers", {1, 0}},        {"driver-record", {1, 0}}, {"inner-record", {1, 0}},
    {"range-record", {1, 0}}, {"segment-record", {1, 0}}, {"pool-record", {1, 0}},   {"linked-record", {1, 0}},
};

// Places of a pointer that a complete search finds, and how it went otherwise.
const std::vector<std::pair<std::string, std::vector<std::string>>> kPlaces = {
    {"done",
     {"global",
      "static",
      "middle",
      "end",
      "one-based",
      "tagged",
      "low-tag",
      "number-lisp",
      "number-ocaml",
      "number-guile",
      "number-scheme",
      "number-erlang",
      "number-lua",
      "number-python",
      "number-of-chunk",
      "tagged-in-large",
      "tagged-middle",
      "tagged-packed",
      "like-driver-record",
      "like-range-record",
      "like-segment-record",
      "like-pool-record",
      "like-linked-record",
      "packed",
      "thread-local",
      "heap",
      "far-inside",
      "end-of-chunk",
      "tagged-chunk",
      "base",
      "list",
      "string",
      "long-string",
      "deque",
      "variant",
      "function",
      "late-static",
      "late-shared",
      "arena",
      "thread-heap",
      "environ",
      "on_exit",
      "cleared-at-exit",
      "pthread-key",
      "tsearch",
      "hsearch",
      "cookie",
      "obstack",
      "mmap",
      "protected",
      "shared",
      "shm",
      "file",
      "page-border",
      "heap-border",
      "mapping-border",
      "read-only-file",
      "pinned",
      "managed",
      "registered",
      "device",
      "device-large",
      "device-weights",
      "device-unaligned",
      "device-chain",
      "heap-of-device",
      "pool",
      "local-at-exit",
      "main-frame",
      "alloca-at-exit",
      "context-mapped",
      "context-malloc",
      "end-of-large-chunk"}},
    {"unreadable", {"no-access"}},
    {"kernel-holds",
     {"epoll", "pipe", "sockets", "timer-value", "queued-signal", "mq", "mq-notify", "msg", "detached", "eventfd",
      "memfd"}},
    {"threads", {"thread"}},
};

void check_not_lost(const std::string& build) {
  for (const auto& [search, places] : kPlaces) {
    for (const std::string& how : places) {
      if (on_gpu() && how == "thread") continue;  // the thread allocates after NVIDIA's driver is ready, too late

      INFO(build << " " << how);
      const Report report = report_after(build, how);
      CHECK(report.leaked_bytes() >= kBytes);
      CHECK(lost_in(report) == LostSum{});
      // Otherwise the test would prove nothing.
      CHECK(search_of(report) == search);
    }
  }
}

// NVIDIA's driver has copies of each pointer, and about once in 400 runs a stale word leads to one.
Report report_of_loss(const std::string& subject, const std::string& how, const LostSum& lost) {
  Report report = report_after(subject, how);
  return on_gpu() && !(lost_in(report) == lost) ? report_after(subject, how) : report;
}

}  // namespace

TEST_CASE("memory whose last pointer went is lost", "[lost]") {
  std::vector<std::string> builds = builds_of("lost");
  if (!on_gpu()) builds.push_back("lost_static");
  for (const std::string& build : builds) {
    for (const Way& way : kLosses) {
      INFO(build << " " << way.how);
      const Report report = report_of_loss(build, way.how, way.lost);
      CHECK(report.leaked_count() == way.lost.count);
      CHECK(search_of(report) == "done");
      CHECK(lost_in(report) == way.lost);
    }
  }
}

TEST_CASE("an address that the loader has of a module keeps no memory before the module", "[lost]") {
  const std::string module = subject_path("large_module.so").string();
  for (const auto& [how, lost] :
       std::vector<std::pair<std::string, LostSum>>{{"module", {1, 0}}, {"module-kept", {}}}) {
    INFO(how);
    const Report report = report_after("lost_neighbours", how, {}, {module});
    CHECK(search_of(report) == "done");
    CHECK(report.leaked_count() == 1);
    CHECK(lost_in(report) == lost);
  }
}

// NVIDIA's driver decides where pinned memory lies.
TEST_CASE("an address that the loader has of a module keeps no pinned memory before the module", "[lost]") {
  if (on_gpu()) return;
  const Report report = report_after("lost_neighbours", "pinned", {}, {subject_path("large_module.so").string()});
  CHECK(search_of(report) == "done");
  CHECK(lost_in(report) == LostSum{2, 1});
}

TEST_CASE("memory is not lost while anything refers to it", "[lost]") {
  for (const std::string& build : builds_of("not_lost")) check_not_lost(build);
}

TEST_CASE("what memory that the kernel cannot read holds is not lost", "[lost]") {
  RunOptions options;
  options.environment["CULPRIT_SCAN"] = "lost";
  const Run run = run_preloaded("not_lost_O2", {"secret"}, options);
  if (run.exit_code == 77) {
    WARN("skipped: no memfd_secret() here");
    return;
  }
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 1);
  CHECK(lost_in(report) == LostSum{});
  CHECK(search_of(report) == "unreadable");
}

TEST_CASE("what the driver or another process may know is not lost", "[lost]") {
  const std::vector<std::pair<std::string, std::string>> ways = {{"graph", "driver-objects"},
                                                                 {"texture", "driver-objects"},
                                                                 {"user-object", "driver-objects"},
                                                                 {"array", "driver-objects"},
                                                                 {"ipc", "shared"},
                                                                 {"exit-in-thread", "threads"}};
  for (const auto& [how, search] : ways) {
    INFO(how);
    const Report report = report_after("not_lost_driver", how);
    CHECK(lost_in(report) == LostSum{});
    CHECK(search_of(report) == search);
  }
}

TEST_CASE("memory is lost after kernels ran, unless variables of device code refer to it", "[lost]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("image");
  for (const char* how : {"lost", "library-unused", "image-gone-lost", "many-lost", "unloaded"}) {
    INFO(how);
    const Report report = report_of_loss("device_code", how, {1, 0});
    CHECK(search_of(report) == "done");
    CHECK(lost_in(report) == LostSum{1, 0});
  }
  for (const char* how :
       {"variable", "constant", "managed", "second", "library", "library-constant", "image-gone", "many", "file"}) {
    INFO(how);
    const Report report = report_after("device_code", how, {}, {file});
    CHECK(report.leaked_count() == 1);
    CHECK(search_of(report) == "done");
    CHECK(lost_in(report) == LostSum{});
  }
}

TEST_CASE("code whose variables are not all known forbids the search", "[lost]") {
  const Report report = report_after("device_code", "heap");
  CHECK(search_of(report) == "device-code");
  CHECK(lost_in(report) == LostSum{});
}

TEST_CASE("thread-local objects with destructors are searched before exit() destroys them", "[lost]") {
  const Report report = report_after("not_lost_thread_local", "");
  CHECK(lost_in(report) == LostSum{});
  CHECK(search_of(report) == "done");
  CHECK(lost_in(report_after("not_lost_thread_local", "cleared")) == LostSum{1, 0});
}

TEST_CASE("the search runs at quick_exit, beside a fork child and beside threads of the driver", "[lost]") {
  CHECK(lost_in(report_after("not_lost_driver", "quick-exit")) == LostSum{1, 0});
  CHECK(lost_in(report_after("not_lost_driver", "quick-exit-clears")) == LostSum{});
  CHECK(lost_in(report_after("not_lost_driver", "child")) == LostSum{1, 0});
  RunOptions threads;
  threads.environment["SIMCUDA_THREADS"] = "3";
  CHECK(lost_in(report_after("lost_O2", "local", threads)) == LostSum{1, 0});
  CHECK(lost_in(report_after("not_lost_O2", "heap", threads)) == LostSum{});
}

TEST_CASE("no search for lost memory runs unless it was asked for", "[lost]") {
  for (const char* scan : {"off", "exit"}) {
    RunOptions other;
    other.environment["CULPRIT_SCAN"] = scan;
    const Report report = report_after("lost_O2", "local", other);
    CHECK(report.leaks.at(0).cause == "never-freed");
    CHECK(search_of(report) == "not-run");
  }
}

TEST_CASE("the text says that memory is lost, or why that is not known", "[lost]") {
  const auto text_after = [](const std::string& subject, const std::string& how) {
    RunOptions options;
    options.environment["CULPRIT_QUIET"] = "1";
    options.environment["CULPRIT_SCAN"] = "lost";
    const Run run = run_preloaded(subject, {how}, options);
    return run_culprit({"report", run.dump().string()}).out;
  };
  const std::string lost = text_after("lost_O0", "local");
  CHECK(has(lost, "LOST"));
  CHECK(has(lost, "lost       no pointer to it was left at exit\n"));
  CHECK(has(text_after("lost_O0", "pinned-table"), "lost       only memory that is lost too has a pointer to it\n"));
  const std::string unknown = text_after("device_code", "heap");
  CHECK(has(unknown, "NEVER FREED"));
  CHECK(has(unknown, "lost    not known: kernels ran, and what they keep on the device is not all known\n"));
}

}  // namespace culprit::test
