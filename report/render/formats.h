// The formats of --format: one row each in formats.cpp.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;
struct Diff;

// How the reports are to be loaded for a format.
enum Needs : unsigned {
  kNothing = 0,
  kProcessesApart = 1,  // the ranks of a job are not merged, unless --merge asks for it: a merged report has no times
  kEachAllocation = 2,  // LoadOptions::each
};

struct Format {
  const char* name;     // as --format takes it
  const char* endings;  // of the files that get this format without --format, with blanks between; "": none
  void (*write)(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
  bool says_verdict;  // it has a place to say that something was not recorded; else the command says it
  void (*write_diff)(const Diff& diff, const RenderOptions& options, std::ostream& out);  // nullptr: not for a diff
  unsigned needs = kNothing;                                                              // of Needs
};

// The row of a name; nullptr when there is none. The row is valid for ever.
const Format* find_format(const std::string& name);

// The format for a file of this name: that of its longest ending in the table, in whatever case; else text.
const Format& format_for_file(const std::string& path);

// The names of all formats for whole reports, and of those for a diff.
std::vector<std::string> report_formats();
std::vector<std::string> diff_formats();

}  // namespace culprit::report
