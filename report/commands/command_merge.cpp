// culprit merge DUMP... -o FILE: merges the dumps of a job into one file, which can be reported and merged again.
#include <memory>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/dump/named_dumps.h"
#include "report/merge/load_many.h"
#include "report/merge/merged_file.h"
#include "report/merge/run_knowledge.h"
#include "report/render/formats.h"

namespace culprit::report {
namespace {

struct MergeCommand {
  std::vector<std::string> dumps;
  OutputOptions output;
};

// Writes the output only if every input could be read.
int run_merge(const MergeCommand& command) try {
  const OutputOptions& options = command.output;
  const NamedDumps named = named_dumps(command.dumps);
  check_output_file(options.output, named.paths);
  const RunKnowledge runs(named);
  LoadOptions load = options.load;
  load.machine.ends_of_runs = runs.ends();
  LoadedReports loaded = load_many(named.paths, load, {Merge::kAlways, options.job.jobs});
  if (loaded.unreadable || loaded.reports.empty()) {
    log::error(options.output + " was not written: a job without some of its processes looks clean");
    return kExitUnreadable;
  }
  for (const std::string& sentence : named.left_out) log::warning(sentence);
  add_left_out(named.left_out, &loaded.reports);
  runs.store_in(&loaded.reports.front());
  write_merged_file(options.output, loaded.reports.front());
  return kExitFine;
} catch (const FileError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

// A page or another report has the name of its format; a merged file is none of them.
std::string problem_of(const std::string& output) {
  const std::string format = format_for_file(output).name;
  if (format == "json" || format == "text") return "";
  return "-o " + output + ": merge writes a merged file (JSON): merge -o job.json, then report job.json -o " + output;
}

}  // namespace

Action declare_merge(OptionList* options) {
  const auto command = std::make_shared<MergeCommand>();
  options
      ->add("DUMP", &command->dumps,
            "Dumps of the job's processes or a folder of them, and files that were merged before")
      .is_required()
      .type("");
  options->add("-o,--output", &command->output.output, "The file to write, which `culprit report` reads (JSON)")
      .is_required()
      .type("FILE");
  options->add_check([command] { return problem_of(command->output.output); });
  add_symbol_options(options, &command->output);
  add_jobs_option(options, &command->output);
  return [command] { return run_merge(*command); };
}

}  // namespace culprit::report
