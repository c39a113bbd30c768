#include "report/judge/breakdowns.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "interpose/format/device_bytes.h"
#include "report/judge/stack_owners.h"
#include "report/model/pool.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {

using namespace format;

namespace {

bool looks_the_same(const BreakdownEntry& left, const BreakdownEntry& right) {
  return left.kind == right.kind && left.api == right.api &&
         std::equal(left.stack->frames.begin(), left.stack->frames.end(), right.stack->frames.begin(),
                    right.stack->frames.end(), [](const Frame* a, const Frame* b) { return a->code == b->code; });
}

// Equal places may have several addresses, as in group_merge.h, so they are added up.
void add(const BreakdownEntry& entry, std::vector<BreakdownEntry>* entries) {
  for (BreakdownEntry& known : *entries) {
    if (!looks_the_same(known, entry)) continue;
    known.bytes += entry.bytes;
    known.count += entry.count;
    return;
  }
  entries->push_back(entry);
}

Breakdown breakdown_of(const BreakdownRecord& record, const Dump& dump, const StackResolver& stacks,
                       StackOwners* owners) {
  Breakdown breakdown;
  breakdown.out_of_memory = record.reason == BreakdownReason::kOutOfMemory;
  breakdown.device = device_of(record.device);
  breakdown.time_ns = record.time_ns;
  breakdown.stack = &stacks.stack(record.stack);
  if (breakdown.out_of_memory) breakdown.api = api_of(dump, record.api, *breakdown.stack);
  breakdown.asked_bytes = record.asked_bytes;
  breakdown.times = record.times;
  if (record.free_bytes <= record.total_bytes)
    breakdown.memory = {record.time_ns, record.free_bytes, record.total_bytes};
  breakdown.live_bytes = record.live_bytes;
  breakdown.live_count = record.live_count;
  breakdown.other_bytes = record.other_bytes;
  breakdown.other_count = record.other_count;
  breakdown.other_stacks = record.other_stacks;
  for (const BreakdownShare& share : record.shares) {
    if (share.count == 0) continue;
    const ResolvedStack& stack = stacks.stack(share.stack);
    const Pool* pool = owners->pool(stack);
    add({&stack, api_of(dump, share.api, stack), share.kind, share.bytes, share.count,
         pool == nullptr ? "" : pool->name},
        &breakdown.entries);
  }
  std::stable_sort(breakdown.entries.begin(), breakdown.entries.end(),
                   [](const BreakdownEntry& left, const BreakdownEntry& right) { return left.bytes > right.bytes; });
  return breakdown;
}

}  // namespace

std::vector<Breakdown> read_breakdowns(const std::vector<BreakdownRecord>& records, const Dump& dump,
                                       const StackResolver& stacks, StackOwners* owners) {
  std::vector<Breakdown> breakdowns;
  for (const BreakdownRecord& record : records) {
    if (record.reason == BreakdownReason::kPeak || record.reason == BreakdownReason::kOutOfMemory)
      breakdowns.push_back(breakdown_of(record, dump, stacks, owners));
  }
  // A crash may leave two peaks of one device: the higher one comes first and is kept.
  std::stable_sort(breakdowns.begin(), breakdowns.end(), [](const Breakdown& left, const Breakdown& right) {
    auto order = [](const Breakdown& one) {
      return std::make_tuple(!one.out_of_memory, one.out_of_memory ? 0 : one.device.value_or(~0U),
                             one.out_of_memory ? ~one.time_ns : ~one.live_bytes);
    };
    return order(left) < order(right);
  });
  const auto same_peak = [](const Breakdown& left, const Breakdown& right) {
    return !left.out_of_memory && !right.out_of_memory && left.device == right.device;
  };
  breakdowns.erase(std::unique(breakdowns.begin(), breakdowns.end(), same_peak), breakdowns.end());
  return breakdowns;
}

std::vector<Breakdown> read_freed_at_end(const std::vector<BreakdownRecord>& records, const Dump& dump,
                                         const StackResolver& stacks, StackOwners* owners) {
  using Key = std::tuple<std::uint8_t, Ref, std::uint16_t, Kind>;
  std::map<Key, std::pair<std::uint64_t, std::uint64_t>> live;  // bytes and number
  const auto ends = [](const BreakdownRecord& record) { return record.reason == BreakdownReason::kPythonEnds; };
  if (std::none_of(records.begin(), records.end(), ends)) return {};
  dump.for_each_allocation([&](const AllocationRecord& record, Ref) {
    auto& [bytes, count] = live[{record.device, record.stack, record.api, record.kind}];
    bytes += physical_bytes(record);
    ++count;
  });
  std::vector<Breakdown> breakdowns;
  for (BreakdownRecord record : records) {
    if (!ends(record)) continue;
    for (BreakdownShare& share : record.shares) {
      const ResolvedStack& stack = stacks.stack(share.stack);
      const auto still = live.find({record.device, share.stack, share.api, share.kind});
      if (still != live.end()) {
        share.bytes -= std::min(share.bytes, still->second.first);
        share.count -= std::min(share.count, still->second.second);
      }
      const bool own = owners->pool(stack) == nullptr && owners->library(stack).empty();
      if (share.bytes == 0 || !own) share.count = 0;
    }
    // Of stacks outside of the list it is not known how much was freed.
    record.other_bytes = record.other_count = record.other_stacks = 0;
    Breakdown breakdown = breakdown_of(record, dump, stacks, owners);
    breakdown.live_bytes = breakdown.live_count = 0;
    for (const BreakdownEntry& entry : breakdown.entries) {
      breakdown.live_bytes += entry.bytes;
      breakdown.live_count += entry.count;
    }
    if (!breakdown.entries.empty()) breakdowns.push_back(std::move(breakdown));
  }
  std::sort(breakdowns.begin(), breakdowns.end(),
            [](const Breakdown& left, const Breakdown& right) { return left.device < right.device; });
  return breakdowns;
}

void add_charges(const std::vector<GpuAnswer>& answers, std::vector<Breakdown>* breakdowns) {
  for (Breakdown& breakdown : *breakdowns) {
    if (!breakdown.out_of_memory || !breakdown.device) continue;
    const auto first = std::find_if(answers.begin(), answers.end(), [&](const GpuAnswer& answer) {
      return answer.device == *breakdown.device && answer.charges.asked_ns >= breakdown.time_ns;
    });
    if (first != answers.end()) breakdown.charges.push_back(first->charges);
  }
}

}  // namespace culprit::report
