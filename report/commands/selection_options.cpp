#include "report/commands/selection_options.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "report/base/byte_size.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/causes.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostKnown = 1000;  // ids that one is compared with

bool is_in(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

std::string check_bytes(const std::string& text) {
  return parse_bytes(text) ? "" : short_word(text) + ": a size is needed, like 4096, 64K or 1.5GiB";
}

std::string check_growth(const std::string& text) {
  return parse_growth(text) ? "" : short_word(text) + ": a percentage or a size is needed, like 10% or 64MiB";
}

std::string check_device(const std::string& text) {
  // Groups are compared with the text: "00" would be no device, and hide all leaks.
  const bool number = !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos &&
                      (text.size() == 1 || text.front() != '0');
  return number || text == "host" ? "" : short_word(text) + ": a GPU's number or \"host\" is needed";
}

// How the values contradict one another; "" when they do not. `stream`: where the report goes without a file.
std::string problem_of(int stream, const SelectionOptions& options, OutputOptions* output) {
  const std::string& format = output->format;
  std::string& group_by = output->shown.group_by;
  if (output->at == "peak" && (format != "text" || !group_by.empty()))
    return "--at peak: is for --format text without --group-by; json has all \"pictures\"";
  if (group_by == "stack") group_by.clear();
  if (!group_by.empty() && format != "text") return "--group-by: is for --format text";
  if (output->shown.all && format != "text" && format != "markdown")
    return "--all: is for the formats text and markdown; the others have everything";
  if ((!output->shown.source || !output->shown.source_dirs.empty()) && format != "html")
    return std::string(!output->shown.source ? "--no-source" : "--source-dir") + ": is for --format html";
  if (format == "html" && output->output.empty() && ::isatty(stream) == 1)
    return "--format html: is nothing for a terminal: name a file with -o FILE";
  if (is_in(output->fail_on, "new") && options.baseline.empty())
    return "--fail-on new: needs --baseline FILE to compare with";
  return "";
}

}  // namespace

bool has_devices(const std::vector<Report>& reports, const SelectionOptions& options) {
  std::set<unsigned> used;
  for (const Report& report : reports) {
    for (const DeviceInfo& device : report.devices) used.insert(device.ordinal);
  }
  if (options.devices.empty() || is_in(options.devices, "host") || used.empty()) return true;
  std::string list, chosen;
  for (const unsigned device : used) {
    if (is_in(options.devices, std::to_string(device))) return true;
    list += (list.empty() ? "GPU " : ", GPU ") + std::to_string(device);
  }
  for (const std::string& one : options.devices) chosen += (chosen.empty() ? "" : ",") + one;
  log::error("--devices " + chosen + ": no process used such a GPU; there " + (used.size() == 1 ? "is: " : "are: ") +
             list);
  return false;
}

void add_id_option(OptionList* list, SelectionOptions* options) {
  list->add("--id", &options->id, "Only the leak with this id, or the resource, as in the title of its entry")
      .type("ID");
}

bool has_id(const std::vector<Report>& reports, const SelectionOptions& options, OutputOptions* output) {
  constexpr std::size_t kShownIds = 5;
  if (options.id.empty() || reports.empty()) return true;
  std::vector<std::string> known;  // largest first in each process
  for (const auto list : {&Report::leaks, &Report::library, &Report::resources}) {
    for (const Report& report : reports) {
      for (const Group& group : report.*list) {
        if (group.id == options.id) {
          output->shown.all = true;  // the list of libraries' own memory, too
          output->shown.resources = output->shown.resources || list == &Report::resources;
          return true;
        }
        if (!is_in(known, group.id) && known.size() < kMostKnown) known.push_back(group.id);
      }
    }
  }
  std::string words;
  const std::string similar = similar_word(options.id, known);
  for (std::size_t i = 0; i < known.size() && i < kShownIds; ++i) words += (i == 0 ? " " : ", ") + known[i];
  if (known.size() > kShownIds) words += ", ... (culprit report shows all)";
  log::error("--id " + short_word(options.id) + ": nothing has this id; " +
             (!similar.empty() ? "did you mean " + similar + "?"
              : known.empty()  ? "nothing was left"
                               : "there " + std::string(known.size() == 1 ? "is:" : "are:") + words));
  return false;
}

Option& add_growth_option(OptionList* list, std::string* value, const std::string& help) {
  return list->add("--allow-growth", value, help + "as 10% or 64MiB (default 0)")
      .checked_by(check_growth)
      .type("N%|SIZE");
}

void add_selection_options(OptionList* list, SelectionOptions* options, OutputOptions* output) {
  std::vector<std::string> causes;
  std::string cause_list;
  for (const Cause cause : kCauses) {
    causes.emplace_back(cause_name(cause));
    cause_list += (cause_list.empty() ? "" : ", ") + causes.back();
  }
  list->add("--suppressions", &options->suppressions,
            "Hide the leaks that FILE names, in LeakSanitizer's syntax, and count what each line hid (repeatable; "
            "default: the file in CULPRIT_SUPPRESSIONS)")
      .type("FILE");
  list->add("--min-bytes", &options->min_bytes, "Only leaks of SIZE and more, all allocations of a stack taken")
      .checked_by(check_bytes)
      .type("SIZE");
  list->add("--causes", &options->causes, "Only leaks with these causes: " + cause_list)
      .comma_separated()
      .one_of(causes)
      .type("CAUSE,...");
  list->add("--kinds", &options->kinds, "Only these kinds of memory and resources: device, managed, pinned-host, ...")
      .comma_separated()
      .one_of(kind_names())
      .type("KIND,...");
  list->add("--devices", &options->devices, "Only memory on these GPUs, by number; host: memory of the host")
      .comma_separated()
      .checked_by(check_device)
      .type("N,...");
  list->add(
          "--since-mark", &output->load.since_mark,
          "Only allocations after the program last set the mark NAME (culprit.h, NVTX, Python); NAME#N: after the Nth "
          "time")
      .type("NAME");
  list->add("--before-mark", &output->load.before_mark, "Only allocations before that; together: those in between")
      .type("NAME");
  list->add("--baseline", &options->baseline,
            "Say which leaks are new or have grown since FILE was written; for --fail-on new")
      .type("FILE");
  list->add("--write-baseline", &options->write_baseline,
            "Write the leaks that are reported to FILE; the comments that it has are kept")
      .type("FILE");
  add_growth_option(list, &options->allow_growth, "With --baseline: how much a known leak may grow, ")
      .needs("--baseline");
  list->add("--sort", &options->sort, "Largest first (bytes), most allocations first (count) or oldest first (age)")
      .one_of({"bytes", "count", "age"})
      .type("BY")
      .shows_default();
  list->add("--all", &output->shown.all, "text, markdown: all groups, not only the first 10 of each list");
  list->add("--group-by", &output->shown.group_by,
            "text: one line for each line of code, function, library, thread, device, cause, mark or rank, instead of "
            "one entry a stack")
      .one_of({"stack", "line", "function", "library", "thread", "device", "cause", "mark", "rank"})
      .type("BY");
  list->add_off_flag("--no-source", &output->shown.source,
                     "html: without source lines, for a report that is passed on");
  list->add("--source-dir", &output->shown.source_dirs,
            "html: look in DIR for source files that are not where they were compiled (repeatable)")
      .type("DIR");
  list->add("--at", &output->at,
            "text: memory that was never freed (exit), or the holders of memory when use was highest (peak)")
      .one_of({"exit", "peak"})
      .type("MOMENT")
      .shows_default();
  const int stream = list->command() == "run" ? STDERR_FILENO : STDOUT_FILENO;
  list->add_check([stream, options, output] { return problem_of(stream, *options, output); });
}

}  // namespace culprit::report
