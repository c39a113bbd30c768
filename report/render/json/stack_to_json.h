// How a stack is written in JSON: as frames, or in the page as numbers of frames.
#pragma once

#include <functional>

#include "report/render/json/json.h"

namespace culprit::report {

struct ResolvedStack;

// The stack is nullptr when nothing is known.
using StackToJson = std::function<Json(const ResolvedStack*)>;

}  // namespace culprit::report
