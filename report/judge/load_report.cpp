#include "report/judge/load_report.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "report/base/log.h"
#include "report/base/progress.h"
#include "report/judge/holder_groups.h"
#include "report/judge/job_cache.h"
#include "report/judge/marked_groups.h"
#include "report/judge/summarise.h"
#include "report/load/dump_contents.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

// The second step: names the stacks of the contents, and the variables that hold memory.
std::shared_ptr<const StackResolver> resolve_stacks(const DumpContents& contents, const Dump& dump,
                                                    const LoadOptions& options) {
  SymbolLookup lookup = options.lookup;
  if (!lookup) lookup = [&](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, options.symbols); };
  auto stacks = std::make_shared<StackResolver>(dump, lookup, options.full_stacks,
                                                options.cache != nullptr ? options.cache->stacks : nullptr);
  stacks->resolve(stacks_of(contents, dump), places_of(contents.tables), heap_places_of(contents.tables),
                  local_places_of(contents.tables));
  return stacks;
}

// Carries out a step, and tells its time.
template <typename Step>
auto timed(const char* name, const Dump& dump, Step step) {
  const log::StepTime time(std::string(name) + " " + dump.path());
  return step();
}

}  // namespace

Report load_report(const std::string& path, const LoadOptions& options) {
  const Dump dump = Dump::open(path);
  return load_report(dump, options);
}

Report load_report(const Dump& dump, const LoadOptions& options) {
  DumpContents contents = timed("read", dump, [&] {
    return read_contents(dump, options.machine,
                         {options.since_mark, options.before_mark, options.each, options.marked, options.only_lost});
  });
  std::shared_ptr<const StackResolver> stacks =
      timed("resolve", dump, [&] { return resolve_stacks(contents, dump, options); });
  const log::StepTime time("judge " + dump.path());
  StackOwners own;
  StackOwners& owners = options.cache != nullptr && stacks->is_shared() ? options.cache->owners : own;
  owners.examine(*stacks);
  const HolderGroups groups = group_by_holder(&contents, dump, *stacks, &owners);
  if (options.marked) add_marked_groups(contents.mark_sums, groups.tables, dump, *stacks, &owners, &contents.facts);
  Verdicts verdicts = judge(groups.tables, dump, *stacks, options.judge, &owners);
  Report report = summarise(std::move(contents), dump, std::move(stacks), groups, std::move(verdicts), &owners,
                            options.judge.strict);
  dump.check_whole();
  return report;
}

Report load_with_progress(const std::string& path, LoadOptions options) {
  Progress progress;
  options.symbols.progress = [&progress](const std::string& what) { progress.doing(what); };
  return load_report(path, options);
}

}  // namespace culprit::report
