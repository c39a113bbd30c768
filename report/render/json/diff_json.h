// Parts of a JSON diff (render_diff_json.cpp) that the page of a diff has too.
#pragma once

#include "report/render/json/report_json.h"
#include "report/select/diff.h"

namespace culprit {

// Both sides, and how many groups changed in which way.
Json diff_head_json(const Diff& diff);

// Everything about a group but its stacks.
Json change_json(const DiffEntry& entry);

}  // namespace culprit
