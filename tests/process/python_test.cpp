// Python frames, against what Python itself says of the same places. The interpreter: python3 of the PATH, or those
// that CULPRIT_TEST_PYTHONS names (paths with colons between). One test runs every version that the machine has
// besides.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "interpose/format/python_versions.h"
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

std::vector<std::string> interpreters() {
  const char* list = std::getenv("CULPRIT_TEST_PYTHONS");
  std::stringstream text(list == nullptr ? "python3" : list);
  std::vector<std::string> found;
  for (std::string one; std::getline(text, one, ':');) found.push_back(one);
  return found;
}

// An interpreter's version and path; both empty when there is none of that name.
std::pair<std::string, std::string> version_and_path(const std::string& name, const std::string& pyenv_version) {
  ProgramOptions options;
  if (!pyenv_version.empty()) options.environment["PYENV_VERSION"] = pyenv_version;
  const Finished asked = run_program(
      {"/usr/bin/env", name, "-c", "import sys; print(*sys.version_info[:2], sep='.'); print(sys.executable)"},
      options);
  std::stringstream lines(asked.exit_code == 0 ? asked.out : "");
  std::pair<std::string, std::string> found;
  std::getline(lines, found.first);
  std::getline(lines, found.second);
  return found;
}

// And one of each other version that the PATH offers as python3.N, pyenv's too. 3.8 is one that is not read.
std::vector<std::string> all_interpreters() {
  std::vector<std::string> found = interpreters();
  std::set<std::string> versions;
  for (const std::string& name : found) versions.insert(version_and_path(name, "").first);
  for (int i = 8; i <= 14; ++i) {
    const std::string number = "3." + std::to_string(i);
    const auto [version, path] = version_and_path("python" + number, number);
    if (!version.empty() && versions.insert(version).second) found.push_back(path);
  }
  return found;
}

Run run_python(const std::string& interpreter, std::vector<std::string> arguments, RunOptions options = {}) {
  arguments.insert(arguments.begin(), {interpreter, subject_path(arguments.front()).string()});
  arguments.erase(arguments.begin() + 2);
  return run_preloaded("/usr/bin/env", arguments, std::move(options));
}

// Allocations per Python stack: bytes and calls.
using Made = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;

void add_line(const std::string& file, int line, const std::string& function, std::string* stack) {
  *stack += file + ":" + std::to_string(line) + " " + function.substr(function.rfind('.') + 1) + "\n";
}

Made made_by_traceback(const nlohmann::json& list) {
  Made made;
  for (const nlohmann::json& one : list) {
    std::string stack;
    for (const nlohmann::json& line : one.at("stack")) add_line(line.at(0), line.at(1), line.at(2), &stack);
    made[stack].first += one.at("bytes").get<std::uint64_t>();
    ++made[stack].second;
  }
  return made;
}

Made made_by_report(const Report& report) {
  Made made;
  for (const Group& group : report.leaks) {
    std::string stack;
    for (const nlohmann::json& frame : group.json.at("stack")) {
      if (frame.at("language") == "python") add_line(frame.at("file"), frame.at("line"), frame.at("function"), &stack);
    }
    made[stack].first += group.bytes;
    made[stack].second += group.count;
  }
  return made;
}

// Whether culprit reports this interpreter as unknown.
bool is_unknown(const Report& report) {
  for (const nlohmann::json& note : report.json.at("notes")) {
    if (note.get<std::string>().find("no Python lines: culprit reads the frames of") == 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("Python frames are those that traceback shows", "[python]") {
  for (const std::string& interpreter : all_interpreters()) {
    RunOptions options;
    options.environment["CULPRIT_DEPTH"] = "256";
    const Run run = run_python(interpreter, {"python_stacks.py", "400", "7"}, options);
    INFO(interpreter << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    if (is_unknown(report)) {
      CHECK(made_by_report(report).size() == 1);
      continue;
    }
    const Made expected = made_by_traceback(nlohmann::json::parse(run.out));
    CHECK(expected.size() > 200);
    CHECK(made_by_report(report) == expected);
  }
}

TEST_CASE("code objects that take the place of others are distinguished", "[python]") {
  for (const std::string& interpreter : interpreters()) {
    const Run run = run_python(interpreter, {"python_stacks.py", "2000", "1", "executed"});
    INFO(interpreter << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    if (!is_unknown(report)) CHECK(made_by_report(report) == made_by_traceback(nlohmann::json::parse(run.out)));
  }
}

TEST_CASE("each evaluation loop's Python frames come just before its own", "[python]") {
  std::size_t loops = 0;
  for (const std::string& interpreter : interpreters()) {
    RunOptions options;
    options.environment["CULPRIT_DEPTH"] = "256";
    const Run run = run_python(interpreter, {"python_stacks.py", "100", "8"}, options);
    INFO(interpreter << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    if (is_unknown(read_report(run.dump()))) continue;
    const Finished full =
        run_program({culprit_path().string(), "report", "--full-stacks", "--format", "json", run.dump()}, {});
    REQUIRE(full.exit_code == 0);
    const nlohmann::json report = nlohmann::json::parse(full.out);
    for (const nlohmann::json& group : report.at("leaks")) {
      std::string before;
      for (const nlohmann::json& frame : group.at("stack")) {
        if (frame.at("inlined") == true) continue;  // into the loop
        const bool python = frame.at("language") == "python";
        const std::string function = frame.at("function");
        const bool loop = !python && function.find("_PyEval_EvalFrameDefault") == 0;
        if (loop) CHECK(before == "python");
        if (before == "python" && !python) CHECK((loop || function.empty() || frame.contains("approximate")));
        before = python ? "python" : function;
        if (loop) ++loops;
      }
    }
  }
  CHECK(loops > 100);  // a stripped interpreter's loop may have no name
}

TEST_CASE("a hook never waits for the GIL", "[python]") {
  for (const std::string& interpreter : interpreters()) {
    const Run run = run_python(interpreter, {"python_gil.py", subject_path("python_gil.so").string()});
    INFO(interpreter << ": " << run.err);
    REQUIRE_FALSE(run.timed_out);
    CHECK(run.out == "done\n");
    const Report report = read_report(run.dump());
    CHECK(report.leaked_bytes() == 11001);
    if (!is_unknown(report)) CHECK(report.through("allocate").size() == 1);
  }
}

TEST_CASE("a stack deeper than the limit keeps its innermost Python frames", "[python]") {
  for (const std::string& interpreter : interpreters()) {
    RunOptions options;
    options.environment["CULPRIT_DEPTH"] = "3";
    const Run run = run_python(interpreter, {"python_stacks.py", "5", "9"}, options);
    INFO(interpreter << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    if (is_unknown(report)) continue;
    CHECK(report.leaked_count() == 5);
    for (const auto& [stack, made] : made_by_report(report)) {
      INFO(stack);
      CHECK(has(stack, " leaf\n"));
      CHECK(std::count(stack.begin(), stack.end(), '\n') == 3);
    }
  }
}

TEST_CASE("the text report begins with the Python lines", "[python]") {
  const Run run = run_python(interpreters().front(), {"python_stacks.py", "1", "1"});
  REQUIRE(run.exit_code == 0);
  if (is_unknown(read_report(run.dump()))) return;
  const Finished text = run_program({culprit_path().string(), "report", run.dump()}, {});
  const std::size_t allocated = text.out.find("   allocated  python_stacks.py:");
  REQUIRE(allocated != std::string::npos);
  CHECK(has(text.out.substr(allocated), "   native     "));
  CHECK_FALSE(has(text.out, "_PyEval_EvalFrameDefault"));
}

TEST_CASE("code that is made and dropped for ever has a small dump, and leaks keep their Python lines", "[python]") {
  RunOptions options;
  options.timeout_seconds = 600;
  const Run run =
      run_python(interpreters().front(), {"python_endless.py", on_gpu() ? "12000" : "40000", "20"}, options);
  REQUIRE(run.exit_code == 0);
  std::istringstream sizes(run.out);
  std::uint64_t half = 0;
  std::uint64_t whole = 0;
  sizes >> half >> whole;
  REQUIRE(half > 0);
  // The functions of a run on a GPU are too few for the dump to reach its size.
  if (!on_gpu()) CHECK(whole <= half + (1 << 20));
  CHECK(whole <= 12 << 20);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 20);
  for (const Group& group : report.leaks) {
    const std::string number = std::to_string(group.bytes - (1 << 20));
    INFO(number);
    CHECK(group.has_frame("function_" + number));
    CHECK(std::any_of(group.stack.begin(), group.stack.end(),
                      [&](const Frame& frame) { return frame.file == "template_" + number + ".py"; }));
  }
  CHECK(report.json.at("summary").at("reused_stacks").get<std::uint64_t>() > (on_gpu() ? 2000U : 10000U));
}

TEST_CASE("Python frames can be left out", "[python]") {
  RunOptions options;
  options.environment["CULPRIT_PYTHON"] = "0";
  const Run run = run_python("python3", {"python_stacks.py", "5", "1"}, options);
  const Report report = read_report(run.dump());
  for (const Group& group : report.leaks) {
    for (const auto& frame : group.json.at("stack")) CHECK(frame.at("language") == "native");
  }
  CHECK(report.json.at("summary").at("not_searched") ==
        "variables of Python were not searched (CULPRIT_PYTHON=0): one may hold this memory");
}

TEST_CASE("a Python that is not read is named before its leaks", "[python]") {
  struct Case {
    const char* subject;
    const char* why;
    const char* note;
  };
  const std::string version = std::string("no Python lines: culprit reads the frames of Python ") +
                              format::kPythonVersions + ", not of Python 3.255";
  const Case cases[] = {
      {"strange_python", "Python 3.255 is not known to culprit", version.c_str()},
      {"free_threaded_python", "Python 3.14 is free-threaded",
       "no Python lines: culprit reads the frames of CPython with a GIL; this Python 3.14 is free-threaded"},
  };
  for (const Case& one : cases) {
    INFO(one.subject);
    const Run run = run_preloaded(one.subject);
    CHECK(run.exit_code == 0);
    const Report report = read_report(run.dump());
    CHECK(report.leaked_count() == 1);
    CHECK(report.json.at("notes").at(0) == one.note);
    const std::string not_searched =
        std::string("variables of Python were not searched (") + one.why + "): one may hold this memory";
    CHECK(report.json.at("summary").at("not_searched") == not_searched);
    CHECK(contains(run_culprit({"report", run.dump()}).out, "\nNOT SEARCHED: " + not_searched + "\n"));
  }
}

}  // namespace culprit::test
