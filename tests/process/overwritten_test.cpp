// A variable that was assigned anew without a free is named, and nothing else is called overwritten.
#include <filesystem>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

constexpr std::uint64_t kOverwrittenBytes = 11001;
constexpr std::uint64_t kTimesOverwritten = 5;

RunOptions overwritten_options() {
  RunOptions options;
  options.environment["CULPRIT_QUIET"] = "1";
  options.environment["CULPRIT_SCAN"] = "lost";
  return options;
}

struct OverwrittenFound {
  std::vector<nlohmann::json> overwritten;
  std::string search;
  std::uint64_t leaked = 0;
};

OverwrittenFound overwritten_after(const std::string& subject, const std::string& how,
                                   const RunOptions& options = overwritten_options()) {
  const Run run = run_preloaded(subject, {how}, options);
  INFO(subject << " " << how << ": " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  OverwrittenFound found = {{}, report.json.at("holder_search").at("lost"), report.leaked_count()};
  for (const nlohmann::json& one : report.json.value("overwritten", nlohmann::json::array()))
    found.overwritten.push_back(one);
  return found;
}

// As for lost memory: on a GPU a stale word hides one about once in 400 runs.
OverwrittenFound overwriting_after(const std::string& subject, const std::string& how) {
  OverwrittenFound found = overwritten_after(subject, how);
  return on_gpu() && found.overwritten.empty() ? overwritten_after(subject, how) : found;
}

struct OverwrittenWay {
  const char* how;
  const char* variable;
  const char* place;
  std::uint64_t bytes = kOverwrittenBytes;
};

const std::vector<OverwrittenWay> kOverwrittenWays = {
    {"global", "g_buffer", "variable"},
    {"typed", "g_text", "variable"},
    {"out-parameter", "g_buffer", "variable"},
    {"adjacent", "g_buffer", "variable", 1 << 20},
    {"static", "last", "variable"},
    {"thread-local", "t_buffer", "variable"},
    {"sometimes-freed", "g_buffer", "variable"},
    {"member", "g_settings.engine.buffer", "variable"},
    {"member-in-heap", "g_engine->buffer", "member"},
    {"unique", "g_owner->buffer", "member"},
    {"map", "g_map[\"weights\"]", "value"},
    {"hash", "g_table[7].buffer", "value"},
};

// A compiler's debug information says that `text` is constant there.
bool is_told_wrongly(const std::string& build, const std::string& how) {
  return build == "overwritten_clang_O2" && how == "local-by-lambda";
}

struct LocalWay {
  const char* how;
  const char* variable;
  const char* function;
  const char* place;
};

// The functions run when the program ends.
const std::vector<LocalWay> kLocalWays = {
    {"local", "buffer", "overwrite_local", "local"},
    {"local-returned", "returned", "overwrite_returned", "local"},
    {"local-member", "settings.engine.buffer", "overwrite_local_member", "local"},
    {"local-in-block", "inner", "overwrite_in_block", "block"},
    {"local-by-lambda", "text", "overwrite_out_of_callee", "local"},
};

// Memory that is lost, or not, in ways that only look like that.
const std::vector<std::string> kNotOverwritten = {
    "vector", "array", "list",       "set",  "engines",    "nodes",  "other-line", "other-caller",
    "first",  "ring",  "freed-ring", "swap", "freed-swap", "middle", "thrown",     "threads"};

// Copies of the pointer in variables of functions, which other places have, too, or which had no other one before.
const std::vector<std::string> kNotOverwrittenLocals = {"local-pushed", "local-array", "local-parameter"};

}  // namespace

TEST_CASE("a variable of a function that runs at the end is overwritten", "[overwritten][lost]") {
  for (const std::string& build : builds_of("overwritten")) {
    for (const LocalWay& way : kLocalWays) {
      if (is_told_wrongly(build, way.how)) continue;
      INFO(build << " " << way.how);
      const OverwrittenFound found = overwriting_after(build, way.how);
      CHECK(found.search == "done");
      REQUIRE(found.overwritten.size() == 1);
      const nlohmann::json& one = found.overwritten[0];
      CHECK(one.at("variable") == way.variable);
      CHECK(one.at("function") == way.function);
      CHECK(one.at("place") == way.place);
      CHECK(one.at("count") == kTimesOverwritten - 1);
      CHECK(one.at("bytes") == (kTimesOverwritten - 1) * kOverwrittenBytes);
      CHECK(has(one.at("module").get<std::string>(), build));
    }
    for (const std::string& how : kNotOverwrittenLocals) {
      INFO(build << " " << how);
      CHECK(overwritten_after(build, how).overwritten.empty());
    }
    // Another function has it than the one that allocated; without optimization that one has a copy in its loop.
    for (const nlohmann::json& one : overwritten_after(build, "local-in-callee").overwritten)
      CHECK(one.at("place") == "block");
  }
}

TEST_CASE("a variable that was assigned anew without a free is overwritten", "[overwritten][lost]") {
  for (const std::string& build : builds_of("overwritten")) {
    for (const OverwrittenWay& way : kOverwrittenWays) {
      INFO(build << " " << way.how);
      const OverwrittenFound found = overwriting_after(build, way.how);
      CHECK(found.search == "done");
      CHECK(found.leaked == kTimesOverwritten);
      REQUIRE(found.overwritten.size() == 1);
      const nlohmann::json& one = found.overwritten[0];
      CHECK(has(one.at("variable").get<std::string>(), way.variable));
      CHECK(one.at("place") == way.place);
      CHECK(one.at("count") == kTimesOverwritten - 1);
      CHECK(one.at("bytes") == (kTimesOverwritten - 1) * way.bytes);
      CHECK(has(one.at("module").get<std::string>(), build));
      CHECK(one.at("api") == "cudaMalloc");
      CHECK(!one.at("stack").empty());
    }
  }
}

TEST_CASE("elements, rings, swaps, other lines and threads are not called overwritten", "[overwritten][lost]") {
  for (const std::string& build : builds_of("overwritten")) {
    for (const std::string& how : kNotOverwritten) {
      INFO(build << " " << how);
      const OverwrittenFound found = overwritten_after(build, how);
      CHECK(found.search == "done");
      CHECK(found.leaked >= 1);
      CHECK(found.overwritten.empty());
    }
  }
}

TEST_CASE("overwritten memory is known only where lost memory is", "[overwritten][lost]") {
  RunOptions options = overwritten_options();
  options.environment["CULPRIT_SCAN"] = "exit";
  CHECK(overwritten_after("overwritten_O0", "global", options).overwritten.empty());
}

TEST_CASE("the text names the overwritten variable", "[overwritten][lost]") {
  const auto text_after = [](const char* how) {
    const Run run = run_preloaded("overwritten_O0", {how}, overwritten_options());
    return run_culprit({"report", run.dump().string()}).out;
  };
  CHECK(
      has(text_after("local"), "buffer of overwrite_local() was overwritten 4 times without a free, 43.0 KiB lost\n"));
  CHECK(has(text_after("local-in-block"),
            "inner of overwrite_in_block() was overwritten 4 times without a free (or its block was left)"));
  const std::string text = text_after("global");
  CHECK(has(text, "g_buffer was overwritten 4 times without a free, 43.0 KiB lost\n"));
  CHECK(has(text, "free what `g_buffer` has before it gets another pointer"));
  CHECK(
      has(text_after("unique"), "g_owner->buffer was overwritten 4 times without a free (or its object was replaced)"));
  CHECK(has(text_after("map"), "g_map[\"weights\"] was overwritten 4 times without a free (or entries were erased)"));
}

}  // namespace culprit::test
