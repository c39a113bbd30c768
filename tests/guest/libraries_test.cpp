// Situation 1 and similar ones: other libraries in the process, and other loaders.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"
#include "tests/support/text.h"

namespace culprit::test {

TEST_CASE("hooks call no function that a program may have replaced", "[libraries]") {
  Situation situation{"interposed_libc", {}};
  situation.fake_driver_only = true;  // NVIDIA's calls libc itself
  both_ways(situation);
}

TEST_CASE("a program whose malloc calls CUDA is not entered from within", "[libraries]") {
  Situation situation{"own_malloc", {}};
  situation.fake_driver_only = true;
  both_ways(situation);
}

TEST_CASE("CUDA used in another namespace or by a library that prefers its own names works, and the report says so",
          "[libraries]") {
  for (const char* how : {"dlmopen", "deepbind"}) {
    const BothWays runs = both_ways({"other_namespace", {how, guest_path("namespace_plugin.so").string()}});
    if (!runs.ran) continue;
    INFO(how << ": " << runs.under.err);
    // None of its calls was recorded, and the line at exit and the report's exit code say so.
    CHECK(has(runs.under.err, "calls the CUDA driver past culprit"));
    if (runs.under.dumps.empty()) continue;
    ProgramOptions options;
    options.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}};
    CHECK(run_program({culprit_path().string(), "report", runs.under.dump().string()}, options).exit_code == 4);
  }
}

TEST_CASE("threads that close libraries leave the library all memory that it reads", "[libraries]") {
  const std::string plugin = guest_path("namespace_plugin.so").string();
  check_leaks_or_dropped(both_ways({"unloading", {"walk", plugin}}), 1);
  check_leaks_or_dropped(both_ways({"unloading", {"walk", plugin, "libc"}}), 1);
  const std::string closing = guest_path("closing_plugin.so").string();
  check_leaks_or_dropped(both_ways({"unloading", {"walk", plugin, "deepbind", closing}}), 1);
  const std::string unfinished = guest_path("unfinished_plugin.so").string();
  check_leaks_or_dropped(both_ways({"unloading", {"walk", plugin, "failed", unfinished}}), 1);
  for (int i = 0; i < 5; ++i) {
    Situation situation{"unloading", {"exit", plugin}};
    situation.environment["GUEST_SECONDS"] = "0.1";
    situation.fake_driver_only = true;  // NVIDIA's is shut down while threads use it
    both_ways(situation);
  }
}

TEST_CASE("dladdr finds a function of the driver in the driver", "[dladdr]") {
  const BothWays runs = both_ways({"function_places", {}});
  CHECK(has(runs.alone.out, "dlsym: libcuda.so.1 cuMemFree_v2 begins there"));
}

TEST_CASE("weak references are null where they are null alone", "[weak]") {
  const std::vector<std::string> libraries = {guest_path("weak_plugin.so").string(),
                                              guest_path("weak_plugin_again.so").string(),
                                              guest_path("weak_user.so").string()};
  for (const char* program : {"weak_pie", "weak_pie_now", "weak_fixed", "weak_fixed_now"}) {
    for (const char* how : {"none", "later", "linked", "bound"}) {
      INFO(program << ' ' << how);
      Situation situation{program, {how}};
      situation.arguments.insert(situation.arguments.end(), libraries.begin(), libraries.end());
      const BothWays runs = both_ways(situation);
      CHECK(has(runs.alone.out, "preinit: dlsym"));
      if (has("linked bound", how)) check_leaks_or_dropped(runs, 1);
    }
  }
  const BothWays runs = both_ways({"weak_opened", {libraries.front()}});
  CHECK(has(runs.alone.out, "library: dlsym"));
  Situation at_once{"weak_pie", {"later"}};
  at_once.arguments.insert(at_once.arguments.end(), libraries.begin(), libraries.end());
  at_once.environment["LD_BIND_NOW"] = "1";
  both_ways(at_once);
}

// The loader does not tell for which module it asks.
TEST_CASE("a library opened later takes a driver that another one opened for itself for its own", "[weak]") {
  const std::string plugin = guest_path("weak_plugin.so").string();
  const std::string again = guest_path("weak_plugin_again.so").string();
  for (const bool preload : {false, true}) {
    RunOptions options;
    options.preload = preload;
    const Run run = run_preloaded(guest_path("weak_pie").string(),
                                  {"local", plugin, again, guest_path("weak_user.so").string()}, options);
    INFO(run.out << run.err);
    REQUIRE(run.exit_code == 0);
    const std::string last = run.out.substr(run.out.rfind("library:"));
    CHECK(has(last, "cuInit") == preload);
    CHECK_FALSE(has(last, "cudaFree"));
  }
}

TEST_CASE("a program of musl starts under the library", "[libraries]") {
  if (!guest_built("musl_guest", "musl-gcc")) return;
  Situation situation{"musl_guest", {}};
  situation.fake_driver_only = true;  // NVIDIA's needs glibc
  both_ways(situation);
  situation.arguments = {"cuda"};
  both_ways(situation);
}

}  // namespace culprit::test
