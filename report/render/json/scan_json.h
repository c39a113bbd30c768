// The JSON of `culprit scan`, schema culprit.scan/1.
#pragma once

#include "report/render/json/json.h"

namespace culprit::report {

struct LostScanResult;
struct Report;

// `report`: of the process, with lost memory only.
Json scan_json(const LostScanResult& scan, const Report& report);

}  // namespace culprit::report
