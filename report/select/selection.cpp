#include "report/select/selection.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "report/base/byte_size.h"
#include "report/cuda/kinds.h"
#include "report/model/summary.h"

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

// Whether the memory is on one of these GPUs, by number, or on the host. For a merged group, of any process.
bool is_on(const Group& group, const std::vector<std::string>& devices) {
  if (kind_class(group.kind) == KindClass::kHostMemory) return is_in(devices, "host");
  if (group.device) return is_in(devices, std::to_string(*group.device));
  return std::any_of(group.devices.begin(), group.devices.end(),
                     [&](unsigned device) { return is_in(devices, std::to_string(device)); });
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
      ->add_option("--since-mark", output->since_mark,
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
  command->add_flag("--all", output->all, "text, markdown: all groups, not only the first 10 of each list");
  command
      ->add_option("--group-by", output->group_by,
                   "text: one line for each function, library, thread, device, cause, mark or rank, instead of one "
                   "entry a stack")
      ->check(CLI::IsMember({"stack", "function", "library", "thread", "device", "cause", "mark", "rank"}))
      ->type_name("BY");
  command->add_flag("--no-source", output->no_source, "html: without source lines, for a report that is passed on");
  command
      ->add_option("--source-dir", output->source_dirs,
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
    if (output->at == "peak" && (output->format != "text" || !output->group_by.empty()))
      throw CLI::ValidationError("--at peak", "is for --format text without --group-by; json has all \"pictures\"");
    if (output->group_by == "stack") output->group_by.clear();
    if (!output->group_by.empty() && output->format != "text")
      throw CLI::ValidationError("--group-by", "is for --format text");
    if (output->all && output->format != "text" && output->format != "markdown")
      throw CLI::ValidationError("--all", "is for the formats text and markdown; the others have everything");
    if ((output->no_source || !output->source_dirs.empty()) && output->format != "html")
      throw CLI::ValidationError(output->no_source ? "--no-source" : "--source-dir", "is for --format html");
    const int stream = command->get_name() == "run" ? STDERR_FILENO : STDOUT_FILENO;
    if (output->format == "html" && output->output.empty() && ::isatty(stream) == 1)
      throw CLI::ValidationError("--format html", "is nothing for a terminal: name a file with -o FILE");
    if (is_in(output->fail_on, "new") && options->baseline.empty())
      throw CLI::ValidationError("--fail-on new", "needs --baseline FILE to compare with");
  });
}

std::vector<std::string> report_formats() {
  return {"text", "json", "html", "markdown", "sarif", "junit", "folded", "pprof"};
}

Selection::Selection(const SelectionOptions& options) : options_(options) {
  std::vector<std::string> files = options.suppressions;
  const char* present = std::getenv("CULPRIT_SUPPRESSIONS");
  if (files.empty() && present != nullptr && present[0] != '\0') files.emplace_back(present);
  for (const std::string& file : files) suppressions_.read(file);
  min_bytes_ = parse_bytes(options.min_bytes).value_or(0);
  growth_ = parse_growth(options.allow_growth).value_or(Growth());
  if (!options.baseline.empty()) baseline_ = read_baseline(options.baseline);
  // Checked now rather than after a run of an hour.
  if (!options.write_baseline.empty() && std::ifstream(options.write_baseline).is_open())
    read_baseline(options.write_baseline);
}

bool Selection::wanted(const Group& group, bool memory) const {
  if (memory && group.bytes < min_bytes_) return false;
  if (memory && !options_.causes.empty() && !is_in(options_.causes, cause_name(group.cause))) return false;
  if (!options_.kinds.empty() && !is_in(options_.kinds, kind_name(group.kind))) return false;
  return options_.devices.empty() || is_on(group, options_.devices);
}

void Selection::filter(Report* report) const {
  if (min_bytes_ == 0 && options_.causes.empty() && options_.kinds.empty() && options_.devices.empty()) return;
  report->filtered = HiddenTotal();
  for (std::vector<Group>* groups : {&report->leaks, &report->library, &report->resources}) {
    const bool memory = groups != &report->resources;
    auto kept = groups->begin();
    for (Group& group : *groups) {
      if (wanted(group, memory)) {
        if (&*kept != &group) *kept = std::move(group);
        ++kept;
      } else if (memory) {
        report->filtered->add(group);
      }
    }
    groups->erase(kept, groups->end());
  }
}

void Selection::sort(Report* report) const {
  if (options_.sort == "bytes") return;  // already sorted
  const bool by_count = options_.sort == "count";
  for (std::vector<Group>* groups : {&report->leaks, &report->library, &report->resources}) {
    std::stable_sort(groups->begin(), groups->end(), [by_count](const Group& left, const Group& right) {
      return by_count ? left.count > right.count : left.first_ns < right.first_ns;
    });
  }
}

void Selection::apply(bool strict, std::vector<Report>* reports) {
  for (Report& report : *reports) {
    suppressions_.apply(&report);
    filter(&report);
    sum_up(strict, &report);
    sort(&report);
  }
  // Over all reports together: a suppression may match in only one of the processes.
  if (!reports->empty()) {
    for (const std::string& line : suppressions_.unused())
      reports->back().notes.push_back("this suppression hid nothing: " + line);
  }
  if (baseline_) compare(*baseline_, options_.baseline, growth_, strict, reports);
}

void Selection::write(bool strict, const std::vector<Report>& reports) const {
  if (!options_.write_baseline.empty()) write_baseline(options_.write_baseline, baseline_of(reports, strict));
}

}  // namespace culprit::report
