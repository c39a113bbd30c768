// What leaked, as a plain list: out of a dump, a merged file, a JSON report or a baseline, so that any two of them can
// be compared.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/commands/report_options.h"
#include "report/model/stacks.h"
#include "report/select/baseline.h"

namespace culprit {

struct ListedLeak {
  BaselineLeak leak;
  std::vector<const Frame*> frames;  // innermost first; empty when the source has none, as a baseline
};

struct LeakList {
  std::string path;
  std::string source;                               // "dump", "merged", "report" or "baseline"
  std::map<std::string, ListedLeak> leaks;          // by id; those of several processes that have one id are one
  std::vector<std::string> notes;                   // what a reader should know about the source
  std::vector<std::shared_ptr<const void>> owners;  // of what the frames point to

  std::uint64_t bytes() const;
  std::uint64_t count() const;
};

// Reads the file at `path`, whichever of these it is. Cached memory is in the list only with options.strict; a baseline
// has what it was written with. Throws FileError or DumpError, which say what is wrong with the file.
LeakList read_leak_list(const std::string& path, const OutputOptions& options);

}  // namespace culprit
