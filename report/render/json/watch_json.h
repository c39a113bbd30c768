// The JSON of `culprit watch`, schema culprit.watch/1.
#pragma once

#include <ostream>

namespace culprit::report {

struct WatchResult;

void render_watch_json(const WatchResult& result, std::ostream& out);

}  // namespace culprit::report
