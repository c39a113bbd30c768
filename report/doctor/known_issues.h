// Known problems of a driver: the table known_issues.def.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/proc/driver_module.h"

namespace culprit::report {

struct KnownIssue {
  std::string problem;
  std::string remedy;  // empty: none is known
  std::string source;  // an address
};

// The rows for this driver. A row for the open kernel modules counts where their kind is not known.
std::vector<KnownIssue> known_issues_of(const DriverModule& driver);

// The number of rows.
std::size_t known_issues_in_table();

// Whether `versions` of a row has the version: "570.86.16 575.57.08", "570..570.133.20".
bool has_version(const std::string& versions, const std::string& version);

}  // namespace culprit::report
