// What `culprit top` shows, as a picture.
#pragma once

#include "report/screen/cells.h"
#include "report/screen/live_model.h"
#include "report/screen/top_state.h"

namespace culprit::report {

// As many lines as the screen has rows, each of its width. The state remembers which part of a list is shown.
Picture draw_top(TopState* state, const LiveModel& model, ScreenSize size);

}  // namespace culprit::report
