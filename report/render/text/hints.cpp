#include "report/render/text/hints.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/causes.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/pool.h"
#include "report/render/text/evidence_text.h"

namespace culprit::report {
namespace {

// After a kernel has failed, every call on its context fails: CUDA Driver API, CUresult, "leaves the process in an
// inconsistent state".
struct RefusalHint {
  int first;  // CUresult
  int last;
  const char* text;  // appended to the name of the refused call
};
// clang-format off
constexpr RefusalHint kRefusals[] = {
    {201, 201, " found no context: make the memory's device current (cudaSetDevice) in the thread that frees"},
    {700, 700, " returned 700 from an earlier kernel error: the memory stays until the context ends"},
    {702, 702, " returned 702 because a kernel ran too long: the memory stays until the context ends"},
    {709, 709, " came after the end of the memory's context: free before the context is destroyed"},
    {710, 710, " returned 710 from an assert in a kernel: the memory stays until the context ends"},
    {714, 719, " fails since a kernel failed: find it with compute-sanitizer; the memory stays until the context ends"},
    {900, 908, " is not allowed while a stream is being captured: free after the capture"},
};
// clang-format on

// "line 33" if it is in the file of the allocation, else "solver.cu:33".
std::string where(const Frame* frame, const Group& group) {
  if (frame == nullptr) return {};
  const Frame* allocated = group.stack->frames.empty() ? nullptr : group.stack->frames.front();
  const bool same_file = allocated != nullptr && !frame->file.empty() && frame->file == allocated->file;
  return same_file && frame->line != 0 ? "line " + std::to_string(frame->line) : spot(frame);
}

std::string at(const Evidence& evidence, const Group& group) {
  const std::string place = where(named_frame(*evidence.stack), group);
  return place.empty() ? "" : " at " + place;
}

std::string failed_free_hint(const Group&, const Evidence& evidence) {
  for (const RefusalHint& hint : kRefusals) {
    if (evidence.code >= hint.first && evidence.code <= hint.last) return printable(evidence.api) + hint.text;
  }
  return {};
}

std::string held_hint(const Group& group, const Evidence& evidence) {
  if (evidence.variable->python) return "drop the reference (del, clear) when it is no longer needed";
  const std::string what = group.count == 1 ? "the pointer" : "the pointers";
  return variable_text(*evidence.variable) + " still has " + what + " at exit: free " +
         (group.count == 1 ? "it" : "them") + " before main returns";
}

std::string exception_hint(const Group& group, const Evidence& evidence) {
  if (evidence.forced) {
    return "free it in a destructor or with pthread_cleanup_push: the thread is unwound without reaching the free";
  }
  if (evidence.uncaught) {
    return "catch " + printable(exception_text(evidence)) + " in main: an uncaught exception runs no destructor";
  }
  return "no free on the path thrown" + at(evidence, group) + ": give the pointer an owner (RAII) before it";
}

std::string error_return_hint(const Group& group, const Evidence& evidence) {
  return "no free on the path after " + printable(evidence.api) + " failed" + at(evidence, group) +
         ": free before returning, or give the pointer an owner (RAII)";
}

std::string context_teardown_hint(const Group& group, const Evidence& evidence) {
  return "free it before " + printable(evidence.api) + at(evidence, group);
}

// The hint when no evidence points to a cause.
std::string never_freed_hint(const Group& group) {
  std::uint64_t threads = group.threads.size();
  auto ended = static_cast<std::uint64_t>(
      std::count_if(group.threads.begin(), group.threads.end(), [](const ThreadInfo& thread) { return thread.ended; }));
  for (const ThreadSum& sum : group.thread_sums) {
    threads += sum.threads;
    ended += sum.ended;
  }
  if (threads != 0 && ended == threads) {
    const std::string& name = group.threads.empty() ? group.thread_sums.front().name : group.threads.front().name;
    const std::string who =
        threads == 1 ? "thread \"" + printable(name) + "\"" : "all " + std::to_string(threads) + " threads";
    return who + " ended without a free: free in the thread, or hand the pointer to a thread that frees it";
  }
  if (group.freed != 0) return "other calls of this line are freed: look for the path that misses the free";
  return {};
}

// An ended thread decides no cause; never_freed_hint() mentions it.
std::string thread_ended_hint(const Group&, const Evidence&) { return {}; }

// The hint for the evidence that decided the cause.
constexpr std::string (*kHints[])(const Group& group, const Evidence& evidence) = {
#define EVIDENCE(type, function, ...) function##_hint,
#include "report/model/causes.def"
};

}  // namespace

std::string hint_for(const Group& group, bool running) {
  if (!group.library.empty()) return {};
  if (group.cause == Cause::kNeverFreed) return running ? std::string() : never_freed_hint(group);
  if (group.pool != nullptr) return group.pool->hint != nullptr ? group.pool->hint : "";
  const Evidence* evidence = deciding_evidence(group);
  return evidence != nullptr ? kHints[static_cast<std::size_t>(evidence->type)](group, *evidence) : "";
}

}  // namespace culprit::report
