// Memory that a process gave to others or got from others.
#pragma once

#include <vector>

#include "report/dump/dump_reader.h"
#include "report/model/report.h"
#include "report/model/sharing.h"

namespace culprit::report {

class StackResolver;

// `report`: has its devices. Records of a damaged dump that make no sense are left out.
std::vector<Sharing> read_sharings(const std::vector<format::SharingRecord>& records, const StackResolver& stacks,
                                   const Report& report);

}  // namespace culprit::report
