// The balance of each device, the calls that made the driver take memory, and the contexts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/model/balance.h"
#include "report/model/report.h"

namespace culprit::report {

class StackResolver;

// `report`: has its leaks; what allocators cache is taken from them.
std::vector<Balance> read_balances(const Dump& dump, const Report& report);

// `report`: has its balances and charges.
void mark_charges_beside_others(Report* report);

// The figures of each device that a process uses now, without those that only the process itself can read: the memory
// in use, and the pools' reserves. Empty unless the process runs.
std::vector<format::BalanceRecord> read_present_use(const Dump& dump, const Report& report,
                                                    const std::vector<format::CallChargeRecord>& call_charges);

// The balance of a process that runs. `charged`: NVML's figure for the process on the device; without it there is no
// rest. Empty when the process has not used the device, or has ended.
std::optional<Balance> balance_now(const Report& report, unsigned device, std::optional<std::uint64_t> charged);

std::vector<CallCharge> read_call_charges(const std::vector<format::CallChargeRecord>& records, const Dump& dump,
                                          const StackResolver& stacks);

// `report`: has its devices and charges.
std::vector<ContextInfo> read_contexts(const Dump& dump, const StackResolver& stacks, const Report& report);

}  // namespace culprit::report
