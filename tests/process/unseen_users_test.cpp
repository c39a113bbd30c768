// Libraries that call the driver past the hooks are always reported.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

std::string library(const std::string& name) { return subject_path(name + ".so").string(); }

// Whether the program runs without the library: NVIDIA's driver cannot be loaded twice in every way.
bool runs_alone(const std::vector<std::string>& arguments) {
  RunOptions alone;
  alone.preload = false;
  const Run plain = run_preloaded("loads_apart", arguments, alone);
  INFO("alone: " << plain.out << plain.err);
  const bool runs = plain.out == "worked: 0\n";
  CHECK((runs || on_gpu()));
  if (!runs) WARN("left out: it does not run on this driver, with or without us");
  return runs;
}

const char* const kLibraries[] = {"apart_driver", "apart_runtime", "apart_by_name"};

// The library that the note names: the runtime, if it is the one that holds the driver's addresses.
std::string named(const std::string& name) { return name == "apart_runtime" ? "libcudart.so" : name + ".so"; }

}  // namespace

TEST_CASE("a library whose calls cannot be seen is named, and the program runs as without us", "[unseen]") {
  for (const char* how : {"deepbind", "namespace"}) {
    for (const char* name : kLibraries) {
      INFO(how << " " << name);
      if (!runs_alone({how, library(name)})) continue;
      const Run run = run_preloaded("loads_apart", {how, library(name)});
      CHECK(run.exit_code == 0);
      CHECK(run.out == "worked: 0\n");
      INFO(run.err);
      CHECK(has(run.err, "calls the CUDA driver past culprit"));
      REQUIRE(run.dumps.size() == 1);

      const Run reported = culprit_run({}, {"loads_apart", how, library(name)});
      INFO(reported.err);
      CHECK(reported.exit_code == 4);
      CHECK(reported.out == "worked: 0\n");
      CHECK(has(reported.err, "NOT KNOWN: "));
      CHECK(has(reported.err, std::string(how) == "namespace" ? std::string(name) + ".so has a CUDA driver of its own"
                                                              : named(name)));
      CHECK(has(reported.err, "NOT KNOWN: nothing was recorded"));
      CHECK_FALSE(has(reported.err, "NOTHING LEAKED"));
    }
  }
}

TEST_CASE("a library whose calls cannot be seen is named beside what was recorded", "[unseen]") {
  for (const char* how : {"deepbind", "namespace"}) {
    for (const char* name : {"apart_driver", "apart_by_name"}) {
      INFO(how << " " << name);
      if (!runs_alone({how, library(name), "own"})) continue;
      const Run run = run_preloaded("loads_apart", {how, library(name), "own"});
      CHECK(run.out == "worked: 0\n");
      const Report report = read_report(run.dump());
      CHECK(report.leaked_bytes() == 20001);
      CHECK(report.json.at("summary").at("complete") == false);
      REQUIRE(report.json.at("unseen").size() == 1);
      const nlohmann::json& unseen = report.json.at("unseen").at(0);
      CHECK(unseen.at("how") == (std::string(how) == "namespace" ? "namespace" : "direct"));
      CHECK(has(unseen.at("module").get<std::string>(), name));
    }
  }
}

TEST_CASE("a library that is loaded as usual is seen, and is not reported", "[unseen]") {
  for (const char* name : kLibraries) {
    INFO(name);
    const Run run = run_preloaded("loads_apart", {"plain", library(name)});
    CHECK(run.out == "worked: 0\n");
    const Report report = read_report(run.dump());
    CHECK(report.leaked_bytes() == 11001);
    CHECK(report.json.at("unseen").empty());
    CHECK(report.json.at("summary").at("complete") == true);
  }
}

}  // namespace culprit::test
