#include "report/commands/output_options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "report/base/exit_codes.h"
#include "report/base/file_error.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/base/printable_stream.h"
#include "report/base/terminal.h"
#include "report/base/words.h"
#include "report/merge/run_file.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/render/formats.h"
#include "report/select/render_options.h"
#include "report/symbols/symbol_cache.h"

namespace culprit::report {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The names of the working directory: its own and, where a link leads to it, the one that a shell has in PWD. Compilers
// write either into the debug information.
std::vector<std::string> working_folders() {
  std::vector<std::string> names;
  std::error_code error;
  const std::string own = std::filesystem::current_path(error).string();
  if (!error) names.push_back(own);
  const char* shell = std::getenv("PWD");
  if (shell != nullptr && shell[0] == '/' && shell != own && std::filesystem::equivalent(own, shell, error))
    names.emplace_back(shell);
  return names;
}

// For each folder the nearest one at or above it that is the root of a Git repository; without one the folder itself.
std::vector<std::string> repository_folders(const std::vector<std::string>& folders) {
  std::vector<std::string> roots;
  for (const std::string& folder : folders) {
    std::filesystem::path root = folder;
    while (!is_there(root / ".git") && root.has_relative_path()) root = root.parent_path();
    roots.push_back(is_there(root / ".git") ? root.string() : folder);
  }
  return roots;
}

bool asks(const OutputOptions& options, const std::string& what) {
  if (options.fail_on.empty())
    return options.error_exit_code != 0 && what != "resources" && what != "new" && what != "live-cached" &&
           what != "freed-at-end";
  for (const std::string& one : options.fail_on) {
    if (one == what) return true;
  }
  return false;
}

// A merged file names dumps that may be gone, or on another host.
bool all_dumps_are_there(const std::vector<Report>& reports) {
  const auto all_are = [](const auto& list) {
    return std::all_of(list.begin(), list.end(),
                       [](const auto& one) { return one.dump_path.empty() || is_there(one.dump_path); });
  };
  return all_are(reports) &&
         std::all_of(reports.begin(), reports.end(), [&](const Report& report) { return all_are(report.job); });
}

// Whether a process has the mark of an option.
bool has_mark(const std::vector<Report>& reports, const char* option, const std::string& asked,
              MarkBound Report::*bound) {
  constexpr std::size_t kNamed = 10;
  if (asked.empty()) return true;
  std::vector<std::string> known;
  for (const Report& report : reports) {
    if ((report.*bound).time_ns) return true;
    for (const MarkInfo& mark : report.marks) {
      std::string text = kept_times_text(mark);
      if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(std::move(text));
    }
  }
  std::string problem = std::string(option) + " " + asked + ": no process has this mark";
  for (std::size_t i = 0; i < known.size() && i < kNamed; ++i) problem += (i == 0 ? "; there are: " : ", ") + known[i];
  if (known.empty()) problem += "; no mark was set (culprit.h, NVTX and the Python package set marks)";
  if (known.size() > kNamed) problem += ", and " + std::to_string(known.size() - kNamed) + " more";
  log::error(problem);
  return false;
}

}  // namespace

void add_symbol_options(OptionList* list, OutputOptions* options) {
  list->add("--full-stacks", &options->load.full_stacks, "Show all frames: the CUDA runtime's and start-up code too");
  list->add("--sysroot", &options->load.symbols.sysroot, "Look for the program's files below DIR").type("DIR");
  list->add("--debug-dir", &options->load.symbols.debug_dirs, "Look for separate debug files in DIR too (repeatable)")
      .type("DIR");
  list->add("--debuginfod-limit", &options->load.symbols.download_seconds,
            "Download debug information from the servers of DEBUGINFOD_URLS for N seconds at most, all files together "
            "(default: 30); 0: not at all")
      .in_range(0, 86400)
      .type("N");
  options->load.symbols.cache_folder = symbol_cache_folder();
  list->add(
      "--no-cache", [options] { options->load.symbols.cache_folder.clear(); },
      "Look up all symbols anew, and keep none for the next report");
}

void add_format_options(OptionList* list, OutputOptions* options, const std::vector<std::string>& formats,
                        const std::string& about, const std::string& into) {
  std::string endings;
  for (const std::string& name : formats) {
    const char* const own = find_format(name)->endings;
    if (own[0] != '\0') endings += (endings.empty() ? "" : " ") + std::string(own);
  }
  list->add("--format", &options->format, about + " (default: as the name of -o FILE ends, else text)")
      .one_of(formats)
      .type("FORMAT");
  list->add("-o,--output", &options->output, into + "; without --format its ending chooses the format: " + endings)
      .type("FILE");
  list->add_check([options, formats, command = list->command()] {
    if (!options->format.empty()) return std::string();
    options->format = format_for_file(options->output).name;
    if (std::find(formats.begin(), formats.end(), options->format) != formats.end()) return std::string();
    return "-o " + options->output + ": culprit " + command + " has no format " + options->format +
           "; name the format of the file with --format";
  });
  list->add_check([options] {
    const Format* const format = find_format(options->format);
    if (format != nullptr && (format->needs & kProcessesApart) != 0 && options->job.merge == Merge::kAuto)
      options->job.merge = Merge::kNever;
    options->load.each = format != nullptr && (format->needs & kEachAllocation) != 0;
    return std::string();
  });
}

void add_output_options(OptionList* list, OutputOptions* options, const std::vector<std::string>& formats,
                        const std::string& into) {
  std::string names;
  for (const std::string& name : formats) names += (names.empty() ? "" : ", ") + name;
  add_format_options(list, options, formats, names, into);
  add_symbol_options(list, options);
  list->add("--resources", &options->shown.resources,
            "List streams, events, contexts, modules, ... that were never ended");
  list->add("--strict", &options->load.judge.strict,
            "Count cached memory and memory that libraries hold for themselves as leaks");
  list->add_off_flag("--no-default-suppressions", &options->load.judge.default_suppressions,
                     "Treat allocations of cuBLAS, cuDNN, NCCL, ... as the program's own");
  list->add("--fail-on", &options->fail_on,
            "Exit with 1 when these are found: leaks, new (leaks that --baseline does not have, or that have "
            "grown), errors, resources, live-cached (live tensors in the caches of PyTorch and CuPy), freed-at-end "
            "(memory that was freed only while Python ended; a comma between several), or none")
      .one_of({"leaks", "new", "errors", "resources", "live-cached", "freed-at-end", "none"})
      .comma_separated()
      .type("WHAT");
  list->add("--error-exitcode", &options->error_exit_code,
            "Exit with N instead of 1; without --fail-on: for leaks and errors")
      .in_range(1, 255)
      .type("N");
}

void add_jobs_option(OptionList* list, OutputOptions* options) {
  list->add("--jobs", &options->job.jobs, "Threads that read the dumps (default: one for each processor)")
      .in_range(1, 256)
      .type("N");
}

void add_job_options(OptionList* list, OutputOptions* options) {
  list->add(
      "--merge", [options] { options->job.merge = Merge::kAlways; },
      "Merge the processes into one report by stack, with the share of each (default: when all are ranks of a job)");
  list->add(
          "--no-merge", [options] { options->job.merge = Merge::kNever; }, "Report each process separately")
      .excludes("--merge");
  list->add("--require-complete", &options->require_complete,
            "Exit with 4 when a part of the run was not recorded: recording was switched off for a time, or a process "
            "goes on after the command, though without CUDA so far");
  add_jobs_option(list, options);
}

RenderOptions render_options(const OutputOptions& options, const Terminal& terminal) {
  RenderOptions result = options.shown;
  result.colours = terminal.colours;
  result.columns = terminal.columns;
  result.strict = options.load.judge.strict;
  result.full_stacks = options.load.full_stacks;
  result.at_peak = options.at == "peak";
  result.sysroot = options.load.symbols.sysroot;
  result.working_folders = working_folders();
  result.repository_folders = repository_folders(result.working_folders);
  return result;
}

bool has_marks(const std::vector<Report>& reports, const OutputOptions& options) {
  if (reports.empty()) return true;
  if (!has_mark(reports, "--since-mark", options.load.since_mark, &Report::since_mark)) return false;
  if (!has_mark(reports, "--before-mark", options.load.before_mark, &Report::before_mark)) return false;
  if (options.load.since_mark.empty() || options.load.before_mark.empty()) return true;
  const auto in_order = [](const Report& report) {
    return !report.since_mark.time_ns || !report.before_mark.time_ns ||
           *report.since_mark.time_ns <= *report.before_mark.time_ns;
  };
  if (std::any_of(reports.begin(), reports.end(), in_order)) return true;
  log::error("--since-mark " + bound_text(reports.front().since_mark) + ": comes after --before-mark " +
             bound_text(reports.front().before_mark) + "; no allocation is between them");
  return false;
}

int write_output(const OutputOptions& options, DefaultStream stream,
                 const std::function<void(const Terminal&, std::ostream&)>& render_to) {
  if (options.output.empty()) {
    const bool to_stdout = stream == DefaultStream::kStdout;
    std::ostream& out = to_stdout ? std::cout : std::cerr;
    render_to(terminal_of(to_stdout ? STDOUT_FILENO : STDERR_FILENO), out);
    out.flush();
    if (out) return kExitFine;
    log::error("the report could not be written completely");
    return kExitUnreadable;
  }
  try {
    OutputFile file(options.output);
    {
      const PrintableStream printable(file.stream(), false);
      render_to(Terminal(), file.stream());
    }
    file.commit();
    return kExitFine;
  } catch (const FileError& error) {
    log::error(error.what());
    return kExitUnreadable;
  }
}

int write_reports(const std::vector<Report>& reports, const OutputOptions& options, DefaultStream stream, bool kept) {
  const log::StepTime time("render " + options.format);
  std::vector<std::string> left_out;
  const int written = write_output(options, stream, [&](const Terminal& terminal, std::ostream& out) {
    RenderOptions shown = render_options(options, terminal);
    shown.kept = kept && all_dumps_are_there(reports);
    shown.left_out = &left_out;
    find_format(options.format)->write(reports, shown, out);
  });
  for (const std::string& sentence : left_out) log::warning(sentence);
  if (!find_format(options.format)->says_verdict) {
    for (const Report& report : reports) {
      const auto tell = has_gate(options) || report.baseline ? log::error : log::warning;
      for (const std::string& reason : reasons_not_known(report)) tell("NOT KNOWN: " + reason);
    }
  }
  return written;
}

void require_complete(const OutputOptions& options, std::vector<Report>* reports) {
  const auto unseen = [](std::uint64_t count, const std::string& what, const std::string& why) {
    return what + " of " + plural(count, "process", "processes") +
           " is not known: no look inside Python was taken (CULPRIT_PYTHON=0, " + why + ")";
  };
  for (Report& report : *reports) {
    if (asks(options, "live-cached") && report.caches_unseen != 0)
      report.not_joined.push_back(
          unseen(report.caches_unseen, "what lives inside the caches", "os._exit, a signal, no Python"));
    if (asks(options, "freed-at-end") && report.python_ends_unseen != 0)
      report.not_joined.push_back(unseen(report.python_ends_unseen, "what Python freed at its end", "another version"));
    if (!options.require_complete) continue;
    const std::string share = recorded_share_text(report);
    if (!share.empty()) report.not_joined.push_back(share);
  }
}

void tell_lives_on(const OutputOptions& options, const std::vector<std::string>& sentences,
                   std::vector<Report>* reports) {
  for (const std::string& sentence : sentences) {
    if (options.require_complete && reports->empty()) {
      reports->push_back(report_without_dump(0, "culprit run", sentence));
    } else if (!reports->empty()) {
      (options.require_complete ? reports->front().not_joined : reports->front().notes).push_back(sentence);
    } else {
      log::note(sentence);
    }
  }
}

void tell_notes(const std::vector<std::string>& sentences, std::vector<Report>* reports) {
  for (const std::string& sentence : sentences) {
    if (reports->empty()) {
      log::debug(sentence);
    } else {
      reports->front().notes.push_back(sentence);
    }
  }
}

bool has_gate(const OutputOptions& options) {
  const bool only_none = options.fail_on.size() == 1 && options.fail_on.front() == "none";
  return options.require_complete || options.error_exit_code != 0 || (!options.fail_on.empty() && !only_none);
}

// Since a baseline that knows keepers, those that are new or have grown.
bool has_live_tensors(const Report& report) {
  const bool compared = report.baseline && report.baseline->knows_keepers;
  return compared ? !report.baseline->keepers.empty() : report.live_cached_bytes != 0;
}

int gate_result(const std::vector<Report>& reports, const OutputOptions& options) {
  bool found = false;
  for (const Report& report : reports) {
    found = found || (asks(options, "leaks") && report.summary.groups != 0) ||
            (asks(options, "new") && report.baseline && report.baseline->added + report.baseline->grown != 0) ||
            (asks(options, "errors") && report.summary.errors != 0) ||
            (asks(options, "resources") && report.summary.resources != 0) ||
            (asks(options, "live-cached") && has_live_tensors(report)) ||
            (asks(options, "freed-at-end") && !report.freed_at_end.empty());
  }
  if (found) return options.error_exit_code != 0 ? options.error_exit_code : kExitFound;
  for (const Report& report : reports) {
    if ((has_gate(options) || report.baseline) && !is_complete(report)) return kExitNotKnown;
  }
  return kExitFine;
}

}  // namespace culprit::report
