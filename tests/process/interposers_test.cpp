// Other tools in the same process: another preloaded library with its own dlsym, C++ exceptions, other languages.
#include <set>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

void check_same_behaviour(const std::string& subject, const std::vector<std::string>& arguments = {}) {
  INFO(subject);
  RunOptions without;
  without.preload = false;
  const Run plain = run_preloaded(subject, arguments, without);
  RunOptions quiet;
  quiet.environment["CULPRIT_QUIET"] = "1";
  const Run preloaded = run_preloaded(subject, arguments, quiet);
  CHECK(preloaded.exit_code == plain.exit_code);
  CHECK(preloaded.signal == plain.signal);
  CHECK(preloaded.out == plain.out);
  CHECK(preloaded.err == plain.err);
}

// The number of allocations that other_dlsym.so reports.
int seen_by_other(const Run& run) {
  const std::string::size_type at = run.err.find("other: ");
  return at == std::string::npos ? 0 : std::stoi(run.err.substr(at + 7));
}

}  // namespace

TEST_CASE("another interposer with its own dlsym keeps working and nothing is counted twice", "[interposers]") {
  struct Row {
    const char* subject;
    int exit_code;
  };
  for (const Row& row : {Row{"leak_one", 7}, Row{"driver_leak_one", 0}, Row{"leak_one_static", 7}}) {
    if (on_gpu() && std::string(row.subject) == "leak_one_static") continue;
    for (const bool in_front : {true, false}) {
      INFO(row.subject << " with the other library " << (in_front ? "in front" : "behind"));
      RunOptions options;
      (in_front ? options.preload_before : options.preload_after).push_back("other_dlsym.so");
      const Run run = run_preloaded(row.subject, {}, options);
      INFO("stderr: " << run.err);
      CHECK(run.exit_code == row.exit_code);
      CHECK(seen_by_other(run) == 2);
      const Report report = read_report(run.dump());
      CHECK(report.leaked_count() == 1);
      CHECK(report.leaked_bytes() == 11001);
      CHECK(report.error_count() == 0);
      CHECK(report.through("leak_here").size() == 1);
    }
  }
}

TEST_CASE("every route works beside another interposer", "[interposers]") {
  for (const char* route :
       {"dlsym", "dlsym-default", "proc-address-old", "proc-address", "proc-address-of-itself", "entry-point"}) {
    for (const bool in_front : {true, false}) {
      INFO(route << " with the other library " << (in_front ? "in front" : "behind"));
      RunOptions options;
      (in_front ? options.preload_before : options.preload_after).push_back("other_dlsym.so");
      const Run run = run_preloaded("routes", {route, "leak", "device"}, options);
      INFO("stderr: " << run.err);
      REQUIRE(run.exit_code == 0);
      const Report report = read_report(run.dump());
      CHECK(report.leaked_count() == 1);
      CHECK(report.leaked_bytes() == 11001);
    }
  }
}

TEST_CASE("C++ exceptions pass through the library unharmed", "[interposers]") {
  check_same_behaviour("throw_through");
  check_same_behaviour("throw_through_static_cxx");
  const Run run = run_preloaded("throw_through");
  CHECK(run.out == "bottom0 bottom1 bottom2 bottom\n");
  const Report report = read_report(run.dump());
  CHECK(report.leaks.empty());
  CHECK(report.error_count() == 0);
}

TEST_CASE("cancelled and exited threads unwind through the library", "[interposers]") {
  check_same_behaviour("cancelled_threads");
  const Run run = run_preloaded("cancelled_threads");
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(read_report(run.dump()).leaked_count() == 2);
}

TEST_CASE("a cancellation that waits does not strike inside a hook", "[interposers]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver has cancellation points of its own");
    return;
  }
  check_same_behaviour("cancelled_threads", {"pending"});
  const Run run = run_preloaded("cancelled_threads", {"pending"});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(read_report(run.dump()).leaked_count() == 2);
}

TEST_CASE("programs behave the same with and without the library", "[interposers]") {
  for (const char* subject : {"leak_one", "free_null", "thread_leak", "device_reset"}) check_same_behaviour(subject);
  check_same_behaviour("end_how", {"_exit"});
  check_same_behaviour("end_how", {"quick_exit"});
  check_same_behaviour("teardown", {"destroy"});
}

TEST_CASE("a program that probes for CUDA finds none where there is none", "[interposers]") {
  check_same_behaviour("probe_for_cuda");
  const Run run = run_preloaded("probe_for_cuda");
  CHECK(run.exit_code == 0);
  CHECK(run.dumps.empty());
}

TEST_CASE("a Python program that loads the driver with ctypes is tracked", "[interposers]") {
  const std::string python = "/usr/bin/python3";
  if (!std::filesystem::exists(python)) {
    WARN("skipped: no " << python);
    return;
  }
  const std::string script =
      "import ctypes, re\n"
      "cuda = ctypes.CDLL('libcuda.so.1')\n"
      "context = ctypes.c_void_p()\n"
      "assert cuda.cuInit(0) == 0\n"
      "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
      "assert cuda.cuCtxSetCurrent(context) == 0\n"
      "def allocate(size):\n"
      "    pointer = ctypes.c_uint64()\n"
      "    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0\n"
      "    return pointer\n"
      "pointers = [allocate(11001) for _ in range(5)]\n"
      "for pointer in pointers[:3]: assert cuda.cuMemFree_v2(pointer) == 0\n"
      "try:\n"
      "    raise ValueError('python')\n"
      "except ValueError as error:\n"
      "    print(error, bool(re.match('a+', 'aa')))\n";
  const Run run = run_preloaded(python, {"-c", script});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.out == "python True\n");
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 2);
  CHECK(report.leaked_bytes() == 2 * 11001);
}

}  // namespace culprit::test
