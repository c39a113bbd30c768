#include "report/judge/explainer.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/base/words.h"
#include "report/judge/pool_rules.h"
#include "report/judge/would_fit.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

template <typename List>
void sort_by_bytes(List* list) {
  std::stable_sort(list->begin(), list->end(),
                   [](const auto& left, const auto& right) { return left.bytes > right.bytes; });
}

const Frame* frame_of(const BreakdownEntry& entry) {
  const Pool* pool = entry.pool.empty() ? nullptr : pool_by_name(entry.pool);
  return pool != nullptr ? user_of_pool(*entry.stack, *pool) : naming_frame(*entry.stack);
}

std::uint32_t place_of(const Frame* frame) { return frame == nullptr ? 0 : frame->place; }

using Entries = std::vector<const BreakdownEntry*>;

// The callers at the first frame, from the line outward, at which the stacks differ.
std::vector<LineCaller> callers_of(const Entries& entries) {
  constexpr std::size_t kMost = 64;  // frames outward
  if (entries.size() < 2 || frame_of(*entries.front()) == nullptr) return {};
  std::vector<std::size_t> lines;  // the line's place in each stack
  for (const BreakdownEntry* entry : entries) {
    const std::vector<const Frame*>& frames = entry->stack->frames;
    lines.push_back(
        static_cast<std::size_t>(std::find(frames.begin(), frames.end(), frame_of(*entry)) - frames.begin()));
  }
  for (std::size_t outward = 1; outward <= kMost; ++outward) {
    std::map<std::uint32_t, LineCaller> sums;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::vector<const Frame*>& frames = entries[i]->stack->frames;
      if (lines[i] + outward >= frames.size()) return {};
      LineCaller& sum = sums[frames[lines[i] + outward]->place];
      sum.frame = frames[lines[i] + outward];
      sum.bytes += entries[i]->bytes;
      sum.count += entries[i]->count;
    }
    if (sums.size() == 1) continue;
    std::vector<LineCaller> callers;
    callers.reserve(sums.size());
    for (const auto& [place, sum] : sums) callers.push_back(sum);
    sort_by_bytes(&callers);
    return callers;
  }
  return {};
}

HolderLine line_of(const Entries& entries) {
  HolderLine line;
  const BreakdownEntry& largest = *entries.front();
  line.what = largest.pool.empty() ? LineOf::kAllocations : LineOf::kSegments;
  line.api = largest.api;
  line.kind = largest.kind;
  line.pool = largest.pool;
  line.stack = largest.stack;
  line.frame = frame_of(largest);
  for (const BreakdownEntry* entry : entries) {
    line.bytes += entry->bytes;
    line.count += entry->count;
  }
  line.callers = callers_of(entries);
  return line;
}

const CacheInside* account_of(const Breakdown& breakdown, const std::string& pool) {
  for (const CacheInside& cache : breakdown.caches) {
    if (cache.pool == pool && !cache.largest.empty()) return &cache;
  }
  return nullptr;
}

// Segments of a cache whose tensors are known are left out.
void add_allocations(const Breakdown& breakdown, std::vector<HolderLine>* lines) {
  std::map<std::tuple<std::uint32_t, format::Kind, std::string>, std::size_t> known;
  std::vector<Entries> groups;
  for (const BreakdownEntry& entry : breakdown.entries) {
    if (!entry.pool.empty() && account_of(breakdown, entry.pool) != nullptr) continue;
    const std::uint32_t place = place_of(frame_of(entry));
    const auto [at, added] = known.try_emplace({place, entry.kind, entry.pool}, groups.size());
    if (added || place == 0) {
      groups.push_back({&entry});
    } else {
      groups[at->second].push_back(&entry);
    }
  }
  for (const Entries& group : groups) lines->push_back(line_of(group));
}

// One line for each place; of several holders that of the most bytes.
void add_tensors(const Breakdown& breakdown, std::vector<HolderLine>* lines) {
  for (const CacheInside& cache : breakdown.caches) {
    const std::size_t first = lines->size();
    for (const CacheInside::Place& place : cache.largest) {
      HolderLine* line = nullptr;
      for (std::size_t i = first; i < lines->size() && !place.file.empty(); ++i) {
        HolderLine& one = (*lines)[i];
        if (one.file == place.file && one.line == place.line) line = &one;
      }
      if (line == nullptr) {
        HolderLine made;
        made.what = LineOf::kTensors;
        made.pool = cache.pool;
        made.file = place.file;
        made.line = place.line;
        made.function = place.function;
        made.held_by = place.held_by;
        lines->push_back(std::move(made));
        line = &lines->back();
      }
      line->bytes += place.bytes;
      line->count += place.count;
    }
  }
}

// Live tensors of which neither line nor holder is known, after all others.
void add_unknown_tensors(const Breakdown& breakdown, std::vector<HolderLine>* lines) {
  for (const CacheInside& cache : breakdown.caches) {
    if (cache.largest.empty()) continue;
    std::uint64_t known = 0;
    for (const CacheInside::Place& place : cache.largest) known += place.bytes;
    if (known >= cache.live_bytes) continue;
    HolderLine rest;
    rest.what = LineOf::kTensors;
    rest.pool = cache.pool;
    rest.bytes = cache.live_bytes - known;
    lines->push_back(std::move(rest));
  }
}

bool is_idle(BalancePart part) {
  return part == BalancePart::kPoolReserve || part == BalancePart::kCustomPoolReserve ||
         part == BalancePart::kGraphPoolReserve;
}

void add_idle(OutOfMemory* failure) {
  if (failure->balance != nullptr) {
    for (const BalanceItem& item : failure->balance->items) {
      if (is_idle(item.what) && item.bytes > 0)
        failure->idle.push_back({balance_words(item.what), item.what, static_cast<std::uint64_t>(item.bytes), nullptr});
    }
  }
  for (const CacheInside& cache : failure->breakdown->caches) {
    if (cache.idle_bytes != 0) failure->idle.push_back({cache.pool, BalancePart::kCached, cache.idle_bytes, &cache});
  }
  sort_by_bytes(&failure->idle);
}

}  // namespace

Explainer::Explainer(const Report& report) {
  for (const Breakdown& breakdown : report.breakdowns) {
    if (!breakdown.out_of_memory || !breakdown.device) continue;
    std::uint64_t& last = last_ns_[{breakdown.process, *breakdown.device}];
    last = std::max(last, breakdown.time_ns);
  }
  for (const Balance& balance : report.balances) {
    if (balance.moment == format::Moment::kOutOfMemory)
      balances_.try_emplace({balance.process, balance.device}, &balance);
  }
  for (const ContextInfo& context : report.contexts) {
    if (context.others_included && !context.ended) first_contexts_[{context.process, context.device}] += context.bytes;
  }
}

// The balance is of the last failure.
const Balance* Explainer::balance_of(const Breakdown& breakdown) const {
  if (!breakdown.device) return nullptr;
  const Place place = {breakdown.process, *breakdown.device};
  const auto at = balances_.find(place);
  const bool is_last = last_ns_.at(place) == breakdown.time_ns;
  return is_last && at != balances_.end() && at->second->time_ns >= breakdown.time_ns ? at->second : nullptr;
}

// Memory in use, less memory that is known to be of this process.
std::uint64_t Explainer::others_at_most(const Balance& balance) const {
  if (balance.share.is_known()) return static_cast<std::uint64_t>(balance.bytes_of(BalancePart::kOtherProcesses));
  const auto context = first_contexts_.find({balance.process, balance.device});
  if (!balance.others_included || context == first_contexts_.end()) return 0;
  const std::uint64_t rest = balance.rest() > 0 ? static_cast<std::uint64_t>(balance.rest()) : 0;
  return std::min(context->second + rest, balance.in_use);
}

OutOfMemory Explainer::explain(const Breakdown& breakdown) const {
  OutOfMemory failure;
  failure.breakdown = &breakdown;
  failure.balance = balance_of(breakdown);
  add_allocations(breakdown, &failure.lines);
  add_tensors(breakdown, &failure.lines);
  sort_by_bytes(&failure.lines);
  add_unknown_tensors(breakdown, &failure.lines);
  add_idle(&failure);
  if (failure.balance != nullptr) failure.others_at_most = others_at_most(*failure.balance);
  if (breakdown.asked_bytes > breakdown.memory.free_bytes)
    failure.missing = breakdown.asked_bytes - breakdown.memory.free_bytes;
  choose_rule(&failure);
  return failure;
}

}  // namespace culprit::report
