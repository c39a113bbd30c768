// The page of one row, which the key Enter opens: its figures, its stack, and the source around the line that
// allocated.
#pragma once

#include <cstddef>
#include <vector>

#include "report/screen/cells.h"
#include "report/screen/live_model.h"

namespace culprit::report {

// "+64.0 MiB", "-3 B", "0".
std::string change_words(std::int64_t bytes);
// MiB a minute: "+1.20", "0".
std::string rate_words(double bytes_per_minute);
Style change_style(double change);

// The lines of the page, for a screen of `columns`. Reads source files of this machine, where the dump is surely of it.
std::vector<PictureLine> detail_lines(const LiveRow& row, std::size_t columns);

// The keys, one line each.
std::vector<PictureLine> help_lines();

}  // namespace culprit::report
