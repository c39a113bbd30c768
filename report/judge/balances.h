// The balance of each device, the calls that made the driver take memory, and the contexts.
#pragma once

#include <vector>

#include "report/dump/dump_reader.h"
#include "report/model/balance.h"
#include "report/model/report.h"

namespace culprit::report {

class StackResolver;

// `report`: has its leaks; what allocators cache is taken from them.
std::vector<Balance> read_balances(const Dump& dump, const Report& report);

std::vector<Bill> read_bills(const std::vector<format::BillRecord>& records, const Dump& dump,
                             const StackResolver& stacks);

// `report`: has its devices and bills.
std::vector<ContextInfo> read_contexts(const Dump& dump, const StackResolver& stacks, const Report& report);

}  // namespace culprit::report
