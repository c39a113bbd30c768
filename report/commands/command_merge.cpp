// culprit merge DUMP... -o FILE: merges the dumps of a job into one file, which can be reported and merged again.
//
// Several of them that mpirun, srun or another launcher started share the work (ranks/).
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/base/environment.h"
#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/base/stable_hash.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/dump/named_dumps.h"
#include "report/merge/load_many.h"
#include "report/merge/merged_file.h"
#include "report/merge/run_knowledge.h"
#include "report/ranks/folder_link.h"
#include "report/ranks/launched_rank.h"
#include "report/ranks/merge_on_ranks.h"
#include "report/ranks/mpi_link.h"
#include "report/render/formats.h"

namespace culprit::report {
namespace {

struct MergeCommand {
  std::vector<std::string> dumps;
  OutputOptions output;
  bool alone = false;
  double wait_seconds = 60;
};

// Ranks of one launch that were given the same dumps and the same output share a folder; others do not.
std::string folder_of_ranks(const MergeCommand& command, const LaunchedRank& self) {
  StableHash hash;
  hash.add(self.job);
  hash.add(std::to_string(self.size));
  for (const std::string& dump : command.dumps) hash.add(dump);
  return command.output.output + ".ranks-" + hash.hex();
}

std::unique_ptr<RankLink> link_of(const MergeCommand& command, const LaunchedRank& self) {
  if (value_or("CULPRIT_MPI", "") != "off") {
    try {
      const std::string plugin = find_mpi_plugin();
      if (!plugin.empty()) {
        std::unique_ptr<RankLink> link = open_mpi_link(plugin, self.rank, self.size);
        log::debug("the ranks use MPI: " + plugin);
        return link;
      }
    } catch (const FileError& error) {
      if (self.rank == 0) log::warning(std::string("the ranks use files instead of MPI: ") + error.what());
    }
  }
  const std::string folder = folder_of_ranks(command, self);
  log::debug("the ranks use files in " + folder);
  const auto patience = std::chrono::milliseconds(static_cast<std::int64_t>(command.wait_seconds * 1000));
  return std::make_unique<FolderLink>(folder, self.rank, patience);
}

// Writes the output only if every input could be read.
int write_merged(const MergeCommand& command, const NamedDumps& named, const RunKnowledge& runs, LoadedReports loaded) {
  const OutputOptions& options = command.output;
  if (loaded.unreadable || loaded.reports.empty()) {
    log::error(options.output + " was not written: a job without some of its processes looks clean");
    return kExitUnreadable;
  }
  for (const std::string& sentence : named.left_out) log::warning(sentence);
  add_left_out(named.left_out, &loaded.reports);
  runs.store_in(&loaded.reports.front());
  write_merged_file(options.output, loaded.reports.front());
  return kExitFine;
}

int run_merge(const MergeCommand& command) try {
  const OutputOptions& options = command.output;
  const NamedDumps named = named_dumps(command.dumps);
  check_output_file(options.output, named.paths);
  const std::optional<LaunchedRank> self = command.alone ? std::nullopt : launched_rank();
  const std::unique_ptr<RankLink> link = self ? link_of(command, *self) : nullptr;
  const RunKnowledge runs(named);
  LoadOptions load = options.load;
  load.machine.ends_of_runs = runs.ends();
  if (!self)
    return write_merged(command, named, runs, load_many(named.paths, load, {Merge::kAlways, options.job.jobs}));
  std::optional<LoadedReports> loaded = merge_on_ranks(named.paths, load, options.job.jobs, *self, link.get());
  if (!loaded) return kExitFine;
  link->finish();
  return write_merged(command, named, runs, std::move(*loaded));
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
  options
      ->add("--wait", &command->wait_seconds,
            "As ranks of mpirun or srun without the MPI plugin: a rank without a sign of life for so long is taken for "
            "dead, and rank 0 reads its dumps")
      .time()
      .shows_default()
      .type("TIME");
  options->add("--alone", &command->alone, "Merge all dumps in this process, also where a launcher started several");
  add_symbol_options(options, &command->output);
  add_jobs_option(options, &command->output);
  return [command] { return run_merge(*command); };
}

}  // namespace culprit::report
