// Which of the leaks that were found are shown and counted: suppressions, filters and the baseline that they are
// compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/commands/report_options.h"
#include "report/model/report_model.h"
#include "report/select/baseline.h"
#include "report/select/suppressions.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace culprit {

// What the command line asked for.
struct SelectionOptions {
  std::vector<std::string> suppressions;  // files; none: CULPRIT_SUPPRESSIONS
  std::string sort = "bytes";             // bytes, count or age
  std::string min_bytes;
  std::vector<std::string> causes;
  std::vector<std::string> kinds;
  std::vector<std::string> devices;  // ordinals, or "host"
  std::string baseline;
  std::string write_baseline;
  std::string allow_growth;
};

// Declares the options on `command`, those on how much of it all is shown too. `output`: --fail-on new needs a
// baseline.
void add_selection_options(CLI::App* command, SelectionOptions* options, OutputOptions* output);

// Declares --allow-growth, whose value parse_growth() takes; `help` is the beginning of its text.
CLI::Option* add_growth_option(CLI::App* command, std::string* value, const std::string& help);

// What --format takes where whole reports are written.
std::vector<std::string> report_formats();

// Not thread-safe.
class Selection {
 public:
  // Reads the files that the options name. Throws FileError when one of them is not what it should be.
  explicit Selection(const SelectionOptions& options);

  // Takes out of the reports what is suppressed or was not asked for, sums them up anew and compares them with the
  // baseline.
  void apply(bool strict, std::vector<Report>* reports);

  // Writes the baseline that was asked for. Throws FileError.
  void write(bool strict, const std::vector<Report>& reports) const;

 private:
  bool wanted(const Group& group, bool memory) const;
  void filter(Report* report) const;
  void sort(Report* report) const;

  SelectionOptions options_;
  Suppressions suppressions_;
  std::uint64_t min_bytes_ = 0;
  Growth growth_;
  std::optional<Baseline> baseline_;
};

}  // namespace culprit
