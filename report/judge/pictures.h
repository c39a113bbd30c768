// Who held the memory at the peak, and when an allocation failed with out of memory, as the dump has kept it.
#pragma once

#include <vector>

#include "report/dump/dump_reader.h"
#include "report/model/report_model.h"

namespace culprit {

// The stacks that the pictures show, to be resolved before read_pictures().
std::vector<format::Ref> stacks_of_pictures(const std::vector<format::PictureRecord>& records);

// The pictures of these records, in the order of Report::pictures. They point into `stacks`.
std::vector<Picture> read_pictures(const std::vector<format::PictureRecord>& records, const Dump& dump,
                                   const StackResolver& stacks);

}  // namespace culprit
