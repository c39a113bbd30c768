// What libculprit.so shows to the process that it is preloaded into: libc only, no versions, the hooks and nothing else.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/process/run_preloaded.h"

namespace culprit::test {
namespace {

// What a binutils program says about the library; empty when the machine has no such program.
std::string binutils(const std::string& program, const std::vector<std::string>& options) {
  const std::string path = "/usr/bin/" + program;
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path);
    return "";
  }
  std::vector<std::string> argv = {path};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(library_path().string());
  SpawnOptions english;
  english.environment["LC_ALL"] = "C";
  const Finished finished = spawn(argv, english);
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  return finished.out;
}

std::set<std::string> first_captures(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  std::set<std::string> result;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) result.insert((*match)[1].str());
  return result;
}

}  // namespace

TEST_CASE("the library needs libc and the loader only", "[exports]") {
  const std::string dynamic = binutils("readelf", {"-d", "--wide"});
  if (dynamic.empty()) return;
  const std::set<std::string> needed = first_captures(dynamic, "\\(NEEDED\\).*\\[(.*)\\]");
  CHECK(needed.count("libc.so.6") == 1);
  for (const std::string& name : needed) {
    INFO(name);
    // An older glibc keeps dlopen and the threads in libraries of their own.
    const std::set<std::string> allowed = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libdl.so.2", "libpthread.so.0"};
    CHECK(allowed.count(name) == 1);
  }
}

TEST_CASE("the library defines no symbol versions", "[exports]") {
  const std::string versions = binutils("readelf", {"-V", "--wide"});
  if (versions.empty()) return;
  CHECK(versions.find("Version definition section") == std::string::npos);
}

TEST_CASE("the library exports its table and nothing else", "[exports]") {
  const std::string symbols = binutils("nm", {"-D", "--defined-only"});
  if (symbols.empty()) return;
  std::ifstream table(CULPRIT_SOURCE_DIR "/interpose/hooks.def");
  if (!table) {
    WARN("skipped: the source is not here");
    return;
  }
  std::stringstream text;
  text << table.rdbuf();
  std::set<std::string> hooks = first_captures(text.str(), "^[A-Z_0-9]+ *\\( *(cu\\w+)");
  REQUIRE(hooks.size() > 100);
  for (const std::string& name : first_captures(symbols, " [A-Za-z] (\\S+)$")) {
    if (hooks.erase(name) != 0) continue;
    INFO(name << " is exported and no row of hooks.def");
    // dlsym answers for the table; the culprit_ names are the library's own interface.
    CHECK((name == "dlsym" || name.rfind("culprit_", 0) == 0));
  }
  for (const std::string& name : hooks) {
    INFO(name << " is a row of hooks.def and not exported");
    CHECK(false);
  }
}

}  // namespace culprit::test
