// Memory lost to exceptions: each mode of tests/subjects/exceptions.cpp, with two compilers, unoptimized and optimized,
// with the shared and the static cudart.
#include <csignal>
#include <map>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// The built variants; those of clang++ only if it is installed.
std::vector<std::string> variants() {
  std::vector<std::string> found;
  for (const char* compiler : {"", "clang_"}) {
    for (const char* level : {"O0", "O2"}) {
      for (const char* cudart : {"", "_static"}) {
        const std::string name = std::string("exceptions_") + compiler + level + cudart;
        if (std::filesystem::exists(subject_path(name))) found.push_back(name);
      }
    }
  }
  return found;
}

// The exceptions of all leaks of one size.
struct Left {
  std::uint64_t count = 0;
  std::uint64_t blamed = 0;  // with cause `exception`
  nlohmann::json evidence;   // the last one of type exception, null if none

  // Whether the throw, or the handler, lies in `function`.
  bool is_thrown_at(const std::string& function) const { return begins_with("stack", function); }
  bool is_caught_at(const std::string& function) const { return begins_with("caught_stack", function); }

 private:
  bool begins_with(const char* stack, const std::string& function) const {
    if (evidence.is_null() || evidence.at(stack).is_null()) return false;
    const std::vector<Frame> frames = read_stack(evidence.at(stack));
    return !frames.empty() && has_frame({frames[0]}, function);
  }
};

using Sizes = std::map<std::uint64_t, Left>;

Sizes leaks_by_size(const Report& report) {
  Sizes sizes;
  for (const Group& group : report.leaks) {
    Left& left = sizes[group.bytes / group.count];
    left.count += group.count;
    if (group.cause == "exception") left.blamed += group.count;
    for (const nlohmann::json& one : group.json.at("evidence")) {
      if (one.at("type") == "exception") left.evidence = one;
    }
  }
  return sizes;
}

// Runs a mode in all variants; `check` gets the leaks, and whether the variant is optimized.
template <typename Check>
void for_each_variant(const std::vector<std::string>& arguments, const Check& check, int signal = 0) {
  const std::vector<std::string> all = variants();
  REQUIRE(all.size() >= 4);
  for (const std::string& variant : all) {
    INFO(variant);
    RunOptions options;
    options.environment["CULPRIT_QUIET"] = "1";
    // The programs keep memory that they hand on where the search finds it: HELD would come before the exception.
    options.environment["CULPRIT_SCAN"] = "off";
    const Run run = run_preloaded(variant, arguments, options);
    INFO(run.err);
    if (signal == 0) {
      REQUIRE(run.exit_code == 0);
    } else {
      REQUIRE(run.signal == signal);
    }
    Sizes sizes = leaks_by_size(read_report(run.dump()));
    check(sizes, contains(variant, "O2"));
  }
}

// One size, leaked once by one exception.
void check_blamed(Sizes& sizes, std::uint64_t size, const std::string& type, const std::string& caught_at,
                  std::uint64_t count = 1) {
  INFO(size << " bytes");
  const Left& left = sizes[size];
  CHECK(left.count == count);
  REQUIRE(left.blamed == count);
  CHECK(left.evidence.at("exception") == type);
  CHECK(left.evidence.at("uncaught") == caught_at.empty());
  if (!caught_at.empty()) CHECK(left.is_caught_at(caught_at));
}

void check_innocent(Sizes& sizes, std::uint64_t size, std::uint64_t count = 1) {
  INFO(size << " bytes");
  const Left& left = sizes[size];
  CHECK(left.count == count);
  CHECK(left.blamed == 0);
  CHECK(left.evidence.is_null());
}

const std::string kRuntimeError = "std::runtime_error";
const std::string kLogicError = "std::logic_error";

}  // namespace

TEST_CASE("exception: an owner that was unwound, with type and text and places", "[exceptions]") {
  for_each_variant({"callee"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 1001, kRuntimeError, "callee");
    const Left& left = sizes[1001];
    CHECK(left.evidence.at("what") == "residual is NaN");
    CHECK(left.is_thrown_at("check_residual"));
    CHECK(left.evidence.at("rethrown") == false);
    CHECK(sizes.size() == 1);
  });
}

TEST_CASE("exception: allocation, throw and handler in one function", "[exceptions]") {
  for_each_variant({"same_function"},
                   [](Sizes& sizes, bool) { check_blamed(sizes, 1101, kLogicError, "same_function"); });
}

TEST_CASE("exception: a local with a destructor after the allocation, in the same function", "[exceptions]") {
  for_each_variant({"same_function_destructor"},
                   [](Sizes& sizes, bool) { check_blamed(sizes, 1201, kLogicError, "same_function_destructor"); });
}

TEST_CASE("exception: allocation and handler in one function and the throw below", "[exceptions]") {
  for_each_variant({"same_function_call"},
                   [](Sizes& sizes, bool) { check_blamed(sizes, 1251, kRuntimeError, "same_function_call"); });
}

TEST_CASE("exception: memory from before the try block is not its", "[exceptions]") {
  for_each_variant({"before_try"}, [](Sizes& sizes, bool) {
    CHECK(sizes[1301].blamed == 0);
    CHECK(sizes[1301].evidence.is_null());
    check_innocent(sizes, 1302);
  });
}

TEST_CASE("exception: two try blocks are distinguished, and where they cannot be the report says so", "[exceptions]") {
  for_each_variant({"two_blocks"}, [](Sizes& sizes, bool optimized) {
    if (optimized && sizes[1401].blamed != 0) {
      CHECK(sizes[1401].evidence.at("ambiguous") == true);
    } else {
      check_innocent(sizes, 1401);
    }
  });
}

TEST_CASE("exception: past an inner handler of another type", "[exceptions]") {
  for_each_variant({"nested_blocks"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 1501, kRuntimeError, "nested_blocks");
    check_blamed(sizes, 1502, kRuntimeError, "nested_blocks");
  });
}

TEST_CASE("exception: caught by an inner block it does not touch the outer one", "[exceptions]") {
  for_each_variant({"inner_block"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 1552, kRuntimeError, "inner_block");
    CHECK(sizes[1552].evidence.at("what") == "for the inner handler");
    check_blamed(sizes, 1551, kRuntimeError, "inner_block");
    CHECK(sizes[1551].evidence.at("what") == "residual is NaN");
  });
}

TEST_CASE("exception: through recursion", "[exceptions]") {
  for_each_variant({"recursion"}, [](Sizes& sizes, bool) { check_blamed(sizes, 1601, kRuntimeError, "recursion", 4); });
  for_each_variant({"recursion_half_way"},
                   [](Sizes& sizes, bool) { check_blamed(sizes, 1651, kRuntimeError, "recurse_and_catch", 2); });
}

TEST_CASE("exception: rethrown, the first throw is shown", "[exceptions]") {
  for_each_variant({"rethrow"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 1701, kRuntimeError, "rethrow");
    CHECK(sizes[1701].evidence.at("rethrown") == true);
    CHECK(sizes[1701].is_thrown_at("check_residual"));
  });
}

TEST_CASE("exception: nested in another one", "[exceptions]") {
  for_each_variant({"nested_exception"}, [](Sizes& sizes, bool) {
    CHECK(sizes[1751].blamed == 1);
    CHECK(sizes[1751].is_caught_at("nested_exception"));
    CHECK(sizes[1751].evidence.at("what") == "while solving");
  });
}

TEST_CASE("exception: carried to another thread each thread has its own losses", "[exceptions]") {
  for_each_variant({"moved_exception"}, [](Sizes& sizes, bool) {
    CHECK(sizes[1801].blamed == 1);
    CHECK(sizes[1801].evidence.at("rethrown") == false);
    CHECK(sizes[1801].is_thrown_at("check_residual"));
    check_blamed(sizes, 1802, kRuntimeError, "moved_exception");
    CHECK(sizes[1802].evidence.at("rethrown") == true);
  });
}

TEST_CASE("exception: caught inside a callee it takes no memory of the callers", "[exceptions]") {
  for_each_variant({"caught_in_callee"}, [](Sizes& sizes, bool) { check_innocent(sizes, 1901); });
}

TEST_CASE("exception: freed while unwinding or later leaves no mark", "[exceptions]") {
  for_each_variant({"freed_by_guard"}, [](Sizes& sizes, bool) {
    check_innocent(sizes, 2002);
    CHECK(sizes.size() == 1);
  });
  for_each_variant({"freed_later"}, [](Sizes& sizes, bool) { CHECK(sizes.empty()); });
}

TEST_CASE("exception: frees of outer frames on the way do not hide memory that inner ones left", "[exceptions]") {
  for_each_variant({"freed_on_the_way"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 2201, kRuntimeError, "freed_on_the_way", 3);
    CHECK(sizes.size() == 1);
  });
}

TEST_CASE("exception: memory that earlier calls of the same function handed on is not blamed on it", "[exceptions]") {
  for (const char* mode : {"earlier_calls", "earlier_calls_proven", "earlier_calls_same_place"}) {
    INFO(mode);
    for_each_variant({mode}, [](Sizes& sizes, bool) {
      CHECK(sizes[2301].count == 6);
      CHECK(sizes[2301].blamed == 1);
    });
  }
}

TEST_CASE("exception: only the calls that threw", "[exceptions]") {
  for_each_variant({"some_calls"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 2401, kRuntimeError, "some_calls", 3);
    CHECK(sizes[2401].evidence.at("count") == 3);
  });
}

TEST_CASE("exception: of any type", "[exceptions]") {
  for_each_variant({"other_types"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 2501, "int", "other_types");
    CHECK(sizes[2501].evidence.at("what").is_null());
    CHECK(sizes[2502].blamed == 1);
    CHECK(sizes[2503].blamed == 1);
    CHECK(sizes[2503].evidence.at("what") == "custom");
    check_blamed(sizes, 2504, "char const*", "other_types");
  });
}

TEST_CASE("exception: in stacks deeper than what is kept of them", "[exceptions]") {
  for_each_variant({"deep_stacks"}, [](Sizes& sizes, bool) {
    check_blamed(sizes, 2601, kRuntimeError, "deep_stacks");
    check_innocent(sizes, 2602);
  });
}

TEST_CASE("exception: across the frames of C functions", "[exceptions]") {
  for_each_variant({"c_frames"}, [](Sizes& sizes, bool) { check_blamed(sizes, 2701, kRuntimeError, "c_frames"); });
}

TEST_CASE("exception: memory that a destructor allocates while frames are unwound is not blamed on it",
          "[exceptions]") {
  for_each_variant({"made_while_unwinding"}, [](Sizes& sizes, bool) {
    check_innocent(sizes, 2901);
    check_blamed(sizes, 2902, kRuntimeError, "made_while_unwinding");
  });
}

TEST_CASE("exception: uncaught, from a noexcept function, and a second one while unwinding", "[exceptions]") {
  for (const char* mode : {"never_caught", "noexcept_function"}) {
    INFO(mode);
    for_each_variant(
        {mode}, [](Sizes& sizes, bool) { check_blamed(sizes, 3001, kRuntimeError, ""); }, SIGABRT);
  }
  for_each_variant(
      {"throw_while_unwinding"}, [](Sizes& sizes, bool) { check_blamed(sizes, 3001, kLogicError, ""); }, SIGABRT);
}

TEST_CASE("exception: inside a signal handler it takes no memory of the interrupted code", "[exceptions]") {
  for_each_variant({"signal_handler"}, [](Sizes& sizes, bool) { check_innocent(sizes, 3201); });
}

TEST_CASE("exception: in a library that catches all, throws, and is unloaded", "[exceptions]") {
  for (const std::string mode : {"library_stays", "library_goes"}) {
    INFO(mode);
    for_each_variant({mode, subject_path("exceptions_library.so").string()}, [&](Sizes& sizes, bool) {
      check_blamed(sizes, 3101, kRuntimeError, "guarded_call");
      check_blamed(sizes, 3102, kRuntimeError, mode);
      check_blamed(sizes, 3103, kRuntimeError, mode);
      check_blamed(sizes, 3151, kRuntimeError, "library");
      CHECK(sizes[3151].is_thrown_at("throw_and_keep"));
    });
  }
}

TEST_CASE("exception: thrown by a runtime inside the program that shares the unwinder", "[exceptions]") {
  for (const char* variant : {"exceptions_O0_static_cxx", "exceptions_O2_static_cxx"}) {
    INFO(variant);
    auto left_by = [&](const char* mode) {
      RunOptions options;
      options.environment["CULPRIT_QUIET"] = "1";
      return leaks_by_size(read_report(run_preloaded(variant, {mode}, options).dump()));
    };
    Sizes sizes = left_by("callee");
    check_blamed(sizes, 1001, kRuntimeError, "callee");
    CHECK(sizes[1001].evidence.at("what") == "residual is NaN");
    CHECK(sizes[1001].is_thrown_at("check_residual"));
    sizes = left_by("never_caught");
    check_blamed(sizes, 3001, kRuntimeError, "");
    sizes = left_by("freed_by_guard");
    check_innocent(sizes, 2002);
    CHECK(sizes.size() == 1);
  }
}

TEST_CASE("exception: of libc++abi", "[exceptions]") {
  if (!std::filesystem::exists(subject_path("exceptions_abi"))) {
    WARN("skipped: no libc++abi when the subjects were built");
    return;
  }
  const Run run = run_preloaded("exceptions_abi");
  if (on_gpu() && run.exit_code == 127) {
    WARN("skipped: no libc++abi on this machine");
    return;
  }
  REQUIRE(run.exit_code == 0);
  Sizes sizes = leaks_by_size(read_report(run.dump()));
  check_blamed(sizes, 4001, "Failure", "rethrow");
  check_blamed(sizes, 4002, "Failure", "main");
  CHECK(sizes[4002].evidence.at("rethrown") == true);
  check_innocent(sizes, 4003);
}

// None of its throws is recorded: no cause, and no wrong one.
TEST_CASE("exception: thrown by a program that shares nothing", "[exceptions]") {
  for (const char* variant : {"exceptions_O0_static_all", "exceptions_O2_static_all"}) {
    INFO(variant);
    const Run run = run_preloaded(variant, {"callee"});
    REQUIRE(run.exit_code == 0);
    Sizes sizes = leaks_by_size(read_report(run.dump()));
    check_innocent(sizes, 1001);
  }
}

TEST_CASE("exception: in a fork child", "[exceptions]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver does not work in the fork child of a process that used it");
    return;
  }
  for (const std::string& variant : variants()) {
    INFO(variant);
    RunOptions options;
    options.environment["CULPRIT_QUIET"] = "1";
    const Run run = run_preloaded(variant, {"in_child"}, options);
    REQUIRE(run.exit_code == 0);
    REQUIRE(run.dumps.size() == 2);
    std::uint64_t blamed = 0;
    std::uint64_t left = 0;
    for (const std::filesystem::path& dump : run.dumps) {
      for (auto& [size, one] : leaks_by_size(read_report(dump))) {
        left += one.count;
        if (size == 1001) blamed += one.blamed;
      }
    }
    CHECK(left == 1);
    CHECK(blamed == 1);
  }
}

}  // namespace culprit::test
