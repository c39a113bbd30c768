// The part of a job that one rank passes on to another: the merged reports of its dumps and of the ranks below it.
#pragma once

#include <string>
#include <vector>

#include "report/merge/load_many.h"

namespace culprit::report {

struct RankPart {
  std::string list;             // a hash of the files' names, so that ranks that see different ones are noticed
  std::vector<unsigned> ranks;  // whose shares are in the part
  PartOfJob files;
  std::string merged;  // merged_part(); empty: no file could be read
};

std::string part_text(const RankPart& part);
// Throws FileError when the text is damaged. `name` stands for it in messages.
RankPart read_part(const std::string& text, const std::string& name);

}  // namespace culprit::report
