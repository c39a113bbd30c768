// The text of `culprit watch`.
#pragma once

#include <ostream>

namespace culprit::report {

struct RenderOptions;
struct WatchResult;

void render_watch(const WatchResult& result, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
