// CULPRIT_FAIL and the options of culprit run that set it: which calls fail, and that nothing else changes.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

std::string output_with(const std::string& rules, const std::vector<std::string>& calls) {
  RunOptions options;
  options.environment["CULPRIT_FAIL"] = rules;
  const Run run = run_preloaded("try_calls", calls, options);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  for (const auto& dump : run.dumps) CHECK(read_report(dump).leaks.empty());
  return run.out;
}

}  // namespace

TEST_CASE("the Nth allocation fails as out of memory and nothing else does", "[inject]") {
  const std::vector<std::string> calls = {"alloc", "host", "copy", "async", "there", "alloc"};
  CHECK(output_with("", calls) == "alloc=0 host=0 copy=0 async=0 there=0 alloc=0\n");
  CHECK(output_with("alloc:1", calls) == "alloc=2 host=0 copy=1 async=0 there=0 alloc=0\n");
  CHECK(output_with("alloc:2", calls) == "alloc=0 host=2 copy=0 async=0 there=0 alloc=0\n");
  CHECK(output_with("alloc:3", calls) == "alloc=0 host=0 copy=0 async=2 there=0 alloc=0\n");
  CHECK(output_with("alloc:4,alloc:5", calls) == "alloc=0 host=0 copy=0 async=0 there=2 alloc=2\n");
  CHECK(output_with("alloc:6", calls) == "alloc=0 host=0 copy=0 async=0 there=0 alloc=0\n");
}

TEST_CASE("any hooked call can be made to fail", "[inject]") {
  const std::vector<std::string> calls = {"alloc", "copy", "copy", "back", "set", "sync", "free", "free"};
  CHECK(output_with("cuMemcpyHtoD:2:700", calls) == "alloc=0 copy=0 copy=700 back=0 set=0 sync=0 free=0 free=0\n");
  CHECK(output_with("cuMemsetD8:1:1,cuCtxSynchronize:1:719", calls) ==
        "alloc=0 copy=0 copy=0 back=0 set=1 sync=719 free=0 free=0\n");
  CHECK(output_with("cuMemcpyDtoH:1:1", calls) == "alloc=0 copy=0 copy=0 back=1 set=0 sync=0 free=0 free=0\n");
}

TEST_CASE("a free that was made to fail is a refused free, and its memory stays", "[inject]") {
  RunOptions options;
  options.environment["CULPRIT_FAIL"] = "cuMemFree_v2:1:700";
  const Run run = run_preloaded("try_calls", {"alloc", "free"}, options);
  CHECK(run.out == "alloc=0 free=700\n");
  const Report report = read_report(run.dump());
  CHECK(report.leaks.empty());  // freed at the second try
  REQUIRE(report.errors("failed-free").size() == 1);
  CHECK(report.errors("failed-free")[0].at("code") == 700);
}

TEST_CASE("a fork child counts its calls anew", "[inject]") {
  if (on_gpu()) {
    WARN("skipped: CUDA does not work in a fork child");
    return;
  }
  CHECK(output_with("alloc:2", {"alloc", "fork", "alloc", "alloc", "alloc"}) ==
        "alloc=0 child alloc=0 alloc=2 alloc=0\n");
}

TEST_CASE("a value of CULPRIT_FAIL that means nothing fails nothing and is named", "[inject]") {
  RunOptions options;
  options.environment["CULPRIT_FAIL"] = "alloc:1,cuBogus:1:2";
  const Run run = run_preloaded("try_calls", {"alloc"}, options);
  CHECK(run.out == "alloc=0\n");
  CHECK(has(run.err, "CULPRIT_FAIL=alloc:1,cuBogus:1:2: this value cannot be used; no rule is used"));
}

TEST_CASE("a driver that was made to fail at its start leaves no dump", "[inject]") {
  RunOptions options;
  options.environment["CULPRIT_FAIL"] = "cuInit:1:100";
  const Run run = run_preloaded("try_calls", {"alloc"}, options);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "alloc=100\n");
  CHECK(run.dumps.empty());
}

TEST_CASE("culprit run makes calls fail", "[inject][run]") {
  const Run run = culprit_run({"--fail-alloc", "2", "--fail-call", "cuMemcpyHtoD:1:CUDA_ERROR_INVALID_VALUE"},
                              {"try_calls", "alloc", "alloc", "copy", "copy"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "alloc=0 alloc=2 copy=1 copy=0\n");
  CHECK_FALSE(has(run.err, "no call was made to fail"));
  const Run never = culprit_run({"--fail-alloc", "3"}, {"try_calls", "alloc", "alloc"});
  CHECK(never.out == "alloc=0 alloc=0\n");
  CHECK(has(never.err, "no call was made to fail"));
}

}  // namespace culprit::test
