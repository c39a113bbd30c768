#include "report/causes/group_words.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/model/balance.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/pool.h"

namespace culprit::report {
namespace {

// The evidence that gave the group its cause; nullptr if there is none.
const Evidence* deciding_evidence(const Group& group) {
  for (const Evidence& evidence : group.evidence) {
    if (evidence.points_to == group.cause && group.cause != Cause::kNeverFreed) return &evidence;
  }
  return nullptr;
}

constexpr std::uint64_t kManyExecutables = 16;

// The coroutine that allocated: the function that was resumed. nullptr: none is known.
const Frame* coroutine_of(const Group& group) {
  if (group.stack == nullptr) return nullptr;
  const std::vector<const Frame*>& frames = group.stack->frames;
  for (std::size_t i = 1; i < frames.size(); ++i) {
    const std::string_view caller = frames[i]->function;
    constexpr std::string_view kResume = "::resume";
    if (caller.find("coroutine_handle<") != std::string_view::npos && caller.size() > kResume.size() &&
        caller.substr(caller.size() - kResume.size()) == kResume)
      return frames[i - 1];
  }
  return nullptr;
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
  if (group.kind == format::Kind::kGraphMemory)
    return "free it after the last launch: by cudaFreeAsync, or by a graph with a node that frees it";
  if (group.kind == format::Kind::kGraphExec && group.count >= kManyExecutables)
    return std::string(kExecutableAdvice) + ": the driver takes memory for each";
  const Frame* coroutine = coroutine_of(group);
  if (coroutine != nullptr)
    return frame_function(*coroutine) +
           " is a coroutine: when it is destroyed while it waits, no code after its "
           "co_await runs: give the pointer an owner (RAII)";
  if (group.freed != 0) return "other calls of this line are freed: look for the path that misses the free";
  return {};
}

}  // namespace

std::string history_text(const Group& group) {
  if (group.freed == 0) return {};
  std::string text = "freed in " + std::to_string(group.freed) + " of " + plural(group.made, "call", "calls");
  const std::uint64_t leaked = group.made - group.freed;
  const Evidence* evidence = deciding_evidence(group);
  const std::string fate = evidence != nullptr ? functions_of(evidence->type).fate(*evidence, group.count == 1) : "";
  if (fate.empty() || leaked < group.count) return text;
  // Of a program that runs.
  if (leaked == 1) return text + (evidence->now ? "; the one that lives " : "; the one that leaked ") + fate;
  const std::string all = std::to_string(leaked) + (evidence->now ? " that live " : " that leaked ");
  if (leaked == group.count) return text + "; the " + all + "all " + fate;
  return text + "; " + std::to_string(group.count) + " of the " + all + fate;
}

std::string hint_for(const Group& group, bool may_be_freed) {
  if (!group.library.empty()) return {};
  if (group.cause == Cause::kNeverFreed) return may_be_freed ? std::string() : never_freed_hint(group);
  if (group.cause == Cause::kLost) {
    const std::string hint = never_freed_hint(group);
    if (!hint.empty()) return hint;
  }
  if (group.pool != nullptr) return group.pool->hint != nullptr ? group.pool->hint : "";
  const Evidence* evidence = deciding_evidence(group);
  return evidence != nullptr ? functions_of(evidence->type).hint(group, *evidence) : "";
}

}  // namespace culprit::report
