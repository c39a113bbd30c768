#include "report/commands/option_groups.h"

#include <string>
#include <vector>

namespace culprit::report {
namespace {

constexpr std::size_t kFitsScreen = 12;  // options that need no headings

struct OptionGroup {
  const char* heading;
  std::vector<std::string> names;
};

const std::vector<OptionGroup>& groups() {
  static const std::vector<OptionGroup> all = {
      {"Recording",
       {"--keep", "--out", "--wait", "--paused", "--require-cuda", "--no-framework-caches", "--torch-history",
        "--audit", "--depth", "--log"}},
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
  return all;
}

}  // namespace

void group_options(OptionList* options) {
  if (options->options().size() <= kFitsScreen) return;
  for (const OptionGroup& group : groups()) options->group(group.heading, group.names);
}

}  // namespace culprit::report
