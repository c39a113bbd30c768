// How the dumps of several processes are loaded.
#pragma once

namespace culprit::report {

enum class Merge { kAuto, kAlways, kNever };

struct JobOptions {
  Merge merge = Merge::kAuto;
  unsigned jobs = 0;  // threads that read several dumps; 0: one for each processor
};

}  // namespace culprit::report
