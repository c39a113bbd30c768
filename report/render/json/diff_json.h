// Parts of a JSON diff (render_diff_json.cpp) that the HTML page of a diff also contains.
#pragma once

#include "report/render/json/json.h"
#include "report/select/diff.h"

namespace culprit::report {

// Both sides, and the number of groups for each kind of change.
Json diff_head_json(const Diff& diff);

// All of a group except its stacks.
Json change_json(const DiffEntry& entry);

}  // namespace culprit::report
