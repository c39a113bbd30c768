// The options that `culprit report` and `culprit run` share, and the output of finished reports.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "report/base/terminal.h"
#include "report/commands/option_list.h"
#include "report/judge/load_options.h"
#include "report/merge/job_options.h"
#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

struct OutputOptions {
  std::string format;       // once the options are checked: a row of the table of formats
  std::string output;       // file; empty: the command's default stream
  std::string at = "exit";  // or "peak"
  LoadOptions load;
  JobOptions job;
  RenderOptions shown;  // without the members that follow from the other options: see render_options()
  std::vector<std::string> fail_on;
  int error_exit_code = 0;  // 0: not given
  bool require_complete = false;
};

// Declares --format and -o. Without --format the format is that of the file's name, and text without a file; a name of
// a format that is not among `formats` is a problem. `about` is the help of --format, `into` that of -o.
void add_format_options(OptionList* list, OutputOptions* options, const std::vector<std::string>& formats,
                        const std::string& about, const std::string& into);

// Declares the shared options in `list`; `formats`: those that the command supports (render/formats.h).
void add_output_options(OptionList* list, OutputOptions* options, const std::vector<std::string>& formats,
                        const std::string& into = "Write the report to FILE");

// Declares only the options for finding and showing frames.
void add_symbol_options(OptionList* list, OutputOptions* options);

// Declares --jobs, for a command that reads many dumps.
void add_jobs_option(OptionList* list, OutputOptions* options);

// Declares --merge, --no-merge, --jobs and --require-complete, for a command that reads many dumps.
void add_job_options(OptionList* list, OutputOptions* options);

// The options for writing reports: options.shown, completed from the others and from where the report goes.
RenderOptions render_options(const OutputOptions& options, const Terminal& terminal);

// False, with a message on stderr that lists the existing marks, when no process has the mark of --since-mark or that
// of
// --before-mark, or none has them in this order.
bool has_marks(const std::vector<Report>& reports, const OutputOptions& options);

enum class DefaultStream { kStdout, kStderr };

// Writes the reports to the requested file, else to `stream`. Returns kExitFine, or kExitUnreadable with a message on
// stderr when the output cannot be written.
int write_reports(const std::vector<Report>& reports, const OutputOptions& options, DefaultStream stream, bool kept);

// Calls `render(terminal, stream)` for the requested file, else for `stream`. Returns as write_reports() does.
int write_output(const OutputOptions& options, DefaultStream stream,
                 const std::function<void(const Terminal&, std::ostream&)>& render);

// A process that was recorded in part is not known with --require-complete, and one without a look inside Python with
// --fail-on live-cached or freed-at-end.
void require_complete(const OutputOptions& options, std::vector<Report>* reports);

// Sentences about processes that went on after the command without CUDA: notes, or with --require-complete not known.
void tell_lives_on(const OutputOptions& options, const std::vector<std::string>& sentences,
                   std::vector<Report>* reports);

// Adds sentences about a run to the notes of its first report.
void tell_notes(const std::vector<std::string>& sentences, std::vector<Report>* reports);

// Whether --fail-on, --error-exitcode or --require-complete ask for a gate.
bool has_gate(const OutputOptions& options);

// The exit code of a gate: what --fail-on and --error-exitcode ask for when their condition holds (of --error-exitcode
// alone: leaks and errors). Else kExitNotKnown when one of the two or a baseline was given and a process was not
// recorded completely. Else kExitFine.
int gate_result(const std::vector<Report>& reports, const OutputOptions& options);

}  // namespace culprit::report
