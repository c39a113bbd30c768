// Joins what the processes of a job exported with what others of them still have open.
#pragma once

#include <vector>

#include "report/model/report.h"

namespace culprit::report {

// Fills Report::shared of each report from Report::sharings of all: an entry is in the report of the importer and in
// that of the exporter. The order of the reports makes no difference.
void join_sharings(const std::vector<Report*>& reports);

}  // namespace culprit::report
