#include "report/commands/common_options.h"

#include "report/manual/manual.h"

namespace culprit::report {
namespace {

constexpr char kAbout[] =
    "Finds GPU memory that a CUDA program never gave back, and names the code that allocated it and the reason.\n"
    "`culprit help COMMAND` shows the options of a command, `culprit help PAGE` a page of the manual:\n";

constexpr char kExitCodes[] =
    "Exit codes: 0 fine; 1 (or --error-exitcode N) --fail-on found something; 2 wrong usage; 3 an input cannot be "
    "read,\n"
    "or an output cannot be written; 4 not known: --fail-on, --error-exitcode or --baseline was given and something "
    "was "
    "not\n"
    "recorded, or no CUDA call was seen. `culprit run` and `culprit sweep` pass the command's own exit code through.";

// The names of the pages, in lines of the help's width.
std::string pages() {
  constexpr std::size_t kColumns = 100;
  std::string text;
  std::size_t column = 0;
  for (const std::string& topic : manual_topics()) {
    if (column != 0) text += column + 2 + topic.size() > kColumns ? ",\n" : ", ";
    column = column + 2 + topic.size() > kColumns ? topic.size() : column + 2 + topic.size();
    text += topic;
  }
  return text;
}

}  // namespace

log::Level CommonOptions::level() const {
  if (quiet) return log::Level::kQuiet;
  return verbose == 0 ? log::Level::kNormal : verbose == 1 ? log::Level::kVerbose : log::Level::kTrace;
}

Colours CommonOptions::colours() const {
  return color == "always" ? Colours::kAlways : color == "never" ? Colours::kNever : Colours::kAuto;
}

Usage program_usage(const std::string& version, CommonOptions* options) {
  OptionList list("", "");
  list.add("-v,--verbose", Option::Count{&options->verbose},
           "Say on stderr which files are read and how long each step takes; -vv: each attempt, too (CULPRIT_LOG and "
           "--log are about the library in the program)");
  list.add("-q,--quiet", &options->quiet, "Say nothing but errors on stderr: no warnings, notes, hints and progress");
  list.add("--color", &options->color,
           "Colours on a terminal, unless NO_COLOR is set (auto), always, or never (default: auto)")
      .one_of({"auto", "always", "never"})
      .type("WHEN");
  return {"culprit", version, kAbout + pages(), kExitCodes, list.options()};
}

}  // namespace culprit::report
