// The line about other processes at a failure with out of memory, in text.
#include <sstream>

#include "report/render/text/render_balance.h"
#include "report/render/text/render_breakdown.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

// A failure at 1 ms, and NVML's answer.
std::string line_of(const GpuCharges& charges, bool all = false) {
  static const ResolvedStack kNoStack;
  Report report;
  Breakdown breakdown;
  breakdown.out_of_memory = true;
  breakdown.device = 0;
  breakdown.time_ns = 1000000;
  breakdown.stack = &kNoStack;
  breakdown.charges = {charges};
  report.breakdowns = {breakdown};
  RenderOptions options;
  options.all = all;
  std::ostringstream out;
  render_failures(report, options, out);
  const std::string text = out.str();
  const std::size_t begin = text.find("\nothers  ") + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

GpuCharges answer() {
  GpuCharges charges;
  charges.asked_ns = 3000000;
  return charges;
}

}  // namespace

TEST_CASE("other processes when memory ran out", "[report][gpu-users]") {
  GpuCharges charges = answer();
  CHECK(line_of(charges) == "others  NVML, 2.00 ms after the failure: no other process");
  charges.others = {{7, "a\x1b[1mb", true, 5 << 20}, {8, "", false, 0}};
  charges.own_known = true;
  charges.own_bytes = 3 << 20;
  CHECK(line_of(charges) ==
        "others  NVML, 2.00 ms after the failure: 5.00 MiB by 7 (a?[1mb) · memory by 8; 3.00 MiB by "
        "this process");
  charges.own_known = false;
  charges.after_end = charges.foreign_numbers = true;
  CHECK(line_of(charges) ==
        "others  NVML, 2.00 ms after the failure and after the end of this process: 5.00 MiB by 7 "
        "(a?[1mb) · memory by 8; the numbers are of another PID namespace, and this process may be "
        "one of them");
  charges = answer();
  charges.asked_ns = 5;  // a hostile file
  charges.left_out = 2;
  for (std::uint32_t pid = 1; pid <= 7; ++pid) charges.others.push_back({pid, "", true, 1});
  CHECK(line_of(charges) ==
        "others  NVML, 0.00 ms after the failure: 1 B by 1 · 1 B by 2 · 1 B by 3 · 1 B by 4 · 1 B by "
        "5 · and 4 more");
  CHECK(contains(line_of(charges, true), " · 1 B by 7 · and 2 more"));
  charges.problem = "NVML cannot be used: no\nlibrary";
  CHECK(line_of(charges) == "others  not known: NVML cannot be used: no?library");
}

TEST_CASE("NVML's figure beside the balance", "[report][gpu-users]") {
  Balance balance;
  balance.items = {{BalancePart::kContexts, 500 << 20}};
  CHECK(charge_text(balance, "no\tway") ==
        "the balance explains 500 MiB; NVML's figure for this process is not known: no?way");
  balance.in_use = 520 << 20;
  balance.items.push_back({BalancePart::kRest, 20 << 20});
  CHECK(charge_text(balance, "") == "NVML says 520 MiB for this process; the balance explains 500 MiB");
  balance.contexts_at_most = true;
  std::ostringstream out;
  render_balance_items(balance, "now ", 4, out);
  CHECK(out.str() == "now 500 MiB contexts at most, made beside other processes + 20.0 MiB rest (not known)\n");
}
