// A profile for `go tool pprof`: each leak is a sample with its bytes and its count
// (https://github.com/google/pprof/blob/main/proto/profile.proto, the source of the field numbers here).
//
// Locations have functions and lines but no addresses, so that pprof does not try to symbolize them, and -diff_base
// matches places across builds.
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

void render_pprof(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
