#include "report/judge/balances.h"

#include <algorithm>
#include <cstring>

#include "interpose/format/live_memory.h"
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

ShareRecord share_of(const std::vector<ShareRecord>& shares, const BalanceRecord& balance) {
  for (const ShareRecord& share : shares) {
    if (share.device == balance.device && share.moment == balance.moment && share.time_ns == balance.time_ns)
      return share;
  }
  return {};
}

DeviceShare device_share(const ShareRecord& record, std::uint64_t in_use) {
  DeviceShare share;
  share.recorded = record.state != 0;
  if (!share.recorded) return share;
  share.problem = record.account.problem;
  share.not_attributed = record.not_attributed;
  if (share.problem != GpuProblem::kNone) return share;
  share.own = std::min(record.account.own_bytes, in_use);
  share.processes = record.account.others;
  for (const GpuNeighbour& neighbour : record.account.largest) {
    if (neighbour.pid == 0) continue;
    ChargedProcess process;
    process.pid = neighbour.pid;
    process.name.assign(neighbour.name, ::strnlen(neighbour.name, sizeof(neighbour.name)));
    process.bytes_known = neighbour.bytes != 0;
    process.bytes = neighbour.bytes;
    share.largest.push_back(std::move(process));
  }
  return share;
}

// The parts that are from readings of the whole device, though other processes may have been in them.
std::uint32_t uncertain_parts(const ShareRecord& share) { return share.state == 0 ? ~0U : share.unproven; }

bool is_unproven(const ShareRecord& share, BalancePart part) {
  for (std::uint32_t i = 1; i < kDriverMemoryKinds; ++i) {
    if (part != BalancePart::kRest && part_of(static_cast<DriverMemory>(i)) == part)
      return (share.unproven >> i & 1) != 0;
  }
  return false;
}

// `in_use`: by which the rest is known. `dropped`: the kinds of the driver's memory that are left in the rest.
Balance balance_of(const BalanceRecord& record, const Report& report, std::optional<std::uint64_t> in_use,
                   std::uint32_t dropped = 0) {
  Balance balance;
  balance.device = record.device;
  balance.moment = record.moment;
  balance.time_ns = record.time_ns;
  balance.total = record.total_bytes;
  balance.in_use = in_use.value_or(0);
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
  const bool as_at_end = record.moment == Moment::kExit || record.moment == Moment::kNone;
  const std::int64_t cached = as_at_end ? std::min(allocated, cached_on(report, balance.device)) : 0;
  add(BalancePart::kAllocations, allocated - cached);
  add(BalancePart::kCached, cached);
  add(BalancePart::kPoolReserve, idle(record.default_reserved, record.default_used));
  add(BalancePart::kCustomPoolReserve, idle(record.custom_reserved, record.custom_used));
  add(BalancePart::kGraphPoolReserve, idle(record.graph_reserved, record.graph_used));
  for (std::uint32_t i = 1; i < kDriverMemoryKinds; ++i) {
    const BalancePart part = part_of(static_cast<DriverMemory>(i));
    if (part == BalancePart::kRest) continue;
    if ((dropped >> i & 1) == 0) {
      add(part, record.taken[i]);
    } else if (record.taken[i] != 0) {
      balance.not_known.push_back({part, 0});
    }
  }
  // By the driver's rule, as far as there is room for it: other drivers have other blocks.
  const std::int64_t blocks = std::max<std::int64_t>(as_signed(record.in_blocks) - as_signed(record.allocated), 0);
  add(BalancePart::kBlocks, in_use ? std::clamp<std::int64_t>(rest, 0, blocks) : blocks);
  std::stable_sort(balance.items.begin(), balance.items.end(),
                   [](const BalanceItem& left, const BalanceItem& right) { return left.bytes > right.bytes; });
  if (in_use) balance.items.push_back({BalancePart::kRest, rest});
  return balance;
}

bool is_plausible(const BalanceRecord& record) {
  // Figures of a damaged dump: sums of these do not overflow.
  constexpr std::uint64_t kMost = 1ULL << 56;
  bool plausible = record.device != kNoDevice && record.free_bytes <= record.total_bytes;
  for (const std::uint64_t bytes :
       {record.total_bytes, record.allocated, record.in_blocks, record.physical, record.managed,
        record.default_reserved, record.default_used, record.custom_reserved, record.custom_used, record.graph_reserved,
        record.graph_used})
    plausible = plausible && bytes < kMost;
  for (const std::int64_t bytes : record.taken)
    plausible = plausible && bytes < as_signed(kMost) && bytes > -as_signed(kMost);
  return plausible;
}

// The bytes of the first contexts of the process on the device: memory of others may be in them.
std::int64_t first_contexts(const Report& report, unsigned device) {
  std::uint64_t bytes = 0;
  for (const ContextInfo& context : report.contexts) {
    if (context.device == device && context.others_included && !context.ended) bytes += context.bytes;
  }
  return as_signed(bytes);
}

}  // namespace

namespace {

// With NVML's account, memory of this process, of other ones and of none are rows of their own. A first context that
// was made before NVML could be asked has at most the bytes that the account leaves for it.
Balance balance_with_share(BalanceRecord record, const Report& report, const ShareRecord& share, bool first_context) {
  constexpr std::int64_t kLowestRest = -(4 << 20);
  constexpr auto kContexts = static_cast<std::size_t>(DriverMemory::kContexts);
  const std::uint64_t in_use = record.total_bytes - record.free_bytes;
  const DeviceShare device = device_share(share, in_use);
  const std::uint64_t measured = device.is_known() ? device.own : in_use;
  bool beside = share.seen_others != 0 || device.processes != 0;
  std::uint32_t dropped = 0;
  for (std::uint32_t i = 1; i < kDriverMemoryKinds; ++i) {
    if (record.taken[i] < 0) dropped |= 1U << i;
  }
  bool at_most = false;
  Balance balance = balance_of(record, report, measured, dropped);
  ShareRecord proofs = share;
  if (device.is_known() && (share.unproven >> kContexts & 1) != 0) {
    // In the figure of this process nothing of others is left.
    const std::uint32_t without = beside ? dropped | uncertain_parts(share) : dropped;
    record.taken[kContexts] = 0;
    proofs.unproven &= static_cast<std::uint16_t>(~(1U << kContexts));
    record.taken[kContexts] = std::max<std::int64_t>(balance_of(record, report, measured, without).rest(), 0);
    at_most = true;
    balance = balance_of(record, report, measured, dropped);
  }
  // Figures that contradict one another: another process was there, also if no answer named it.
  beside = beside || dropped != 0 || balance.rest() < kLowestRest;
  const bool unexplained = device.is_known() && record.unmeasured == 0 && balance.rest() > -kLowestRest;
  if (beside || (unexplained && proofs.unproven != 0))
    balance = balance_of(record, report, measured, dropped | uncertain_parts(proofs));
  balance.in_use = in_use;
  balance.share = device;
  balance.contexts_at_most = at_most;
  balance.others_included = !device.is_known() && first_context;
  if (!device.is_known()) {
    for (const BalanceItem& item : balance.items) {
      if (is_unproven(share, item.what) && (item.what != BalancePart::kContexts || !balance.others_included))
        balance.unproven.push_back({item.what, 0});
    }
    return balance;
  }
  const std::uint64_t others = std::min(share.account.others_bytes, in_use - device.own);
  const auto before_rest = [&](BalancePart what, std::uint64_t bytes) {
    if (bytes != 0) balance.items.insert(balance.items.end() - 1, {what, as_signed(bytes)});
  };
  before_rest(BalancePart::kOtherProcesses, others);
  before_rest(BalancePart::kNoProcess, in_use - device.own - others);
  return balance;
}

}  // namespace

std::vector<Balance> read_balances(const Dump& dump, const Report& report) {
  const std::vector<ContextRecord> contexts = dump.contexts();
  const std::vector<ShareRecord> shares = dump.shares();
  std::vector<Balance> balances;
  for (const BalanceRecord& record : dump.balances()) {
    const bool known =
        record.moment == Moment::kPeak || record.moment == Moment::kOutOfMemory || record.moment == Moment::kExit;
    if (!known || !is_plausible(record)) continue;
    balances.push_back(
        balance_with_share(record, report, share_of(shares, record), others_included(record.device, contexts)));
  }
  std::stable_sort(balances.begin(), balances.end(), [](const Balance& left, const Balance& right) {
    return left.device != right.device ? left.device < right.device : left.moment > right.moment;
  });
  return balances;
}

void mark_charges_beside_others(Report* report) {
  for (CallCharge& charge : report->call_charges) {
    charge.beside_others = std::any_of(report->balances.begin(), report->balances.end(), [&](const Balance& balance) {
      return balance.device == charge.device && balance.is_not_known(charge.what);
    });
  }
}

std::vector<BalanceRecord> read_present_use(const Dump& dump, const Report& report,
                                            const std::vector<CallChargeRecord>& call_charges) {
  std::vector<BalanceRecord> present;
  if (report.process.status.ended != Ended::kRunning || report.snapshot_ns != 0) return present;
  for (const DeviceInfo& device : report.devices) {
    if (device.ordinal >= kNoDevice) continue;
    BalanceRecord record = {};
    record.device = static_cast<std::uint8_t>(device.ordinal);
    present.push_back(record);
  }
  std::vector<LiveMemory> live(present.size());
  std::vector<std::size_t> place(kNoDevice + 1U, present.size());  // by ordinal
  for (std::size_t i = 0; i < present.size(); ++i) place[present[i].device] = i;
  dump.for_each_allocation([&](const AllocationRecord& record, Ref) {
    if (place[record.device] < live.size()) live[place[record.device]].add(record);
  });
  for (const CallChargeRecord& charge : call_charges) {
    const auto what = static_cast<std::size_t>(charge.what);
    const std::size_t at = place[charge.device];
    if (at == present.size() || charge.context == kNoIndex || what >= kDriverMemoryKinds) continue;
    if (__builtin_add_overflow(present[at].taken[what], charge.bytes, &present[at].taken[what]))
      present[at].taken[what] = INT64_MAX;
  }
  for (std::size_t i = 0; i < present.size(); ++i) {
    live[i].write(&present[i]);
    present[i].default_used = present[i].default_reserved = present[i].from_pools;
    present[i].graph_used = present[i].graph_reserved = present[i].from_graphs;
    present[i].flags = kBalanceExecutables;
  }
  present.erase(
      std::remove_if(present.begin(), present.end(), [](const BalanceRecord& record) { return !is_plausible(record); }),
      present.end());
  return present;
}

std::optional<Balance> balance_now(const Report& report, unsigned device, std::optional<std::uint64_t> charged) {
  const auto found = std::find_if(report.present_use.begin(), report.present_use.end(),
                                  [&](const BalanceRecord& record) { return record.device == device; });
  if (found == report.present_use.end()) return std::nullopt;
  if (charged.value_or(0) > INT64_MAX) charged.reset();
  BalanceRecord record = *found;
  std::int64_t explained = 0;
  const Balance known = balance_of(record, report, std::nullopt);
  for (const BalanceItem& item : known.items) explained += item.what == BalancePart::kBlocks ? 0 : item.bytes;
  const std::int64_t first = first_contexts(report, device);
  if (!charged || explained <= as_signed(*charged) || first <= 0) {
    Balance balance = balance_of(record, report, charged);
    balance.others_included = !charged && first > 0;
    return balance;
  }
  // NVML's figure is of this process alone.
  record.taken[static_cast<std::size_t>(DriverMemory::kContexts)] -= std::min(explained - as_signed(*charged), first);
  Balance balance = balance_of(record, report, charged);
  balance.contexts_at_most = true;
  return balance;
}

std::vector<CallCharge> read_call_charges(const std::vector<CallChargeRecord>& records, const Dump& dump,
                                          const StackResolver& stacks) {
  std::vector<CallCharge> call_charges;
  for (const CallChargeRecord& record : records) {
    if (record.device == kNoDevice) continue;
    CallCharge charge;
    charge.device = record.device;
    charge.what = part_of(record.what);
    charge.stack = &stacks.stack(record.stack);
    charge.api = api_of(dump, record.api, *charge.stack);
    charge.bytes = record.bytes;
    charge.count = record.count;
    charge.first_ns = record.first_ns;
    charge.last_ns = record.last_ns;
    charge.ended = record.context == kNoIndex;
    charge.made = record.made;
    charge.most_live = std::min(record.most_live, record.made);
    charge.live = std::min(record.live, record.most_live);
    call_charges.push_back(std::move(charge));
  }
  std::stable_sort(call_charges.begin(), call_charges.end(),
                   [](const CallCharge& left, const CallCharge& right) { return left.bytes > right.bytes; });
  return call_charges;
}

namespace {

bool allocated_on(const DeviceInfo& device) {
  return device.first.total_bytes != 0 || device.live_bytes != 0 || device.peak_live_bytes != 0 ||
         device.time_line.peak_bytes != 0 || device.pool_reserved != 0;
}

// Something else than its contexts made the driver take memory there.
bool is_used_otherwise(const Report& report, unsigned device) {
  return std::any_of(report.call_charges.begin(), report.call_charges.end(), [&](const CallCharge& charge) {
    return charge.device == device && charge.what != BalancePart::kContexts && charge.bytes > 0;
  });
}

// The bytes of the process on the device besides contexts.
std::uint64_t leftovers_on(const Report& report, const DeviceInfo& device) {
  std::uint64_t bytes = device.live_bytes;
  for (const CallCharge& charge : report.call_charges) {
    if (charge.device == device.ordinal && charge.what != BalancePart::kContexts && charge.bytes > 0 && !charge.ended)
      bytes += static_cast<std::uint64_t>(charge.bytes);
  }
  return bytes;
}

// Whether the process worked on this device for one stretch, and then on another one, which had more memory: by the
// order of its work alone.
bool was_left(const Report& report, const DeviceInfo& own) {
  constexpr std::uint64_t kMostLeft = 8 << 20;
  // A copy of what was loaded there may follow later (load_state_dict).
  constexpr std::uint32_t kMostLaunches = 2;
  if (own.made_stretches != 1 || own.launch_stretches > kMostLaunches || own.live_bytes > kMostLeft) return false;
  return std::any_of(report.devices.begin(), report.devices.end(), [&](const DeviceInfo& other) {
    return other.peak_live_bytes > own.peak_live_bytes && other.last_made > own.last_made;
  });
}

// A first context of which no answer came in time has what other processes had on its device then. The account of a
// later moment leaves less for it.
void take_others_out(const Report& report, std::vector<ContextInfo>* contexts) {
  for (ContextInfo& first : *contexts) {
    if (!first.others_included || first.ended) continue;
    const Balance* last = nullptr;
    for (const Balance& balance : report.balances) {
      const bool known = balance.device == first.device && balance.share.is_known() && balance.contexts_at_most;
      if (known && (last == nullptr || balance.time_ns > last->time_ns)) last = &balance;
    }
    if (last == nullptr) continue;
    std::int64_t bytes = last->bytes_of(BalancePart::kContexts);
    for (const ContextInfo& other : *contexts) {
      if (&other != &first && other.device == first.device && !other.ended) bytes -= as_signed(other.bytes);
    }
    if (bytes <= 0 || as_signed(first.bytes) <= bytes) continue;
    first.bytes = static_cast<std::uint64_t>(bytes);
    // Memory of calls without a reading is in the figure, too.
    first.others_included = last->unmeasured != 0;
  }
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
    // The reading has memory of other processes, and nothing tells how much.
    context.beside_others =
        context.others_included && std::any_of(report.balances.begin(), report.balances.end(), [&](const Balance& one) {
          return one.device == context.device && one.is_not_known(BalancePart::kContexts);
        });
    if (context.beside_others) context.bytes = 0;
    const DeviceInfo* own = nullptr;
    for (const DeviceInfo& device : report.devices) {
      if (device.ordinal == context.device) {
        own = &device;
      } else if (allocated_on(device)) {
        context.allocates_on.push_back(device.ordinal);
      }
    }
    const bool candidate =
        !context.ended && context.kind != Kind::kGreenContext && own != nullptr && !context.allocates_on.empty();
    const bool empty = candidate && !allocated_on(*own) && !is_used_otherwise(report, context.device);
    context.stray = empty || (candidate && recorded_all(report) && was_left(report, *own));
    if (context.stray && !empty) context.leftover_bytes = leftovers_on(report, *own);
    contexts.push_back(std::move(context));
  }
  take_others_out(report, &contexts);
  std::stable_sort(contexts.begin(), contexts.end(), [](const ContextInfo& left, const ContextInfo& right) {
    return left.created_ns < right.created_ns;
  });
  return contexts;
}

}  // namespace culprit::report
