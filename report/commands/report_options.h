// The options that `culprit report` and `culprit run` share, and the output of finished reports.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "report/judge/load_report.h"
#include "report/render/render.h"

namespace CLI {
class App;
}  // namespace CLI

namespace culprit::report {

class Progress;

enum class Merge { kAuto, kAlways, kNever };

struct OutputOptions {
  std::string format = "text";
  std::string output;  // file; empty: the command's default stream
  bool all = false;
  std::string group_by;
  bool no_source = false;
  std::vector<std::string> source_dirs;
  std::string since_mark;
  std::string at = "exit";  // or "peak"
  bool full_stacks = false;
  bool resources = false;
  bool strict = false;
  bool no_default_suppressions = false;
  std::string sysroot;
  std::vector<std::string> debug_dirs;
  Merge merge = Merge::kAuto;
  unsigned jobs = 0;  // threads that read several dumps; 0: one for each processor
  std::vector<std::string> fail_on;
  int error_exit_code = 0;  // 0: not given
};

// Declares the shared options on `command`, which supports `formats`.
void add_output_options(CLI::App* command, OutputOptions* options,
                        const std::vector<std::string>& formats = {"text", "json"});

// Declares only the options for finding and showing frames.
void add_symbol_options(CLI::App* command, OutputOptions* options);

// Declares --jobs, for a command that reads many dumps.
void add_jobs_option(CLI::App* command, OutputOptions* options);

// Declares --merge, --no-merge and --jobs, for a command that reads many dumps.
void add_job_options(CLI::App* command, OutputOptions* options);

// The options for reading dumps. `progress` receives the name of each module whose symbols are read; may be nullptr.
ReportOptions report_options(const OutputOptions& options, Progress* progress);

// Reads the dump at `path`. Shows on a terminal which module's symbols are being read when that takes long. Throws
// DumpError.
Report load_for_output(const std::string& path, const OutputOptions& options);

// False, with a message on stderr that lists the existing marks, when no process has the mark of --since-mark.
bool has_since_mark(const std::vector<Report>& reports, const OutputOptions& options);

enum class DefaultStream { kStdout, kStderr };

// Writes the reports to the requested file, else to `stream`. Returns kExitFine, or kExitUnreadable with a message on
// stderr when the output cannot be written.
int write_reports(const std::vector<Report>& reports, const OutputOptions& options, DefaultStream stream, bool kept);

// Calls `render(colours, stream)` for the requested file, else for `stream`. Returns as write_reports() does.
int write_output(const OutputOptions& options, DefaultStream stream,
                 const std::function<void(bool, std::ostream&)>& render);

// The exit code that --fail-on and --error-exitcode ask for; kExitFine when their condition does not hold. The
// condition of --error-exitcode alone is leaks and errors.
int verdict(const std::vector<Report>& reports, const OutputOptions& options);

}  // namespace culprit::report
