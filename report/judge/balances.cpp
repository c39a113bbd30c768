#include "report/judge/balances.h"

#include <algorithm>

#include "report/model/not_recorded.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {

using namespace format;

namespace {

std::int64_t as_signed(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

// Reserved and not used.
std::int64_t idle(std::uint64_t reserved, std::uint64_t used) {
  return reserved > used ? as_signed(reserved - used) : 0;
}

// Memory that caching allocators hold on the device at the end.
std::int64_t cached_on(const Report& report, unsigned device) {
  std::uint64_t bytes = 0;
  for (const Group& group : report.leaks) {
    if (group.cause == Cause::kCached && group.device == device) bytes += group.bytes;
  }
  return as_signed(bytes);
}

// Executables that were made while nothing was recorded may use the memory, too.
bool recorded_all(const Report& report) {
  return !report.process.attached && report.recording.spans.empty() && is_complete(report);
}

ExecutableUse executables_of(const BalanceRecord& record, const Report& report) {
  const std::int64_t signed_taken = record.taken[static_cast<int>(DriverMemory::kGraphExecutables)];
  const std::uint64_t taken = signed_taken > 0 ? static_cast<std::uint64_t>(signed_taken) : 0;
  ExecutableUse use;
  use.known = (record.flags & kBalanceExecutables) != 0 && recorded_all(report);
  if (!use.known) return use;
  use.live = record.executables;
  use.at_least = std::min(record.executables_bytes, taken);
  use.at_most = use.live == 0 ? 0 : taken;
  return use;
}

bool others_included(unsigned device, const std::vector<ContextRecord>& contexts) {
  return std::any_of(contexts.begin(), contexts.end(), [&](const ContextRecord& context) {
    return device_of(context.device) == device && context.state == ContextState::kAlive &&
           (context.flags & kContextFirst) != 0;
  });
}

Balance balance_of(const BalanceRecord& record, const Report& report, const std::vector<ContextRecord>& contexts) {
  Balance balance;
  balance.device = record.device;
  balance.moment = record.moment;
  balance.time_ns = record.time_ns;
  balance.total = record.total_bytes;
  balance.in_use = record.total_bytes - record.free_bytes;
  balance.others_included = others_included(balance.device, contexts);
  balance.unmeasured = record.unmeasured;
  balance.managed = record.managed;
  balance.stack_limit = record.stack_limit;
  balance.printf_limit = record.printf_limit;
  balance.heap_limit = record.heap_limit;
  balance.threads = std::uint64_t{record.multiprocessors} * record.threads;
  balance.executables = executables_of(record, report);
  std::int64_t rest = as_signed(balance.in_use);
  const auto add = [&](BalancePart what, std::int64_t bytes) {
    rest -= bytes;
    if (bytes != 0) balance.items.push_back({what, bytes});
  };
  const std::int64_t allocated =
      as_signed(record.allocated + record.physical + record.default_used + record.custom_used + record.graph_used);
  const std::int64_t cached =
      record.moment == Moment::kExit ? std::min(allocated, cached_on(report, balance.device)) : 0;
  add(BalancePart::kAllocations, allocated - cached);
  add(BalancePart::kCached, cached);
  add(BalancePart::kPoolReserve, idle(record.default_reserved, record.default_used));
  add(BalancePart::kCustomPoolReserve, idle(record.custom_reserved, record.custom_used));
  add(BalancePart::kGraphPoolReserve, idle(record.graph_reserved, record.graph_used));
  for (std::uint32_t i = 1; i < kDriverMemoryKinds; ++i) {
    const BalancePart part = part_of(static_cast<DriverMemory>(i));
    if (part != BalancePart::kRest) add(part, record.taken[i]);
  }
  // By the driver's rule, as far as there is room for it: other drivers have other blocks.
  const std::int64_t blocks = as_signed(record.in_blocks) - as_signed(record.allocated);
  add(BalancePart::kBlocks, std::clamp<std::int64_t>(rest, 0, std::max<std::int64_t>(blocks, 0)));
  std::stable_sort(balance.items.begin(), balance.items.end(),
                   [](const BalanceItem& left, const BalanceItem& right) { return left.bytes > right.bytes; });
  balance.items.push_back({BalancePart::kRest, rest});
  return balance;
}

}  // namespace

std::vector<Balance> read_balances(const Dump& dump, const Report& report) {
  // Figures of a damaged dump: sums of these do not overflow.
  constexpr std::uint64_t kMost = 1ULL << 56;
  const std::vector<ContextRecord> contexts = dump.contexts();
  std::vector<Balance> balances;
  for (const BalanceRecord& record : dump.balances()) {
    const bool known =
        record.moment == Moment::kPeak || record.moment == Moment::kOutOfMemory || record.moment == Moment::kExit;
    bool plausible = record.device != kNoDevice && record.free_bytes <= record.total_bytes;
    for (const std::uint64_t bytes :
         {record.total_bytes, record.allocated, record.in_blocks, record.physical, record.managed,
          record.default_reserved, record.default_used, record.custom_reserved, record.custom_used,
          record.graph_reserved, record.graph_used})
      plausible = plausible && bytes < kMost;
    for (const std::int64_t bytes : record.taken)
      plausible = plausible && bytes < as_signed(kMost) && bytes > -as_signed(kMost);
    if (known && plausible) balances.push_back(balance_of(record, report, contexts));
  }
  std::stable_sort(balances.begin(), balances.end(), [](const Balance& left, const Balance& right) {
    return left.device != right.device ? left.device < right.device : left.moment > right.moment;
  });
  return balances;
}

std::vector<Bill> read_bills(const std::vector<BillRecord>& records, const Dump& dump, const StackResolver& stacks) {
  std::vector<Bill> bills;
  for (const BillRecord& record : records) {
    if (record.device == kNoDevice) continue;
    Bill bill;
    bill.device = record.device;
    bill.what = part_of(record.what);
    bill.stack = &stacks.stack(record.stack);
    bill.api = api_of(dump, record.api, *bill.stack);
    bill.bytes = record.bytes;
    bill.count = record.count;
    bill.first_ns = record.first_ns;
    bill.last_ns = record.last_ns;
    bill.ended = record.context == kNoIndex;
    bill.made = record.made;
    bill.most_live = std::min(record.most_live, record.made);
    bill.live = std::min(record.live, record.most_live);
    bills.push_back(std::move(bill));
  }
  std::stable_sort(bills.begin(), bills.end(),
                   [](const Bill& left, const Bill& right) { return left.bytes > right.bytes; });
  return bills;
}

namespace {

bool allocated_on(const DeviceInfo& device) {
  return device.first.total_bytes != 0 || device.live_bytes != 0 || device.peak_live_bytes != 0 ||
         device.time_line.peak_bytes != 0 || device.pool_reserved != 0;
}

// Something else than its contexts made the driver take memory there.
bool is_used_otherwise(const Report& report, unsigned device) {
  return std::any_of(report.bills.begin(), report.bills.end(), [&](const Bill& bill) {
    return bill.device == device && bill.what != BalancePart::kContexts && bill.bytes > 0;
  });
}

}  // namespace

std::vector<ContextInfo> read_contexts(const Dump& dump, const StackResolver& stacks, const Report& report) {
  std::vector<ContextInfo> contexts;
  for (const ContextRecord& record : dump.contexts()) {
    if (record.device == kNoDevice) continue;
    ContextInfo context;
    context.device = record.device;
    context.kind = record.kind;
    context.stack = &stacks.stack(record.stack);
    context.api = api_of(dump, record.api, *context.stack);
    context.thread = thread_of(dump, record.thread);
    context.created_ns = record.created_ns;
    context.ended = record.state == ContextState::kDestroyed;
    if ((record.flags & (kContextMeasured | kContextFirst)) != 0) context.bytes = record.bytes;
    context.others_included = (record.flags & kContextFirst) != 0;
    const DeviceInfo* own = nullptr;
    for (const DeviceInfo& device : report.devices) {
      if (device.ordinal == context.device) {
        own = &device;
      } else if (allocated_on(device)) {
        context.allocates_on.push_back(device.ordinal);
      }
    }
    context.stray = !context.ended && context.kind != Kind::kGreenContext && own != nullptr && !allocated_on(*own) &&
                    !is_used_otherwise(report, context.device) && !context.allocates_on.empty();
    contexts.push_back(std::move(context));
  }
  std::stable_sort(contexts.begin(), contexts.end(), [](const ContextInfo& left, const ContextInfo& right) {
    return left.created_ns < right.created_ns;
  });
  return contexts;
}

}  // namespace culprit::report
