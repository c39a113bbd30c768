// The output of several threads is the same as that of one.
#include "report/base/parallel.h"
#include "report/render/json/render_json.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "report/render/json/json.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr std::size_t kMany = kWorthThreads + 1234;

// Of any length from zero to some kilobytes.
std::string text_of(std::size_t number) {
  return std::to_string(number) + std::string(number * 7919 % 3000, 'x') + "\n";
}

}  // namespace

TEST_CASE("output of many threads stands in order", "[report][parallel]") {
  std::string expected;
  for (std::size_t i = 0; i < kMany; ++i) expected += text_of(i);
  std::ostringstream out;
  write_in_order(kMany, out, [] { return [](std::size_t i, std::string* text) { *text += text_of(i); }; });
  CHECK((out.str() == expected));  // a failure must not print megabytes
  std::ostringstream nothing;
  write_in_order(0, nothing, [] { return [](std::size_t, std::string* text) { *text += "?"; }; });
  CHECK(nothing.str().empty());
}

TEST_CASE("thousands of groups are all written, each with its own frames", "[report][parallel]") {
  Program program;
  for (std::size_t i = 0; i < kMany; ++i) {
    const std::string own = "make" + std::to_string(i);
    program.dump.add_allocation(
        live_allocation(program.stack({own, "shared" + std::to_string(i % 50)}), kMany + 1 - i));
  }
  // A library that was built anew and loaded again, while the program ran.
  const std::uint32_t old_build = program.dump.add_module("/lib/plugin.so", {0x0a});
  const std::uint32_t new_build = program.dump.add_module("/lib/plugin.so", {0x0b});
  for (const std::uint32_t build : {new_build, old_build})
    program.dump.add_allocation(live_allocation(program.dump.add_stack({DumpBuilder::frame(build, 0x100 + build)}), 1));
  const Report report = program.report();
  REQUIRE(report.leaks.size() == kMany + 2);

  std::ostringstream json;
  render_json({report}, json);
  const Json parsed = Json::parse(json.str());
  REQUIRE(parsed["leaks"].size() == kMany + 2);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kMany; ++i) {
    const Json& leak = parsed["leaks"][i];
    const bool right = leak["bytes"] == kMany + 1 - i && leak["stack"].size() == 2 &&
                       leak["stack"][0]["function"] == "make" + std::to_string(i) &&
                       leak["stack"][1]["function"] == "shared" + std::to_string(i % 50) &&
                       leak == Json::parse(group_as_json(report.leaks[i]));
    if (!right) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(parsed["modules"] == Json::parse(R"([{"path": "/bin/app", "build_id": ""},
                                             {"path": "/lib/plugin.so", "build_id": "0a"},
                                             {"path": "/lib/plugin.so", "build_id": "0b"}])"));
}
