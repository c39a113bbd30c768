// Decides which leaks are shown and counted: suppressions, filters and the comparison with a baseline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/select/baseline.h"
#include "report/select/suppressions.h"

namespace culprit::report {

struct Group;
struct Report;

struct SelectionOptions {
  std::vector<std::string> suppressions;  // files; none: CULPRIT_SUPPRESSIONS
  std::string sort = "bytes";             // bytes, count or age
  std::string min_bytes;
  std::vector<std::string> causes;
  std::vector<std::string> kinds;
  std::vector<std::string> devices;  // ordinals, or "host"
  std::string id;                    // of one leak or resource
  std::string baseline;
  std::string write_baseline;
  std::string allow_growth;

  // The files of --suppressions, else of CULPRIT_SUPPRESSIONS.
  std::vector<std::string> suppression_files() const;
  // All files that are read: suppressions and the baseline.
  std::vector<std::string> files() const;
  // Whether there is a baseline, read or written.
  bool compares() const { return !baseline.empty() || !write_baseline.empty(); }
};

// Not thread-safe.
class Selection {
 public:
  // Reads the files that the options name. Throws FileError when one of them is malformed.
  explicit Selection(const SelectionOptions& options);

  // Removes from the reports everything that is suppressed or filtered out, recomputes the sums and compares with the
  // baseline.
  void apply(bool strict, std::vector<Report>* reports);

  // Writes the requested baseline. False, with a message on stderr: there is one, and the reports are not known to be
  // complete: leaks that were not seen would be gone from it. Throws FileError.
  bool write(bool strict, const std::vector<Report>& reports) const;

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

}  // namespace culprit::report
