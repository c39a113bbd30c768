#include "report/commands/command_merge.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "report/base/exit_codes.h"
#include "report/merge/load_many.h"
#include "report/merge/merged_file.h"

namespace culprit::report {

void add_merge_command(CLI::App* app, MergeCommand* command) {
  app->add_option("DUMP", command->dumps, "Dumps of the job's processes, and files that were merged before")
      ->required()
      ->type_name("");
  app->add_option("-o,--output", command->output.output, "The file to write")->required()->type_name("FILE");
  add_symbol_options(app, &command->output);
  add_jobs_option(app, &command->output);
}

int run_merge_command(const MergeCommand& command) try {
  const OutputOptions& options = command.output;
  const LoadedReports loaded = load_many(command.dumps, options.load, {Merge::kAlways, options.job.jobs});
  if (loaded.unreadable || loaded.reports.empty()) {
    std::cerr << "culprit: " << options.output << " was not written: a job without some of its processes looks clean\n";
    return kExitUnreadable;
  }
  write_merged_file(options.output, loaded.reports.front());
  return kExitFine;
} catch (const FileError& error) {
  std::cerr << "culprit: " << error.what() << "\n";
  return kExitUnreadable;
}

}  // namespace culprit::report
