// CUDA before our own constructor has run: everything that the constructor of another module may do.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

// The leaks of all dumps: a fork child and a replaced program have their own.
std::uint64_t leaks_of(const BothWays& runs) {
  std::uint64_t count = 0;
  for (const std::filesystem::path& dump : runs.under.dumps) {
    const Report report = read_report(dump);
    CHECK(report.json.at("summary").at("complete") == true);
    count += report.leaked_count();
  }
  return count;
}

struct Action {
  const char* name;
  int exit_code;
  std::uint64_t leaks;
};
constexpr Action kActions[] = {{"cuda", 8, 1},  {"lookup", 8, 1},       {"thread", 8, 4}, {"throw", 8, 1},
                               {"fork", 8, 1},  {"plugin", 8, 1},       {"signal", 8, 1}, {"exit", 6, 1},
                               {"_exit", 7, 1}, {"_exit-unused", 7, 0}, {"exec", 8, 2}};

}  // namespace

TEST_CASE("a constructor that runs before ours may do anything, and its memory counts", "[early]") {
  for (const char* program : {"early", "early_first"}) {
    for (const char* where : {"preinit", "library"}) {
      for (const Action& action : kActions) {
        // In the first program our constructor is first.
        if (std::string(program) == "early" && std::string(action.name) != "cuda") continue;
        INFO(program << " " << where << " " << action.name);
        Situation situation{program, {where, action.name, guest_path("namespace_plugin.so").string()}};
        situation.fake_driver_only = true;  // NVIDIA's needs its own constructors
        const BothWays runs = both_ways(situation);
        if (!runs.ran) continue;
        CHECK(runs.alone.exit_code == action.exit_code);
        CHECK(leaks_of(runs) == action.leaks);
      }
    }
  }
}

TEST_CASE("an object that another library constructs before us frees its memory after main", "[early]") {
  for (const char* program : {"early", "early_first"}) {
    INFO(program);
    const BothWays runs = both_ways({program, {"static", "-"}});
    if (runs.ran) CHECK(leaks_of(runs) == 1);
  }
}

}  // namespace culprit::test
