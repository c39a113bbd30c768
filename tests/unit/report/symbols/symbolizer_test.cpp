// The symbolizer on a real program: inlined calls, templates, C functions, without symbols, with separate debug files.
#include "report/symbols/symbolizer.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::has;

namespace {

const std::string kFolder = CULPRIT_SUBJECT_DIR;

struct Place {
  std::uint64_t return_address;
  unsigned line;
};

// Runs the subject, which prints places in its own code.
std::map<std::string, Place> places_of(const std::string& program) {
  std::map<std::string, Place> places;
  FILE* pipe = ::popen(program.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char name[64];
  unsigned long long address = 0;
  unsigned line = 0;
  while (std::fscanf(pipe, "%63s %llx %u", name, &address, &line) == 3) places[name] = {address, line};
  REQUIRE(::pclose(pipe) == 0);
  REQUIRE(places.size() == 5);
  return places;
}

ModuleSymbols look_up(const std::string& file, const std::map<std::string, Place>& places,
                      const SymbolOptions& options = {}, const std::vector<std::uint8_t>& build_id = {}) {
  std::vector<ModuleSymbols> modules(1);
  modules[0].path = file;
  modules[0].build_id = build_id;
  for (const auto& [name, place] : places) modules[0].addresses.push_back(place.return_address - 1);
  look_up_symbols(modules, options);
  REQUIRE(modules[0].locations.size() == places.size());
  return modules[0];
}

// Answers by the subject's names.
std::map<std::string, std::vector<CodeLocation>> named(const std::map<std::string, Place>& places,
                                                       const ModuleSymbols& module) {
  std::map<std::string, std::vector<CodeLocation>> result;
  std::size_t i = 0;
  for (const auto& [name, place] : places) result[name] = module.locations[i++];
  return result;
}

void check_full(const std::map<std::string, Place>& places, const ModuleSymbols& module) {
  CHECK(module.state == ModuleState::kFound);
  CHECK(module.has_debug_info);
  auto at = named(places, module);
  REQUIRE(at["inlined"].size() == 2);
  CHECK(at["inlined"][0].function == "shapes::Solver::inlined_step");
  CHECK(at["inlined"][0].inlined);
  CHECK(at["inlined"][0].line == places.at("inlined").line);
  CHECK(at["inlined"][1].function == "shapes::Solver::step");
  CHECK_FALSE(at["inlined"][1].inlined);
  CHECK(at["inlined"][1].line == places.at("inlined").line + 3);
  const std::map<std::string, std::string> functions = {
      {"templated", "shapes::templated<double>"}, {"plain", "plain_c"}, {"hidden", "(anonymous namespace)::hidden"}};
  for (const auto& [name, function] : functions) {
    INFO(name);
    REQUIRE(at[name].size() == 1);
    CHECK(at[name][0].function == function);
    CHECK(at[name][0].line == places.at(name).line);
    CHECK(has(at[name][0].file, "/symbols/symbol_subject.cpp"));
  }
#if defined(__clang__)
  CHECK(at["lambda"].back().function.find("main::$_0") == 0);
#else
  CHECK(at["lambda"].back().function.find("main::{lambda(int)#1}") == 0);
#endif
  CHECK(at["lambda"].back().line == places.at("lambda").line);
}

}  // namespace

TEST_CASE("functions, lines and inlined calls of a program", "[report][symbols]") {
  for (const char* name : {"/symbol_subject", "/symbol_subject_fixed"}) {
    INFO(name);
    const auto places = places_of(kFolder + name);
    check_full(places, look_up(kFolder + name, places));
  }
}

TEST_CASE("a stripped program shows its dynamic symbols", "[report][symbols]") {
  const auto places = places_of(kFolder + "/symbol_subject");
  const ModuleSymbols module = look_up(kFolder + "/stripped", places);
  CHECK(module.state == ModuleState::kFound);
  CHECK_FALSE(module.has_debug_info);
  auto at = named(places, module);
  REQUIRE(at["plain"].size() == 1);
  CHECK(at["plain"][0].function == "plain_c");
  CHECK_FALSE(at["plain"][0].approximate);
  CHECK(at["plain"][0].symbol_offset > 0);
  CHECK(at["plain"][0].file.empty());
  REQUIRE(at["hidden"].size() == 1);
  CHECK(at["hidden"][0].approximate);
}

TEST_CASE("debug information in another file is found by its link", "[report][symbols]") {
  const auto places = places_of(kFolder + "/symbol_subject");
  CHECK_FALSE(look_up(kFolder + "/split", places).has_debug_info);
  SymbolOptions options;
  options.debug_dirs = {kFolder + "/debug"};
  check_full(places, look_up(kFolder + "/split", places, options));
}

TEST_CASE("a sysroot is put in front", "[report][symbols]") {
  const auto places = places_of(kFolder + "/symbol_subject");
  SymbolOptions options;
  options.sysroot = kFolder;
  check_full(places, look_up("/symbol_subject", places, options));
  check_full(places, look_up("/debug/../symbol_subject", places, options));
  // A stranger's dump chooses no file above it.
  const std::string name = std::filesystem::path(kFolder).filename().string();
  for (const std::string above : {"/../", "/debug/../../", "/./../"}) {
    CHECK(look_up(above + name + "/symbol_subject", places, options).state == ModuleState::kNoFile);
  }
}

TEST_CASE("another build ID means no symbols rather than wrong ones", "[report][symbols]") {
  const auto places = places_of(kFolder + "/symbol_subject");
  const ModuleSymbols module = look_up(kFolder + "/symbol_subject", places, {}, std::vector<std::uint8_t>(20, 0xab));
  CHECK(module.state == ModuleState::kChanged);
  for (const auto& locations : module.locations) CHECK(locations.empty());
}

TEST_CASE("a file that is no program is named, not guessed at", "[report][symbols]") {
  const std::map<std::string, Place> places = {{"x", {0x1000, 1}}};
  CHECK(look_up("/nonexistent/libfoo.so", places).state == ModuleState::kNoFile);
  CHECK(look_up("", places).state == ModuleState::kNoFile);
  CHECK(look_up("[vdso]", places).state == ModuleState::kNoFile);
  CHECK(look_up("/etc/passwd", places).state == ModuleState::kUnreadable);
  CHECK(look_up("/dev/null", places).state == ModuleState::kUnreadable);
  CHECK(look_up("/", places).state == ModuleState::kUnreadable);
}

TEST_CASE("many modules are looked up at once", "[report][symbols]") {
  const auto places = places_of(kFolder + "/symbol_subject");
  std::vector<ModuleSymbols> modules(12);
  for (ModuleSymbols& module : modules) {
    module.path = kFolder + "/symbol_subject";
    for (const auto& [name, place] : places) module.addresses.push_back(place.return_address - 1);
  }
  SymbolOptions options;
  options.threads = 4;
  look_up_symbols(modules, options);
  for (const ModuleSymbols& module : modules) check_full(places, module);
}
