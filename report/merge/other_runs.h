// Notes that dumps of more than one run are about: a newer one lies beside a dump that was named, or two that were
// named are of the same rank of different runs.
#pragma once

#include <string>
#include <vector>

#include "report/model/report.h"

namespace culprit::report {

// Adds the notes to the reports of the files `paths`. A later run is one whose process started after the end of the
// other (a killed one ended when its dump was last written). Runs of processes that overlap in time differ if their
// hosts or the sizes of their jobs differ. Dumps that cannot be read are left out.
void add_notes_on_runs(const std::vector<std::string>& paths, std::vector<Report>* reports);

}  // namespace culprit::report
