// How much of finished reports is shown, and how.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace culprit::report {

struct RenderOptions {
  bool colours = false;
  bool resources = false;    // list streams, events, contexts, ... instead of one line with totals
  bool strict = false;       // cached memory counts
  bool full_stacks = false;  // all frames
  std::size_t columns = 0;   // text: of the terminal, to which frames are cut; 0: no limit
  bool all = false;          // all groups, not only the first of each list
  std::string group_by;      // function, library, thread, device, cause, mark, rank; empty: each stack apart
  bool at_peak = false;      // holders at the time of highest use, instead of leaks
  bool source = true;        // html: with the source lines around reported places, when the sources are found ...
  std::string sysroot;       // ... below this folder ...
  std::vector<std::string> source_dirs;  // ... or in one of these
  // gcc, github: the names of the working directory, and of the folder of the repository that it is in.
  std::vector<std::string> working_folders;
  std::vector<std::string> repository_folders;
  bool nothing_known = false;  // json: something recorded that no report is of
  bool kept = true;            // the dumps are kept, so that further commands can be suggested
  // Takes a sentence for each thing that a format of limited size leaves out; nullptr: not wanted.
  std::vector<std::string>* left_out = nullptr;
};

// The number of groups per list that the text formats show unless all are asked for.
constexpr std::size_t kShownGroups = 10;

}  // namespace culprit::report
