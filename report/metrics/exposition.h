// Metrics as text: Prometheus's format 0.0.4 and OpenMetrics 1.0.0.
#pragma once

#include <string>
#include <string_view>

#include "report/metrics/process_sample.h"

namespace culprit::report {

struct Exposition {
  std::string prometheus;
  std::string openmetrics;
};

inline constexpr char kPrometheusType[] = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr char kOpenMetricsType[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Whether a client with this header `Accept` reads OpenMetrics.
bool accepts_openmetrics(std::string_view accept);

Exposition exposition_of(const Observation& observation);

}  // namespace culprit::report
