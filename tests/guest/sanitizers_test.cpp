// Situation 1: programs built with a sanitizer, of both compilers, with either runtime; and under valgrind.
#include <sys/personality.h>

#include <regex>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

Situation sanitized(const std::string& program, bool cuda) {
  Situation situation{program, {}};
  if (cuda) situation.arguments.push_back("cuda");
  situation.fake_driver_only = cuda;  // NVIDIA's driver maps memory where they have their shadow
  // The runtimes of gcc 12 and clang 14 cannot place their shadow where addresses have more than 28 random bits.
  situation.before_exec = [] { personality(ADDR_NO_RANDOMIZE); };
  situation.environment["UBSAN_OPTIONS"] = "halt_on_error=1";
  return situation;
}

void check_sanitized(const std::string& program) {
  if (!guest_built(program, "this compiler and this runtime")) return;
  if (on_gpu() && contains(program, "_shared")) return not_run_here("the runtime does not travel");
  for (const bool cuda : {false, true}) {
    Situation situation = sanitized(program, cuda);
    // Its runtime refuses to start after another preloaded library without this option.
    if (contains(program, "_shared")) situation.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0";
    const BothWays runs = both_ways(situation);
    if (!runs.ran) continue;
    CHECK(runs.alone.exit_code == 7);
    if (cuda) check_leaks_or_dropped(runs, 1);
  }
}

}  // namespace

TEST_CASE("gcc's address sanitizer, shared runtime", "[sanitizers]") {
  check_sanitized("sanitized_gcc_address_undefined_shared");
}
TEST_CASE("gcc's address sanitizer, static runtime", "[sanitizers]") {
  check_sanitized("sanitized_gcc_address_undefined_static");
}
TEST_CASE("gcc's thread sanitizer, shared runtime", "[sanitizers]") { check_sanitized("sanitized_gcc_thread_shared"); }
TEST_CASE("gcc's thread sanitizer, static runtime", "[sanitizers]") { check_sanitized("sanitized_gcc_thread_static"); }
TEST_CASE("clang's address sanitizer, static runtime", "[sanitizers]") {
  check_sanitized("sanitized_clang_address_undefined_static");
}
TEST_CASE("clang's address sanitizer, shared runtime", "[sanitizers]") {
  check_sanitized("sanitized_clang_address_shared");
}
TEST_CASE("clang's thread sanitizer", "[sanitizers]") { check_sanitized("sanitized_clang_thread_static"); }
TEST_CASE("clang's memory sanitizer", "[sanitizers]") { check_sanitized("sanitized_clang_memory_static"); }

TEST_CASE("the address sanitizer's runtime preloaded in front of the library and behind it", "[sanitizers]") {
  const char* library = CULPRIT_GCC_LIBASAN;
  if (on_gpu()) return not_run_here("the runtime does not travel");
  if (!guest_built("sanitized_gcc_address_undefined_shared", "gcc's libasan") || !fs::exists(library)) return;
  for (const bool in_front : {true, false}) {
    for (const bool cuda : {false, true}) {
      for (const char* program : {"sanitized_gcc_address_undefined_shared", "vfork_spawn"}) {
        Situation situation = sanitized(program, cuda);
        if (std::string(program) == "vfork_spawn" && !cuda) situation.arguments.clear();
        (in_front ? situation.preload_before : situation.preload_after).push_back(library);
        if (!in_front) situation.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0";
        INFO((in_front ? "in front" : "behind"));
        both_ways(situation);
      }
    }
  }
}

TEST_CASE("valgrind finds as many errors as without the library", "[sanitizers]") {
  if (!fs::exists("/usr/bin/valgrind")) return not_run_here("there is no valgrind");
  const std::vector<std::vector<std::string>> guests = {
      {"endless", "stacks", "50"}, {"no_cuda_signal", "0"}, {"small_threads", "52"}};
  for (const std::vector<std::string>& guest : guests) {
    Situation situation{"/usr/bin/valgrind",
                        {"-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"}};
    situation.arguments.push_back(guest_path(guest[0]).string());
    situation.arguments.insert(situation.arguments.end(), guest.begin() + 1, guest.end());
    situation.fake_driver_only = guest[0] != "no_cuda_signal";
    // valgrind's output about the guest itself is the same except for pids, addresses and thread numbers.
    situation.comparable = [](const std::string& text) {
      return std::regex_replace(text, std::regex("==[0-9]+==|0x[0-9A-Fa-f]+"), "*");
    };
    both_ways(situation);
  }
}

TEST_CASE("the other tools of valgrind run a program to its end", "[sanitizers]") {
  if (!fs::exists("/usr/bin/valgrind")) return not_run_here("there is no valgrind");
  struct Tool {
    std::string name;
    std::string option;
    bool counts;  // says how much the program did
  };
  const Tool tools[] = {{"drd", "--check-stack-var=no", false},
                        {"helgrind", "--history-level=none", false},
                        {"cachegrind", "--cachegrind-out-file=/dev/null", false},
                        {"callgrind", "--callgrind-out-file=/dev/null", false},
                        {"massif", "--massif-out-file=/dev/null", false},
                        {"dhat", "--dhat-out-file=/dev/null", false},
                        {"exp-bbv", "--bb-out-file=/dev/null", true},
                        {"lackey", "--basic-counts=no", true},
                        {"none", "--sanity-level=1", false}};
  for (const Tool& tool : tools) {
    if (!fs::exists("/usr/libexec/valgrind/" + tool.name + "-amd64-linux")) {
      left_out(tool.name, "this valgrind lacks it");
      continue;
    }
    INFO(tool.name);
    // A thread, throws and leaks.
    Situation situation{"/usr/bin/valgrind",
                        {"-q", "--tool=" + tool.name, tool.option, guest_path("kernel_modes").string(), "usual"}};
    situation.fake_driver_only = true;
    situation.comparable = [&tool](const std::string& text) {
      return tool.counts ? "" : std::regex_replace(text, std::regex("==[0-9]+==|--[0-9]+--|0x[0-9A-Fa-f]+"), "*");
    };
    const BothWays runs = both_ways(situation);
    CHECK(runs.alone.exit_code == runs.under.exit_code);
    CHECK_FALSE(has(runs.under.err, "libculprit"));
  }
}

}  // namespace culprit::test
