// The exports and imports of libculprit.so: it needs libc only, has no symbol versions, and exports only the hooks.
#include <fstream>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/pattern.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// The output of a binutils program for the library; empty when the machine lacks the program.
std::string binutils(const std::string& program, const std::vector<std::string>& options) {
  const std::string path = "/usr/bin/" + program;
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path);
    return "";
  }
  std::vector<std::string> argv = {path};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(library_path().string());
  ProgramOptions english;
  english.environment["LC_ALL"] = "C";
  const Finished finished = run_program(argv, english);
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  return finished.out;
}

std::set<std::string> first_captures(const std::string& text, const std::string& pattern) {
  const std::vector<std::string> groups = first_groups(text, pattern);
  return {groups.begin(), groups.end()};
}

// A file of the source tree; empty when the tests run without it.
std::string source_text(const std::string& path) { return file_text(std::string(CULPRIT_SOURCE_DIR "/") + path); }

}  // namespace

TEST_CASE("the library needs libc and the loader only", "[exports]") {
  const std::string dynamic = binutils("readelf", {"-d", "--wide"});
  if (dynamic.empty()) return;
  const std::set<std::string> needed = first_captures(dynamic, "\\(NEEDED\\).*\\[(.*)\\]");
  CHECK(needed.count("libc.so.6") == 1);
  for (const std::string& name : needed) {
    INFO(name);
    // An older glibc keeps dlopen and the threads in libraries of their own.
    const std::set<std::string> allowed = {"libc.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"};
    CHECK(allowed.count(name) == 1);
  }
}

TEST_CASE("the library imports what imports.txt names, with a reason, and nothing else", "[exports]") {
  const std::string symbols = binutils("nm", {"-D", "--undefined-only"});
  const std::string list = source_text("tests/process/imports.txt");
  if (symbols.empty() || list.empty()) {
    WARN("skipped: no nm, or the source is not here");
    return;
  }
  const std::set<std::string> allowed = first_captures(list, "^(\\w+) +\\S+.*$");
  REQUIRE(allowed.count("__environ") == 1);
  std::set<std::string> imported = first_captures(symbols, " [A-Za-z] (\\w+)");
  // Other names of the same variable, which the linker adds where an older glibc defines it (scripts/package.sh).
  imported.erase("_environ");
  imported.erase("environ");
  for (const std::string& name : imported) {
    INFO(name << " is imported: define it in interpose/loader/plain_libc.cpp, or name it in tests/process/imports.txt");
    CHECK(allowed.count(name) == 1);
  }
  for (const std::string& name : allowed) {
    INFO(name << " stands in tests/process/imports.txt and is not imported any more");
    CHECK(imported.count(name) == 1);
  }
  // If a needed library were missing, the program could not start.
  CHECK(first_captures(symbols, " U (\\w+)").empty());
}

TEST_CASE("the library defines no symbol versions", "[exports]") {
  const std::string versions = binutils("readelf", {"-V", "--wide"});
  if (versions.empty()) return;
  CHECK_FALSE(has(versions, "Version definition section"));
}

TEST_CASE("the library exports its table and nothing else", "[exports]") {
  const std::string symbols = binutils("nm", {"-D", "--defined-only"});
  if (symbols.empty()) return;
  const std::string table = source_text("interpose/driver/hooks.def");
  const std::string map = source_text("interpose/exports.map");
  if (table.empty() || map.empty()) {
    WARN("skipped: the source is not here");
    return;
  }
  std::set<std::string> hooks = first_captures(table, "^[A-Z_0-9]+ *\\( *(cu\\w+)");
  REQUIRE(hooks.size() > 100);
  // The few functions of libc that the library answers are named one by one in the map; only the hooks come by pattern.
  const std::set<std::string> named = first_captures(map, "^ *(\\w+);$");
  REQUIRE(named.count("dlsym") == 1);
  for (const char* name :
       {"__cxa_atexit", "__cxa_throw", "__cxa_rethrow", "__cxa_begin_catch", "_Unwind_RaiseException", "pthread_exit",
        "pthread_cancel", "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE"}) {
    INFO(name);
    CHECK(named.count(name) == 1);
    CHECK(first_captures(symbols, " T (" + std::string(name) + ")$").size() == 1);
  }
  for (const std::string& name : first_captures(symbols, " [A-Za-z] (\\S+)$")) {
    if (hooks.erase(name) != 0) continue;
    INFO(name << " is exported and no row of hooks.def");
    CHECK((named.count(name) == 1 || name.rfind("culprit_", 0) == 0));
  }
  for (const std::string& name : hooks) {
    INFO(name << " is a row of hooks.def and not exported");
    CHECK(false);
  }
}

}  // namespace culprit::test
