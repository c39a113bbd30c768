// Balances: a part of the text report.
#pragma once

#include <ostream>
#include <string>

#include "report/model/balance.h"
#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// Whether there is more in a balance than allocations.
bool explains_more(const Balance& balance);

// The parts of a balance in as few lines as they fit in. `prefix`: of the first line.
void render_balance_line(const Balance& balance, const std::string& prefix, std::ostream& out);

// Likewise, however little there is. `indent`: of the lines after the first.
void render_balance_items(const Balance& balance, const std::string& prefix, std::size_t indent, std::ostream& out);

// For a process that runs: "NVML says 1.21 GiB for this process; the balance explains 1.20 GiB".
std::string charge_text(const Balance& balance, const std::string& why_not_charged);

// The balance of each device in full: its parts, how to take less, and the calls that took most.
void render_balances(const Report& report, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
