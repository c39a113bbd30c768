#include "report/commands/selection_options.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "report/base/byte_size.h"
#include "report/cuda/kinds.h"
#include "report/model/causes.h"

namespace culprit::report {
namespace {

constexpr Cause kCauses[] = {Cause::kCached,      Cause::kFailedFree,      Cause::kHeld,      Cause::kException,
                             Cause::kErrorReturn, Cause::kContextTeardown, Cause::kNeverFreed};

bool is_in(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

std::string check_bytes(const std::string& text) {
  return parse_bytes(text) ? "" : text + ": a size is needed, like 4096, 64K or 1.5GiB";
}

std::string check_growth(const std::string& text) {
  return parse_growth(text) ? "" : text + ": a percentage or a size is needed, like 10% or 64MiB";
}

std::string check_device(const std::string& text) {
  const bool number = !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
  return number || text == "host" ? "" : text + ": a GPU's number or \"host\" is needed";
}

}  // namespace

CLI::Option* add_growth_option(CLI::App* command, std::string* value, const std::string& help) {
  return command->add_option("--allow-growth", *value, help + "as 10% or 64MiB (default 0)")
      ->check(check_growth)
      ->type_name("N%|SIZE");
}

void add_selection_options(CLI::App* command, SelectionOptions* options, OutputOptions* output) {
  std::vector<std::string> causes;
  for (const Cause cause : kCauses) causes.emplace_back(cause_name(cause));
  command
      ->add_option(
          "--suppressions", options->suppressions,
          "Hide the leaks that FILE names, in LeakSanitizer's syntax, and count what each line hid (repeatable; "
          "default: the file in CULPRIT_SUPPRESSIONS)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      ->add_option("--min-bytes", options->min_bytes, "Only leaks of SIZE and more, all allocations of a stack taken")
      ->check(check_bytes)
      ->type_name("SIZE");
  auto list = [&](const char* name, std::vector<std::string>* values, const std::string& help, const char* type) {
    return command->add_option(name, *values, help)->delimiter(',')->allow_extra_args(false)->type_name(type);
  };
  list("--causes", &options->causes, "Only leaks with these causes: " + CLI::detail::join(causes, ", "), "CAUSE,...")
      ->check(CLI::IsMember(causes));
  list("--kinds", &options->kinds, "Only these kinds of memory and resources: device, managed, pinned-host, ...",
       "KIND,...")
      ->check(CLI::IsMember(kind_names()));
  list("--devices", &options->devices, "Only what is on these GPUs, by number; host: memory of the host", "N,...")
      ->check(check_device);
  command
      ->add_option("--since-mark", output->load.since_mark,
                   "Only what was allocated after the program first named NAME (culprit.h, NVTX, Python)")
      ->type_name("NAME");
  CLI::Option* baseline =
      command
          ->add_option("--baseline", options->baseline,
                       "Say which leaks are new or have grown since FILE was written; for --fail-on new")
          ->type_name("FILE");
  command
      ->add_option("--write-baseline", options->write_baseline,
                   "Write the leaks that are reported to FILE; the comments that it has are kept")
      ->type_name("FILE");
  add_growth_option(command, &options->allow_growth, "With --baseline: how much a known leak may grow, ")
      ->needs(baseline);
  command
      ->add_option("--sort", options->sort,
                   "Largest first (bytes), most allocations first (count) or oldest first (age)")
      ->check(CLI::IsMember({"bytes", "count", "age"}))
      ->type_name("BY")
      ->capture_default_str();
  command->add_flag("--all", output->shown.all, "text, markdown: all groups, not only the first 10 of each list");
  command
      ->add_option("--group-by", output->shown.group_by,
                   "text: one line for each function, library, thread, device, cause, mark or rank, instead of one "
                   "entry a stack")
      ->check(CLI::IsMember({"stack", "function", "library", "thread", "device", "cause", "mark", "rank"}))
      ->type_name("BY");
  command->add_flag("!--no-source", output->shown.source, "html: without source lines, for a report that is passed on");
  command
      ->add_option("--source-dir", output->shown.source_dirs,
                   "html: look in DIR for source files that are not where they were compiled (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      ->add_option("--at", output->at,
                   "text: what was never freed (exit), or who held what when use was highest (peak)")
      ->check(CLI::IsMember({"exit", "peak"}))
      ->type_name("MOMENT")
      ->capture_default_str();
  command->callback([command, options, output] {
    if (output->at == "peak" && (output->format != "text" || !output->shown.group_by.empty()))
      throw CLI::ValidationError("--at peak", "is for --format text without --group-by; json has all \"pictures\"");
    if (output->shown.group_by == "stack") output->shown.group_by.clear();
    if (!output->shown.group_by.empty() && output->format != "text")
      throw CLI::ValidationError("--group-by", "is for --format text");
    if (output->shown.all && output->format != "text" && output->format != "markdown")
      throw CLI::ValidationError("--all", "is for the formats text and markdown; the others have everything");
    if ((!output->shown.source || !output->shown.source_dirs.empty()) && output->format != "html")
      throw CLI::ValidationError(!output->shown.source ? "--no-source" : "--source-dir", "is for --format html");
    const int stream = command->get_name() == "run" ? STDERR_FILENO : STDOUT_FILENO;
    if (output->format == "html" && output->output.empty() && ::isatty(stream) == 1)
      throw CLI::ValidationError("--format html", "is nothing for a terminal: name a file with -o FILE");
    if (is_in(output->fail_on, "new") && options->baseline.empty())
      throw CLI::ValidationError("--fail-on new", "needs --baseline FILE to compare with");
  });
}

}  // namespace culprit::report
