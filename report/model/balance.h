// The balance of a device: the purposes of the memory in use at one moment; and the contexts of a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_balance.h"
#include "report/base/compiled_once.h"
#include "report/model/gpu_charges.h"
#include "report/model/thread_info.h"

namespace culprit::report {

struct ResolvedStack;

enum class BalancePart : std::uint8_t {
#define BALANCE_PART(enumerator, ...) enumerator,
#include "report/model/balance.def"
};
constexpr BalancePart kLastBalancePart = BalancePart::kRest;

const char* balance_name(BalancePart part);
const char* balance_words(BalancePart part);
const char* balance_advice(BalancePart part);
const char* moment_name(format::Moment moment);  // "exit", "peak", "out-of-memory", "now"
// The part that the driver's memory belongs to; kRest for one that only a newer version knows.
BalancePart part_of(format::DriverMemory what);

struct BalanceItem {
  BalancePart what = BalancePart::kRest;
  std::int64_t bytes = 0;
};

constexpr char kExecutableAdvice[] = "destroy them with cuGraphExecDestroy, or update one with cuGraphExecUpdate";

// The known part of the use of the memory that the driver took for executable graphs. It keeps that memory when they
// are destroyed, and the next ones use it again. A live one uses at least what the driver took for it; what it uses of
// earlier ones no call tells. So the use is known exactly when none is live, and when the live ones' memory is all
// there is.
struct ExecutableUse {
  bool known = false;
  std::uint64_t live = 0;
  std::uint64_t at_least = 0;  // bytes in use
  std::uint64_t at_most = 0;
};

// NVML's account of the device at the moment of a balance.
struct DeviceShare {
  bool recorded = false;  // false: the dump is of an older version
  format::GpuProblem problem = format::GpuProblem::kNoRun;
  std::uint64_t own = 0;                // charged to the process; known if there is no problem
  std::uint64_t processes = 0;          // others
  std::vector<ChargedProcess> largest;  // of them
  std::uint64_t not_attributed = 0;     // calls whose growth is not known, because of the others
  bool is_known() const { return recorded && problem == format::GpuProblem::kNone; }
};
// "NVML does not list this process (a container that hides it)"
const char* problem_words(format::GpuProblem problem);
// How to get the figure; "": no way is known.
const char* problem_advice(format::GpuProblem problem);

// The balance of a device, as one process sees it.
struct Balance {
  CULPRIT_COMPILED_ONCE(Balance);
  std::uint32_t process = 0;  // in a merged report: index into Report::job
  unsigned device = 0;
  format::Moment moment = format::Moment::kNone;  // kNone: now
  std::uint64_t time_ns = 0;
  std::uint64_t in_use = 0;  // by cuMemGetInfo; now: by this process, as NVML says, if there is a rest
  std::uint64_t total = 0;
  bool others_included = false;   // `in_use` and the contexts have what other processes had on the device, too
  bool contexts_at_most = false;  // now: the first context is what NVML's figure leaves for it
  std::uint64_t unmeasured = 0;   // calls whose growth is not known
  std::uint64_t managed = 0;      // live managed memory: the part that is on the device is in the rest
  // Of one context of the device; all 0: not known.
  std::uint64_t stack_limit = 0;
  std::uint64_t printf_limit = 0;
  std::uint64_t heap_limit = 0;
  std::uint64_t threads = 0;  // that the device can run at a time
  ExecutableUse executables;
  std::vector<BalanceItem> items;  // largest first, the rest last, if it is known; without empty ones
  DeviceShare share;
  std::vector<BalanceItem> not_known;  // beside other processes: what these parts take is in the rest. Without bytes
  // Without NVML's figure: parts that one reading of the whole device told, so that memory of other processes may be in
  // them though nothing contradicts them. Without bytes, and without contexts where `others_included` says it.
  std::vector<BalanceItem> unproven;
  bool has_rest() const { return !items.empty() && items.back().what == BalancePart::kRest; }
  std::int64_t rest() const { return has_rest() ? items.back().bytes : 0; }
  std::int64_t explained() const;  // all but the rest
  std::int64_t bytes_of(BalancePart part) const;
  bool is_not_known(BalancePart part) const;
};

// Calls of one place that made the driver take memory.
struct CallCharge {
  CULPRIT_COMPILED_ONCE(CallCharge);
  std::uint32_t process = 0;
  unsigned device = 0;
  BalancePart what = BalancePart::kRest;
  std::string api;
  const ResolvedStack* stack = nullptr;
  std::int64_t bytes = 0;
  std::uint64_t count = 0;  // of these calls
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  bool ended = false;          // its context ended: the memory was given back
  bool beside_others = false;  // other processes may have changed the figure: a balance does not give its part
  // Of executable graphs: all that these calls made, also those that took nothing. 0: not recorded.
  std::uint64_t made = 0;
  std::uint64_t live = 0;
  std::uint64_t most_live = 0;
  bool growing = false;  // the program makes ever more and keeps them (judge/growing_graphs.h)
};

struct ContextInfo {
  CULPRIT_COMPILED_ONCE(ContextInfo);
  std::uint32_t process = 0;
  unsigned device = 0;
  format::Kind kind = format::Kind::kContext;
  std::string api;
  const ResolvedStack* stack = nullptr;
  std::optional<ThreadInfo> thread;
  std::uint64_t created_ns = 0;
  bool ended = false;
  std::uint64_t bytes = 0;  // that making it took; 0: not known
  // The process's first on its device: `bytes` is all that was in use there then, by other processes too.
  bool others_included = false;
  bool beside_others = false;  // `bytes` is not known, because other processes used the device
  // The process's work is on these devices. On the context's own it has nothing else, or leftovers of one stretch of
  // work: memory that it allocated, and that the driver took for code, streams and the like.
  bool stray = false;
  std::vector<unsigned> allocates_on;
  std::uint64_t leftover_bytes = 0;
};

}  // namespace culprit::report
