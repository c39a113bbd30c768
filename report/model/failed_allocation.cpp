#include "report/model/failed_allocation.h"

#include <algorithm>
#include <utility>

#include "report/base/words.h"
#include "report/cuda/cuda_names.h"
#include "report/model/breakdown.h"
#include "report/model/frame_order.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

// Of two calls at one time, which only different processes have: the smaller in size, then in its innermost frames.
bool is_earlier(const FailedAllocation& left, const FailedAllocation& right) {
  if (left.first_ns != right.first_ns) return left.first_ns < right.first_ns;
  if (left.bytes != right.bytes) return left.bytes < right.bytes;
  return precedes(left.stack, right.stack);
}

std::string calls_text(const FailedAllocation& failed) {
  const bool allocates = failed.bytes != 0;
  return plural(failed.count, allocates ? "allocation" : "call", allocates ? "allocations" : "calls");
}

// "; the first asked for 4 MiB at worker.cpp:12 work".
std::string first_text(const FailedAllocation& failed) {
  const std::string which = failed.count == 1 ? "; it" : "; the first";
  const std::string asked = failed.bytes != 0 ? which + " asked for " + format_bytes(failed.bytes) : "";
  const Frame* frame = naming_frame(*failed.stack);
  if (frame == nullptr) return asked;
  return (failed.bytes != 0 ? asked + " at " : which + " was made at ") + frame_text(*frame);
}

}  // namespace

void FailedAllocations::add(const FailedAllocation& one) {
  const auto [at, added] = sums_.try_emplace({one.api, one.driver_api, one.code, one.injected}, one);
  if (added) return;
  FailedAllocation& sum = at->second;
  const std::uint64_t count = sum.count + one.count;
  const std::uint64_t last_ns = std::max(sum.last_ns, one.last_ns);
  if (is_earlier(one, sum)) sum = one;
  sum.count = count;
  sum.last_ns = last_ns;
}

std::vector<FailedAllocation> FailedAllocations::take() {
  std::vector<FailedAllocation> list;
  for (auto& [key, sum] : sums_) list.push_back(std::move(sum));
  sums_.clear();
  std::stable_sort(list.begin(), list.end(), [](const FailedAllocation& left, const FailedAllocation& right) {
    return left.count > right.count;
  });
  return list;
}

std::string failure_reason(const FailedAllocation& failed) {
  if (failed.injected) return "culprit made it fail (CULPRIT_FAIL)";
  return cuda_failure_reason(failed.code);
}

std::string failed_title(const FailedAllocation& failed) { return calls_text(failed) + " FAILED"; }

std::string failed_sentence(const FailedAllocation& failed) {
  return printable(failed.api) + " returned " + failed.code_name + " (" + std::to_string(failed.code) +
         "): " + failure_reason(failed) + first_text(failed);
}

std::string failed_allocation_text(const FailedAllocation& failed) {
  return failed_title(failed) + ": " + failed_sentence(failed);
}

bool is_shown_by(const FailedAllocation& failed, const Breakdown& breakdown) {
  return breakdown.out_of_memory && !failed.injected && failed.code_name == "CUDA_ERROR_OUT_OF_MEMORY" &&
         failed.api == breakdown.api;
}

std::string beside_breakdown_text(const FailedAllocation& failed, const Breakdown& breakdown) {
  const bool is_first = failed.bytes == breakdown.asked_bytes && failed.stack->frames == breakdown.stack->frames;
  if (failed.count == 1 || (failed.count == breakdown.times && is_first)) return {};
  return calls_text(failed) + " failed in all" + first_text(failed);
}

}  // namespace culprit::report
