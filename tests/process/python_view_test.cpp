// The view that the library brings into Python: names of threads, and the frameworks' own account of their memory at
// the end. PyTorch and CuPy are the stand-ins of tests/subjects/python_fakes. tests/python/view_test.py has the
// situations.
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// In the tree that travels to GPU machines, or in the source.
fs::path package_path() {
  const fs::path travelled = subject_path("../python_package").lexically_normal();
  return fs::exists(travelled) ? travelled : fs::path(CULPRIT_SOURCE_DIR) / "interpose" / "python_package";
}

// With LD_PRELOAD alone: nothing of culprit is in the program's environment.
Run run_python(std::vector<std::string> arguments, RunOptions options = {}) {
  std::string& path = options.environment["PYTHONPATH"];
  path = subject_path("python_fakes").string() + (path.empty() ? "" : ":" + path);
  options.environment["PYTHONDONTWRITEBYTECODE"] = "1";
  options.environment["FAKE_C10_CUDA"] = subject_path("libc10_cuda.so").string();
  arguments.front() = subject_path(arguments.front()).string();
  arguments.insert(arguments.begin(), "python3");
  return run_preloaded("/usr/bin/env", arguments, std::move(options));
}

fs::path view_of(const Run& run) { return run.dump().string() + ".python.json"; }

const nlohmann::json& torch_inside(const Report& report) {
  const nlohmann::json& caches = report.json.at("summary").at("caches");
  REQUIRE(caches.size() == 1);
  CHECK(caches[0].at("pool") == "PyTorch caching allocator");
  return caches[0].at("inside");
}

std::string text_report(const Run& run) { return run_culprit({"report", run.dump()}).out; }

constexpr std::uint64_t kTensor = 700 * 1024;

}  // namespace

TEST_CASE("PyTorch's segments are joined with its own account of them", "[python_view]") {
  const Run run = run_python({"python_holders.py", "torch", "losses"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.out.empty());
  const Report report = read_report(run.dump());
  const nlohmann::json inside = torch_inside(report);
  CHECK(inside.at("live_bytes") == 3 * kTensor);
  CHECK(inside.at("idle_bytes") == (4 << 20) - 3 * kTensor);
  REQUIRE(inside.at("segments").size() == 2);
  CHECK(inside.at("segments")[0].at("live_bytes") == 2 * kTensor);
  CHECK(inside.at("segments")[0].at("idle_bytes") == (2 << 20) - 2 * kTensor);
  // Without its history PyTorch has no line numbers.
  REQUIRE(inside.at("largest").size() == 1);
  CHECK(inside.at("largest")[0].at("bytes") == 3 * kTensor);
  CHECK(inside.at("largest")[0].at("file").is_null());
  CHECK(inside.at("largest")[0].at("held_by") == "`Trainer.losses`, a list of 3");
  const std::string text = text_report(run);
  CHECK(has(text, "   tensors    2.05 MiB live · 1.95 MiB idle, when Python began to end\n"));
  CHECK(has(text, "   kept by    2.05 MiB  variables  `trainer.losses`, a list of 3\n"));
  CHECK(has(text, "--torch-history shows"));
  CHECK(report.json.at("summary").at("live_cached_bytes") == 3 * kTensor);
  CHECK(has(text, "LIVE IN CACHES: 2.05 MiB, kept by `trainer.losses`, a list of 3\n"));
  CHECK(inside.at("kept").at(0).at("bytes") == 3 * kTensor);
  // The innermost Python line; the stand-in does not count as an installed package.
  CHECK(has(text, "   largest    4.00 MiB  2x  cuda.py:"));
}

TEST_CASE("PyTorch's expandable segments are joined by the addresses that are mapped", "[python_view]") {
  RunOptions options;
  options.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  const Run run = run_python({"python_holders.py", "torch", "losses"}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.json.at("summary").at("caches").at(0).at("segments") == 2);  // pieces of physical memory
  const nlohmann::json inside = torch_inside(report);
  CHECK(inside.at("live_bytes") == 3 * kTensor);
  CHECK(inside.at("idle_bytes") == (4 << 20) - 3 * kTensor);
  CHECK(inside.at("segments").size() == 1);
  CHECK(inside.at("largest").at(0).at("held_by") == "`Trainer.losses`, a list of 3");
}

TEST_CASE("with PyTorch's history the lines of live tensors are shown", "[python_view]") {
  RunOptions options;
  options.environment["CULPRIT_TORCH_HISTORY"] = "1";
  const Run run = run_python({"python_holders.py", "torch", "losses"}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json largest = torch_inside(read_report(run.dump())).at("largest");
  REQUIRE(largest.size() == 1);
  CHECK(fs::path(largest[0].at("file").get<std::string>()).filename() == "python_holders.py");
  CHECK(largest[0].at("function") == "<lambda>");
  CHECK_FALSE(has(text_report(run), "--torch-history shows"));
}

TEST_CASE("the Python object that holds a tensor is named", "[python_view]") {
  const std::pair<const char*, const char*> ways[] = {
      {"global", "`cache`"},
      {"closure", "a variable of a closure"},
      {"traceback",
       "`activations`, a local variable of failing_step (python_holders.py:31), kept by the traceback of RuntimeError: "
       "the loss is NaN, held by `errors`, a list of 1"},
      {"running", "`scratch`, a local variable of running_step (python_holders.py:41)"}};
  for (const auto& [way, holder] : ways) {
    const Run run = run_python({"python_holders.py", "torch", way});
    INFO(way << run.err);
    REQUIRE(run.exit_code == 0);
    const nlohmann::json largest = torch_inside(read_report(run.dump())).at("largest");
    REQUIRE(largest.size() == 1);
    CHECK(largest[0].at("held_by") == holder);
  }
}

TEST_CASE("a snapshot has the view of its moment", "[python_view]") {
  TemporaryFolder folder;
  RunOptions options;
  options.environment["SNAPSHOT"] = folder.path() / "now.dump";
  options.environment["PYTHONPATH"] = package_path().string();
  const Run run = run_python({"python_holders.py", "torch", "snapshot"}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json then = torch_inside(read_report(folder.path() / "now.dump"));
  CHECK(then.at("live_bytes") == kTensor);
  CHECK(then.at("taken") == "snapshot");
  CHECK(then.at("largest").at(0).at("held_by") == "`activations`");
  CHECK(torch_inside(read_report(run.dump())).at("live_bytes") == 0);
}

TEST_CASE("memory that only Python objects still refer to is held", "[python_view]") {
  RunOptions options;
  SECTION("PyTorch without its cache") {
    options.environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1";
    const Run run = run_python({"python_holders.py", "torch", "traceback"}, options);
    INFO(run.err);
    const Report report = read_report(run.dump());
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].cause == "held");
    CHECK(report.leaks[0].bytes == kTensor);
    CHECK(report.through("failing_step").size() == 1);  // the Python line that allocated it
    const nlohmann::json& evidence = report.leaks[0].json.at("evidence").at(0);
    CHECK(evidence.at("language") == "python");
    const std::string holder = "`errors`, a list of 1 -> .__traceback__ -> failing_step() line 31: activations";
    CHECK(evidence.at("symbol") == holder);
    CHECK(has(text_report(run), "   held by    " + holder));
  }
  SECTION("CuPy without its pool") {
    options.environment["FAKE_CUPY_POOL"] = "0";
    const Run run = run_python({"python_holders.py", "cupy", "losses"}, options);
    INFO(run.err);
    const Report report = read_report(run.dump());
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].cause == "held");
    CHECK(report.leaks[0].count == 3);
    CHECK(report.leaks[0].json.at("evidence").at(0).at("symbol") == "`trainer.losses`, a list of 3");
  }
}

TEST_CASE("a tensor that the traceback of an uncaught exception held is reported with its line", "[python_view]") {
  RunOptions options;
  SECTION("PyTorch") {
    options.environment["CULPRIT_TORCH_HISTORY"] = "1";
    const Run run = run_python({"python_holders.py", "torch", "uncaught"}, options);
    INFO(run.err);
    CHECK(run.exit_code == 1);
    CHECK(has(run.err, "RuntimeError: the loss is NaN"));
    const nlohmann::json inside = torch_inside(read_report(run.dump()));
    CHECK(inside.at("taken") == "exit");
    CHECK(inside.at("live_bytes") == kTensor);
    REQUIRE(inside.at("largest").size() == 1);
    CHECK(inside.at("largest")[0].at("line") > 0);
    const std::string held = inside.at("largest")[0].at("held_by");
    CHECK(held ==
          "`activations`, a local variable of failing_step (python_holders.py:31), kept by the traceback of "
          "RuntimeError: the loss is NaN, which was not caught");
    const std::string text = text_report(run);
    CHECK(has(text, "   live       700 KiB  1x  python_holders.py:"));
  }
  SECTION("without its cache Python frees it afterwards") {
    options.environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1";
    const Run run = run_python({"python_holders.py", "torch", "uncaught"}, options);
    CHECK(run.exit_code == 1);
    CHECK(read_report(run.dump()).leaks.empty());
  }
}

TEST_CASE("live tensors fail a gate of their own, idle memory of a cache does not", "[python_view]") {
  TemporaryFolder folder;
  RunOptions options;
  options.environment["SNAPSHOT"] = folder.path() / "now.dump";
  options.environment["PYTHONPATH"] = package_path().string();
  const Run run = run_python({"python_holders.py", "torch", "snapshot"}, options);
  REQUIRE(run.exit_code == 0);
  const auto gate = [](const fs::path& dump, const std::string& what) {
    return run_culprit({"report", dump, "--fail-on", what}).exit_code;
  };
  CHECK(gate(folder.path() / "now.dump", "live-cached") == 1);
  CHECK(gate(folder.path() / "now.dump", "leaks") == 0);
  CHECK(gate(run.dump(), "live-cached") == 0);  // the tensor was freed, its segment is idle
  CHECK_FALSE(has(text_report(run), "LIVE IN CACHES"));
}

TEST_CASE("keepers have ids for a baseline, a diff and suppressions", "[python_view]") {
  const Run before = run_python({"python_holders.py", "torch", "losses"});
  const Run after = run_python({"python_holders.py", "torch", "global"});
  REQUIRE(before.exit_code + after.exit_code == 0);
  const fs::path baseline = before.dump().parent_path() / "baseline.json";
  REQUIRE(run_culprit({"report", before.dump(), "--write-baseline", baseline}).exit_code == 0);
  const nlohmann::json file = nlohmann::json::parse(file_text(baseline));
  REQUIRE(file.at("keepers").size() == 1);
  CHECK(file.at("keepers")[0].at("path") == "`trainer.losses`, a list");
  CHECK(file.at("keepers")[0].at("bytes") == 3 * kTensor);
  const std::string id = file.at("keepers")[0].at("id");
  CHECK(torch_inside(read_report(before.dump())).at("kept").at(0).at("id") == id);

  const auto gate = [&](const Run& run) {
    return run_culprit({"report", run.dump(), "--baseline", baseline, "--fail-on", "live-cached"});
  };
  CHECK(gate(before).exit_code == 0);
  const Finished grown = gate(after);
  CHECK(grown.exit_code == 1);
  CHECK(has(grown.out, "        new    "));

  const Finished diff = run_culprit({"diff", before.dump(), after.dump()});
  CHECK(has(diff.out, "KEPT IN CACHES\n\nnew    "));
  CHECK(has(diff.out, "gone   2.05 MiB kept by `trainer.losses`, a list of 3\n"));
  const Finished same = run_culprit({"diff", baseline, before.dump(), "--format", "json"});
  CHECK(nlohmann::json::parse(same.out).at("keepers").empty());

  const fs::path known = before.dump().parent_path() / "known.supp";
  for (const std::string& rule : {std::string("keeper:^`trainer.losses`"), "id:" + id}) {
    INFO(rule);
    std::ofstream(known) << rule << "\n";
    const Finished hidden = run_culprit({"report", before.dump(), "--suppressions", known, "--fail-on", "live-cached"});
    CHECK(hidden.exit_code == 0);
    CHECK(!has(hidden.out, "LIVE IN CACHES"));
    CHECK(has(hidden.out, "`trainer.losses`, a list of 3  (suppressed)\n"));
    CHECK(has(hidden.out, "hidden  2.05 MiB in 3 allocations by "));
  }
  std::ofstream(known) << "keeper:^`trainer.losses`\nmax-bytes:1M\n";
  CHECK(run_culprit({"report", before.dump(), "--suppressions", known, "--fail-on", "live-cached"}).exit_code == 1);

  const std::string page = run_culprit({"report", before.dump(), "--format", "markdown"}).out;
  CHECK(has(page, "2.05 MiB  variables  \\`trainer.losses\\`, a list of 3"));
}

TEST_CASE("the report has the moment at which memory ran out", "[python_view]") {
  const Run run = run_python({"python_holders.py", "torch", "ran_out"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  const nlohmann::json& then = report.json.at("summary").at("ran_out");
  REQUIRE(then.size() == 1);
  CHECK(then[0].at("pool") == "PyTorch caching allocator");
  CHECK(then[0].at("taken") == "out-of-memory");
  CHECK(then[0].at("live_bytes") == kTensor);
  CHECK(has(then[0].at("largest").at(0).at("held_by").get<std::string>(), "`activations`, a local variable of fill"));
  CHECK(report.json.at("summary").at("live_cached_bytes") == 0);
  const nlohmann::json& failure = report.json.at("out_of_memory").at(0);
  const nlohmann::json& line = failure.at("lines").at(0);
  CHECK(line.at("what") == "tensors");
  CHECK(line.at("pool") == "PyTorch caching allocator");
  CHECK(line.at("bytes") == kTensor);
  CHECK(has(line.at("held_by").get<std::string>(), "`activations`, a local variable of fill"));
  const nlohmann::json& idle = failure.at("idle").at(0);
  CHECK(idle.at("bytes") == (2 << 20) - kTensor);
  CHECK(idle.at("reasons").at(0).at("why") == "small-pool");
  CHECK(failure.at("would_fit").at("rule") == "never");
  const std::string text = text_report(run);
  CHECK(has(text, "   700 KiB   1x     tensor  PyTorch caching allocator  held by `activations`"));
  CHECK(has(text, "lines   culprit run --torch-history shows the Python line of each tensor\n"));
  CHECK(has(text, "in the PyTorch caching allocator: 1.32 MiB in segments for tensors of up to 1 MiB"));
}

TEST_CASE("a damaged view costs nothing but itself", "[python_view]") {
  const Run run = run_python({"python_holders.py", "torch", "global"});
  REQUIRE(fs::exists(view_of(run)));
  const std::string contents[] = {
      "", "{", "[]", "{\"schema\": \"culprit.python/9\"}",
      "{\"schema\": \"culprit.python/1\", \"caches\": [{\"framework\": \"torch\", \"segments\": "
      "[7, {\"address\": -1, \"bytes\": \"x\", \"blocks\": {}}]}], \"objects\": [{}, null]}"};
  for (const std::string& text : contents) {
    INFO(text);
    std::ofstream(view_of(run)) << text;
    const Report report = read_report(run.dump());
    CHECK(report.json.at("summary").at("cached_bytes") == 2 << 20);
    CHECK_FALSE(report.json.at("summary").at("caches").at(0).contains("inside"));
    const bool damaged = !contains(text, "culprit.python/1");
    CHECK(report.json.at("notes").size() == (damaged ? 1 : 0));
  }
}

TEST_CASE("a report says that no view has looked into a cache", "[python_view]") {
  RunOptions options;
  options.environment["CULPRIT_PYTHON"] = "0";
  // This one ends without exit handlers.
  CHECK(
      contains(text_report(run_python({"python_holders.py", "torch", "global"}, options)),
               "\nLIVE IN CACHES: not known: no Python was found that culprit can read (with CULPRIT_PYTHON=0 it looks "
               "for none)\n"));
  const Run run = run_python({"python_holders.py", "torch", "uncaught"}, options);
  CHECK(contains(text_report(run), "\nLIVE IN CACHES: not known: CULPRIT_PYTHON=0\n"));
  const Finished tensors = run_culprit({"tensors", run.dump()});
  CHECK(tensors.exit_code == 3);
  CHECK(contains(tensors.err, "they were not looked at: CULPRIT_PYTHON=0\n"));
}

TEST_CASE("option --torch-history says when it had no effect", "[python_view]") {
  RunOptions options;
  options.environment["PYTHONPATH"] = subject_path("python_fakes").string();
  options.environment["PYTHONDONTWRITEBYTECODE"] = "1";
  options.environment["FAKE_C10_CUDA"] = subject_path("libc10_cuda.so").string();
  options.environment["CULPRIT_PYTHON"] = "0";
  const Run run =
      culprit_run({"--torch-history"},
                  {"/usr/bin/env", "python3", subject_path("python_holders.py").string(), "torch", "global"}, options);
  CHECK(run.exit_code == 0);
  CHECK(has(run.err, "culprit: warning: --torch-history had no effect"));
}

TEST_CASE("Python's names of threads are shown", "[python_view]") {
  const Run run = run_python({"python_threads.py"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.out == "['run', '_bootstrap_inner', '_bootstrap']\n");  // without frames of the package
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 1);
  std::vector<std::string> names;
  for (const nlohmann::json& thread : report.leaks[0].json.at("threads")) names.push_back(thread.at("name"));
  CHECK(names == std::vector<std::string>{"loader of the validation set", "größe"});
}

}  // namespace culprit::test
