#include "report/commands/option_groups.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace culprit::report {
namespace {

constexpr std::size_t kFitsScreen = 12;  // options that need no headings

// By the name of the option.
std::map<std::string, std::string> headings_of_options() {
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups = {
      {"Recording",
       {"--keep", "--out", "--wait", "--paused", "--require-cuda", "--no-framework-caches", "--torch-history",
        "--audit", "--scan", "--depth", "--log"}},
      {"Course",
       {"--timeout", "--for", "--every", "--grow", "--exec", "--tensors", "--backend", "--max-runs", "--site",
        "--show-output"}},
      {"Calls that fail", {"--fail-alloc", "--fail-call"}},
      {"Output",
       {"--format", "-o", "--full-stacks", "--sort", "--all", "--group-by", "--at", "--no-source", "--source-dir"}},
      {"Debug information", {"--sysroot", "--debug-dir", "--debuginfod-limit", "--no-cache"}},
      {"Processes", {"--merge", "--no-merge", "--alone", "--jobs"}},
      {"Choice of leaks",
       {"--resources", "--strict", "--no-default-suppressions", "--suppressions", "--suggest-suppressions",
        "--min-bytes", "--causes", "--kinds", "--devices", "--id", "--since-mark", "--before-mark", "--from", "--to"}},
      {"Verdict",
       {"--fail-on", "--require-complete", "--error-exitcode", "--baseline", "--write-baseline", "--allow-growth"}},
  };
  std::map<std::string, std::string> headings;
  for (const auto& [heading, names] : groups) {
    for (const char* name : names) headings[name] = heading;
  }
  return headings;
}

}  // namespace

void group_options(OptionList* options) {
  static const std::map<std::string, std::string> headings = headings_of_options();
  if (options->options().size() > kFitsScreen) options->group(headings);
}

}  // namespace culprit::report
