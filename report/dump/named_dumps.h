// The dumps that a command was given, one by one or as folders: nothing that may be a dump is left out without a word.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace culprit::report {

// The files that a command was given.
struct NamedDumps {
  std::vector<std::string> paths;      // those to be read; the dumps of a folder stand in its place, oldest first
  std::vector<std::string> folders;    // that were named
  std::set<std::string> of_folders;    // those of `paths` that were found in a folder
  std::vector<std::string> left_out;   // sentences about what the folders have besides, and is not read
  std::vector<std::string> run_files;  // files of runs in the folders
};

// What `paths` name. Files beside dumps (side_files.h) are left out. Throws FileError for a folder that has neither a
// dump nor the file of a run, or nothing that can be read.
NamedDumps named_dumps(const std::vector<std::string>& paths);

}  // namespace culprit::report
