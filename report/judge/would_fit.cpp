// Each rule returns its sentence, or "" when it does not apply.
#include "report/judge/would_fit.h"

#include <algorithm>
#include <string>

#include "report/base/words.h"
#include "report/judge/out_of_memory.h"
#include "report/model/frame_text.h"

namespace culprit::report {
namespace {

constexpr char kWould[] = "would have fit ";

std::string gpu_of(const OutOfMemory& failure) {
  return failure.breakdown->device ? "GPU " + std::to_string(*failure.breakdown->device) : "the GPU";
}

std::uint64_t total_idle(const OutOfMemory& failure) {
  std::uint64_t bytes = 0;
  for (const IdleMemory& idle : failure.idle) bytes += idle.bytes;
  return bytes;
}

std::string when_free_memory_is_not_known(const OutOfMemory& failure) {
  if (failure.breakdown->memory.total_bytes != 0) return {};
  return "whether it would have fit is not known: free memory was not read, because a stream was being captured";
}

std::string when_its_need_is_not_known(const OutOfMemory& failure) {
  if (failure.breakdown->asked_bytes != 0) return {};
  std::string text = "whether it would have fit is not known: " + printable(failure.breakdown->api) +
                     " does not say how much memory it needs, and " +
                     format_bytes(failure.breakdown->memory.free_bytes) + " were free";
  for (const IdleMemory& idle : failure.idle)
    text += "; " + format_bytes(idle.bytes) + (idle.cache == nullptr ? " were " : " were idle in the ") + idle.name;
  return text;
}

std::string never(const OutOfMemory& failure) {
  const std::uint64_t total = failure.breakdown->memory.total_bytes;
  if (failure.breakdown->asked_bytes <= total) return {};
  return "would never have fit: the request is larger than " + gpu_of(failure) + ", which has " + format_bytes(total);
}

std::string when_there_was_room(const OutOfMemory& failure) {
  if (failure.missing != 0) return {};
  return "would have fit: " + format_bytes(failure.breakdown->memory.free_bytes) +
         " were free a moment later; memory was freed meanwhile, or a pool has a limit";
}

// The smallest pool whose idle memory is enough.
std::string after_a_trim(const OutOfMemory& failure) {
  const IdleMemory* smallest = nullptr;
  for (const IdleMemory& idle : failure.idle) {
    if (idle.cache == nullptr && idle.bytes >= failure.missing) smallest = &idle;
  }
  if (smallest == nullptr) return {};
  return kWould + ("after a trim: " + format_bytes(smallest->bytes)) + " were " + smallest->name + ": " +
         balance_advice(smallest->part);
}

// The reason of most idle bytes of the cache.
std::string remedy_of(const CacheInside& cache) {
  switch (cache.idle.empty() ? IdleReason::kNotKnown : cache.idle.front().why) {
    case IdleReason::kHoles:
      return " were in one piece: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    case IdleReason::kPrivatePool:
      return " were not kept for CUDA graphs: let them share a pool (torch.cuda.graph_pool_handle)";
    case IdleReason::kPending:
      return " were not waiting for another stream: synchronize before";
    default:
      return " had been given back: torch.cuda.empty_cache() and its like";
  }
}

std::string with_idle_cache(const OutOfMemory& failure) {
  for (const IdleMemory& idle : failure.idle) {
    if (idle.cache != nullptr && idle.bytes >= failure.missing)
      return kWould + ("if the " + format_bytes(idle.bytes)) + " that are idle in the " + idle.name +
             remedy_of(*idle.cache);
  }
  return {};
}

std::string with_all_idle_memory(const OutOfMemory& failure) {
  const std::uint64_t bytes = total_idle(failure);
  if (failure.idle.size() < 2 || bytes < failure.missing) return {};
  return kWould + ("without all idle memory, " + format_bytes(bytes)) + " in " + std::to_string(failure.idle.size()) +
         " pools and caches";
}

// Not the tensors of which nothing is known.
bool is_named(const HolderLine& line) {
  return line.what != LineOf::kTensors || !line.file.empty() || !line.held_by.empty();
}

// The smallest line that is enough, and the largest line.
std::string without_one_line(const OutOfMemory& failure) {
  std::string place;
  std::uint64_t bytes = 0;
  const auto offer = [&](std::uint64_t offered, const std::string& text) {
    if (offered < failure.missing || (!place.empty() && offered >= bytes)) return;
    bytes = offered;
    place = text;
  };
  for (const HolderLine& line : failure.lines) {
    if (!is_named(line)) continue;
    for (const LineCaller& caller : line.callers) offer(caller.bytes, frame_text(*caller.frame));
    if (line.callers.empty()) offer(line.bytes, line_place(line));
  }
  // All callers of a line together.
  if (place.empty()) {
    for (const HolderLine& line : failure.lines) {
      if (is_named(line)) offer(line.bytes, line_place(line));
    }
  }
  if (place.empty()) return {};
  const HolderLine& largest = failure.lines.front();
  const bool is_caller = !largest.callers.empty() && largest.callers.front().bytes >= failure.missing;
  const std::string most = is_caller ? frame_text(*largest.callers.front().frame) : line_place(largest);
  const std::uint64_t most_bytes = is_caller ? largest.callers.front().bytes : largest.bytes;
  std::string text = kWould + ("without the " + format_bytes(bytes)) + " of " + place;
  if (most != place) text += ", or without the " + format_bytes(most_bytes) + " of " + most;
  return text;
}

std::string without_driver_memory(const OutOfMemory& failure) {
  if (failure.balance == nullptr) return {};
  const BalanceItem* smallest = nullptr;
  for (const BalanceItem& item : failure.balance->items) {
    switch (item.what) {
      case BalancePart::kAllocations:
      case BalancePart::kCached:
      case BalancePart::kContexts:
      case BalancePart::kPoolReserve:
      case BalancePart::kCustomPoolReserve:
      case BalancePart::kGraphPoolReserve:
      case BalancePart::kRest:
        continue;
      default:
        break;
    }
    if (item.bytes > 0 && static_cast<std::uint64_t>(item.bytes) >= failure.missing) smallest = &item;
  }
  if (smallest == nullptr) return {};
  const std::string advice = balance_advice(smallest->what);
  return kWould + ("without the " + format_bytes(static_cast<std::uint64_t>(smallest->bytes))) + " of " +
         balance_words(smallest->what) + (advice.empty() ? "" : ": " + advice);
}

// NVML's list of the other processes; nullptr: it is not known, or this process may be one of them.
const GpuCharges* others_of(const OutOfMemory& failure) {
  if (failure.breakdown->charges.empty()) return nullptr;
  const GpuCharges& charges = failure.breakdown->charges.front();
  return charges.problem.empty() && !charges.foreign_numbers ? &charges : nullptr;
}

// The smallest process that had enough, else all together.
std::string without_charged_processes(const OutOfMemory& failure, const GpuCharges& charges) {
  const ChargedProcess* enough = nullptr;
  std::uint64_t bytes = 0;
  for (const ChargedProcess& process : charges.others) {
    if (!process.bytes_known) continue;
    bytes += process.bytes;
    if (process.bytes >= failure.missing && (enough == nullptr || process.bytes <= enough->bytes)) enough = &process;
  }
  if (enough != nullptr) {
    return kWould + ("without the " + format_bytes(enough->bytes)) + " of process " + std::to_string(enough->pid) +
           (enough->name.empty() ? "" : " (" + printable(enough->name) + ")");
  }
  if (bytes < failure.missing) return {};
  return kWould + ("without the " + plural(charges.others.size(), "other process", "other processes")) +
         ", which had " + format_bytes(bytes);
}

bool is_whole(const GpuCharges& charges) {
  return charges.left_out == 0 && std::all_of(charges.others.begin(), charges.others.end(),
                                              [](const ChargedProcess& process) { return process.bytes_known; });
}

// A first context takes about half a GiB itself.
std::string without_other_processes(const OutOfMemory& failure) {
  constexpr std::uint64_t kContext = 1 << 30;
  if (const GpuCharges* charges = others_of(failure)) {
    std::string text = without_charged_processes(failure, *charges);
    if (!text.empty() || is_whole(*charges)) return text;
  }
  if (failure.others_at_most < kContext || failure.others_at_most - kContext < failure.missing) return {};
  return kWould + std::string("without other processes: they and this process's first context had ") +
         format_bytes(failure.others_at_most);
}

std::string without_lines(const OutOfMemory& failure) {
  std::uint64_t bytes = total_idle(failure);
  std::size_t count = 0;
  while (bytes < failure.missing && count < failure.lines.size()) bytes += failure.lines[count++].bytes;
  if (bytes < failure.missing || count == 0) return {};
  const std::string lines = count == 1 ? "the largest line above" : "the " + std::to_string(count) + " largest lines";
  return kWould + ("without " + lines) + (failure.idle.empty() ? "" : " and all idle memory") + ", " +
         format_bytes(bytes) + " together";
}

// Memory that the driver takes in any process with such kernels.
std::uint64_t needed_by_the_driver(const OutOfMemory& failure) {
  std::uint64_t taken = 0;
  if (failure.balance != nullptr) {
    for (const BalanceItem& item : failure.balance->items) {
      const bool needed = item.what == BalancePart::kModules || item.what == BalancePart::kLocalMemory ||
                          (item.what == BalancePart::kContexts && !failure.balance->others_included);
      if (needed && item.bytes > 0) taken += static_cast<std::uint64_t>(item.bytes);
    }
  }
  return taken;
}

std::string on_an_empty_device(const OutOfMemory& failure) {
  const std::uint64_t total = failure.breakdown->memory.total_bytes;
  const std::uint64_t needed = needed_by_the_driver(failure);
  if (needed > total || failure.breakdown->asked_bytes > total - needed) return {};
  return kWould + std::string("on an empty GPU only: all that is known to be in use is not enough");
}

std::string never_beside_the_driver(const OutOfMemory& failure) {
  return "would never have fit: the request and the driver's own memory, " +
         format_bytes(needed_by_the_driver(failure)) + ", are larger than " + gpu_of(failure) + ", which has " +
         format_bytes(failure.breakdown->memory.total_bytes);
}

}  // namespace

void choose_rule(OutOfMemory* failure) {
#define WOULD_FIT(name, rule_function)          \
  failure->rule = name;                         \
  failure->would_fit = rule_function(*failure); \
  if (!failure->would_fit.empty()) return;
#include "report/judge/would_fit.def"
}

}  // namespace culprit::report
