// The title of each type of evidence in the page: texts that only the page has.
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "report/causes/evidence_functions.h"
#include "report/render/html/render_html.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

std::string title_of(EvidenceType type, const Evidence& evidence) { return functions_of(type).title(evidence); }

}  // namespace

TEST_CASE("each type of evidence has its title", "[report][causes]") {
  Evidence evidence;
  CHECK(title_of(EvidenceType::kFailedFree, evidence) == "a free refused: ");
  CHECK(title_of(EvidenceType::kException, evidence) == "exception of unknown type");
  evidence.api = "cudaFree";
  evidence.code_name = "CUDA_ERROR_ILLEGAL_ADDRESS";
  evidence.exception = "std::runtime_error";
  evidence.what = "no room";
  CHECK(title_of(EvidenceType::kFailedFree, evidence) == "cudaFree refused: CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(title_of(EvidenceType::kErrorReturn, evidence) == "cudaFree failed: CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(title_of(EvidenceType::kContextTeardown, evidence) == "cudaFree ended its context");
  CHECK(title_of(EvidenceType::kException, evidence) == "std::runtime_error “no room”");
  evidence.count = 3;
  CHECK(title_of(EvidenceType::kGraphLaunch, evidence) == "the graph was launched, 3 times");
  CHECK(title_of(EvidenceType::kLost, evidence) == "no pointer to 3 of them was left at exit");
  evidence.points_to = Cause::kLost;
  CHECK(title_of(EvidenceType::kLost, evidence) == "no pointer to them was left at exit");
  evidence.indirectly = 1;
  CHECK(title_of(EvidenceType::kLost, evidence) ==
        "no pointer to 2 of them was left at exit; only memory that is lost too has pointers to the other one");
  evidence.indirectly = 3;
  CHECK(title_of(EvidenceType::kLost, evidence) == "only memory that is lost too has pointers to them");
  evidence.forced = true;
  CHECK(title_of(EvidenceType::kException, evidence) == "thread unwound by pthread_exit or cancellation");
  Module module;
  module.path = "/lib/libfoo.so";
  Variable variable;
  variable.module = &module;
  evidence.variable = &variable;
  CHECK(title_of(EvidenceType::kHeld, evidence) == "a global of libfoo.so");
  variable.name = "g_cache";
  CHECK(title_of(EvidenceType::kHeld, evidence) == "g_cache in libfoo.so");
}

TEST_CASE("the page shows memory that a Python object holds", "[report][causes]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"main"}), 4096));
  Report report = program.report();
  Variable variable;
  variable.python = true;
  variable.name = "model.weight of a torch.nn.Linear";
  Evidence evidence;
  evidence.type = EvidenceType::kHeld;
  evidence.points_to = Cause::kHeld;
  evidence.variable = &variable;
  report.leaks.at(0).cause = Cause::kHeld;
  report.leaks[0].evidence = {evidence};
  std::ostringstream page;
  render_html({report}, {}, page);
  const nlohmann::json data = nlohmann::json::parse(page_data(page.str()));
  CHECK(data["reports"][0]["leaks"][0]["evidence"][0]["title"] == variable.name);
}
