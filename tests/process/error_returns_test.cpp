// A failed call is the cause for the memory that its function left behind, and for no other. At -O0 and -O2.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

// Each mode in both builds.
template <typename Check>
void with(const std::string& rules, const std::vector<std::string>& mode, Check check) {
  for (const char* subject : {"error_return_O0", "error_return_O2"}) {
    RunOptions options;
    options.environment["CULPRIT_FAIL"] = rules;
    const Run run = run_preloaded(subject, mode, options);
    INFO(subject << " " << mode[0] << " " << (mode.size() > 1 ? mode[1] : "") << " with " << rules << "\n" << run.err);
    REQUIRE(run.exit_code == 0);
    check(read_report(run.dump()));
  }
}

// The evidence of an error return, null when there is none.
nlohmann::json error_return(const Group& group) {
  for (const nlohmann::json& evidence : group.json.at("evidence")) {
    if (evidence.at("type") == "error-return") return evidence;
  }
  return {};
}

// One leak, left in `owner` when `api` failed with `code`, called in `function`.
void blamed(const Report& report, const std::string& owner, const std::string& api, int code,
            const std::string& function) {
  REQUIRE(report.leaks.size() == 1);
  INFO(report.leaks[0].json.dump(1));
  CHECK(report.leaks[0].bytes == 11001);
  CHECK(report.leaks[0].cause == "error-return");
  const nlohmann::json evidence = error_return(report.leaks[0]);
  REQUIRE(evidence.is_object());
  CHECK(evidence.at("api") == api);
  CHECK(evidence.at("code") == code);
  CHECK(evidence.at("injected") == true);
  CHECK(evidence.at("owner").get<std::string>().rfind(owner, 0) == 0);
  CHECK(has_frame(read_stack(evidence.at("stack")), function));
}

void not_blamed(const Report& report, std::uint64_t bytes) {
  REQUIRE(report.leaks.size() == 1);
  INFO(report.leaks[0].json.dump(1));
  CHECK(report.leaked_bytes() == bytes);
  CHECK(report.leaks[0].cause == "never-freed");
  CHECK(error_return(report.leaks[0]).is_null());
}

}  // namespace

TEST_CASE("memory that a function leaves behind when a call fails is an error return", "[error-return]") {
  with("alloc:2", {"two-buffers"},
       [](const Report& report) { blamed(report, "two_buffers", "cudaMalloc", 2, "two_buffers"); });
  with("cuMemcpyHtoD:1:1", {"main"}, [](const Report& report) { blamed(report, "main", "cudaMemcpy", 1, "main"); });
}

TEST_CASE("a failure in a callee is the caller's error return", "[error-return]") {
  with("cuMemcpyHtoD:1:700", {"callee"},
       [](const Report& report) { blamed(report, "copy_in_callee", "cudaMemcpy", 700, "copy_to"); });
  with("cuMemcpyHtoD:1:700", {"made-in-callee"},
       [](const Report& report) { blamed(report, "made_in_callee", "cudaMemcpy", 700, "copy_to"); });
  with("cuMemcpyHtoD:1:1", {"in-thread"},
       [](const Report& report) { blamed(report, "copy_in_callee", "cudaMemcpy", 1, "copy_to"); });
}

TEST_CASE("copies, memsets, waits, streams, events and allocations are followed", "[error-return]") {
  struct Row {
    const char* rule;
    const char* what;
    const char* api;
    int code;
  };
  const Row rows[] = {{"cuMemcpyHtoDAsync:1:700", "copy-async", "cudaMemcpyAsync", 700},
                      {"cuMemcpyDtoH:1:719", "copy-back", "cudaMemcpy", 719},
                      {"cuMemsetD8:1:1", "memset", "cudaMemset", 1},
                      {"cuCtxSynchronize:1:719", "synchronize", "cudaDeviceSynchronize", 719},
                      {"cuStreamSynchronize:1:700", "stream-synchronize", "cudaStreamSynchronize", 700},
                      {"cuEventRecord:1:400", "event-record", "cudaEventRecord", 400},
                      {"cuStreamWaitEvent:1:400", "stream-wait", "cudaStreamWaitEvent", 400},
                      {"cuEventCreate:2:2", "event-create", "cudaEventCreate", 2},
                      {"cuMemAllocAsync:1:2", "allocate-async", "cudaMallocAsync", 2},
                      {"alloc:2", "allocate-host", "cudaMallocHost", 2}};
  for (const Row& row : rows) {
    with(row.rule, {"each", row.what},
         [&](const Report& report) { blamed(report, "each_call", row.api, row.code, "each_call"); });
  }
}

TEST_CASE("not ready is no failure", "[error-return]") {
  with("cuEventElapsedTime:1:600", {"each", "elapsed"}, [](const Report& report) { not_blamed(report, 11001); });
}

TEST_CASE("a call that was retried with success is no failure", "[error-return]") {
  with("cuMemcpyHtoD:1:1", {"retried-copy"}, [](const Report& report) { not_blamed(report, 11001); });
  with("cuMemcpyHtoD:1:1,cuMemcpyHtoD:2:1", {"retried-copy"}, [](const Report& report) { not_blamed(report, 11001); });
  with("cuMemcpyHtoD:1:1", {"retried-elsewhere"}, [](const Report& report) { not_blamed(report, 11001); });
  with("alloc:2", {"retried-allocation"}, [](const Report& report) { not_blamed(report, 11001); });
  with("alloc:3", {"retried-same-place"}, [](const Report& report) { not_blamed(report, 22002); });
  with("cuMemcpyHtoD:1:1,cuMemcpyHtoD:2:1,cuMemcpyHtoD:3:1", {"retried-copy"},
       [](const Report& report) { blamed(report, "retried_copy", "cudaMemcpy", 1, "retried_copy"); });
}

TEST_CASE("a later call of the same function is no retry", "[error-return]") {
  for (const char* rule : {"cuMemcpyHtoD:1:1", "cuMemcpyHtoD:2:1", "cuMemcpyHtoD:3:1"}) {
    with(rule, {"steps"}, [](const Report& report) { blamed(report, "one_step", "cudaMemcpy", 1, "one_step"); });
  }
}

TEST_CASE("memory that earlier calls handed on is not blamed", "[error-return]") {
  with("cuMemcpyHtoD:5:1", {"handed-on"}, [](const Report& report) {
    REQUIRE(report.leaks.size() == 2);
    for (const Group& group : report.leaks) {
      INFO(group.json.dump(1));
      CHECK(group.bytes == (group.cause == "error-return" ? 11001 : 9 * 11001));
    }
    CHECK(report.leaks[0].cause != report.leaks[1].cause);
  });
}

TEST_CASE("a failure before the allocation or in another thread is not the reason", "[error-return]") {
  with("cuMemcpyHtoD:1:1", {"after"}, [](const Report& report) { not_blamed(report, 11001); });
  with("cuMemcpyHtoD:1:1", {"other-thread"}, [](const Report& report) { not_blamed(report, 11001); });
}

TEST_CASE("every level of a recursion that a failure passes leaves its own behind", "[error-return]") {
  with("cuMemcpyHtoD:1:1", {"recursion"}, [](const Report& report) {
    CHECK(report.leaked_bytes() == 3 * 11001);
    for (const Group& group : report.leaks) {
      INFO(group.json.dump(1));
      CHECK(group.cause == "error-return");
      CHECK(error_return(group).at("owner").get<std::string>().rfind("recurse", 0) == 0);
    }
  });
}

TEST_CASE("of failures that follow from one error the first is the reason", "[error-return]") {
  with("cuMemcpyHtoD:1:700,cuCtxSynchronize:1:700", {"lasting"},
       [](const Report& report) { blamed(report, "lasting", "cudaMemcpy", 700, "copy_to"); });
  with("cuMemcpyHtoD:1:1,cuCtxSynchronize:1:719", {"lasting"},
       [](const Report& report) { blamed(report, "lasting", "cudaDeviceSynchronize", 719, "lasting"); });
}

}  // namespace culprit::test
