// The memory that was live at a mark, and that is live in the end, as lists that diff_of() compares.
#pragma once

#include <stdexcept>
#include <string>

#include "report/select/leak_list.h"

namespace culprit::report {

struct Report;

// The two ends of a comparison within one run.
struct MarkedPair {
  LeakList from;
  LeakList to;
};

// A user asked for a mark that the dump does not have. The message says what there is.
class NoSuchMark : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `from`, `to`: "NAME" or "NAME#N" (find_marked()). `from` empty: the beginning, when nothing was live; `to` empty: the
// end, or the present of a program that runs. The report was loaded with LoadOptions::marked. Each list has all live
// memory, also that of caches and libraries; the cause of memory at a mark is "live" (or "cached"). Throws NoSuchMark.
MarkedPair marked_pair(const Report& report, const std::string& from, const std::string& to);

}  // namespace culprit::report
