// Balances, contexts without use, and executable graphs that grow in number: parts of the text report.
#pragma once

#include <ostream>

#include "report/model/balance.h"
#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// One line for each context on a device where its process has nothing else.
void render_stray_contexts(const Report& report, const RenderOptions& options, std::ostream& out);

// One line for each line that makes executable graphs again and again and keeps them.
void render_growing_graphs(const Report& report, const RenderOptions& options, std::ostream& out);

// Whether there is more in a balance than allocations.
bool explains_more(const Balance& balance);

// The parts of a balance in as few lines as they fit in. `prefix`: of the first line.
void render_balance_line(const Balance& balance, const std::string& prefix, std::ostream& out);

// The balance of each device in full: its parts, how to take less, and the calls that took most.
void render_balances(const Report& report, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
