// The metrics of `culprit metrics`. Their names and labels are an interface (report/manual/metrics.md): add some,
// rename none.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"
#include "report/metrics/process_sample.h"

namespace culprit::report {

// Families without a series are left out.
std::vector<prometheus::MetricFamily> families_of(const Observation& observation);

}  // namespace culprit::report
