#include "report/run/run_starts.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "interpose/format/run_starts.h"
#include "report/base/file_error.h"
#include "report/base/words.h"
#include "report/model/report.h"

namespace culprit::report {

using format::FailedStart;
using format::RunStarts;

namespace {

template <std::size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, ::strnlen(field, sizeof(field)));
}

std::string reason_of(const FailedStart& start) {
  const std::string path = text_of(start.path);
  if (start.error == ESPIPE) return "no dump could be made: " + path + " is no regular file; choose another --out";
  return "no dump could be made: " + path + " (" + std::strerror(start.error) + "); choose another --out";
}

Report report_of(int pid, const std::string& program, const std::string& reason) {
  Report report;
  report.process.pid = static_cast<std::uint32_t>(pid);
  report.process.executable = program;
  report.dropped.reason = reason;
  return report;
}

}  // namespace

RunStartsFile::RunStartsFile(const std::string& folder) : path_(folder + "/run-starts") {
  const auto starts = std::make_unique<RunStarts>();
  starts->version = format::kRunStartsVersion;
  std::ofstream file(path_, std::ios::binary);
  file.write(reinterpret_cast<const char*>(starts.get()), sizeof(*starts));
  file.close();
  if (!file) {
    throw FileError(path_ + ": cannot be written (" + std::strerror(errno) + "); " +
                    (errno == EFBIG ? "raise the file size limit (ulimit -f)" : "set TMPDIR to another folder"));
  }
}

std::vector<Report> RunStartsFile::reports(std::size_t found) const {
  const auto starts = std::make_unique<RunStarts>();
  std::ifstream file(path_, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(starts.get()), sizeof(*starts)))
    throw FileError(path_ + ": cannot be read any more: something removed it while the program ran");
  std::vector<Report> reports;
  for (std::uint32_t i = 0; i < starts->failed && i < RunStarts::kEntries; ++i) {
    const FailedStart& start = starts->entries[i];
    const bool complete = start.pid != 0;
    reports.push_back(report_of(start.pid, complete ? text_of(start.program) : "",
                                complete ? reason_of(start) : "no dump could be made"));
  }
  const auto add_rest = [&](std::size_t count, const std::string& reason) {
    const std::string processes = plural(count, "more process", "more processes");
    if (count != 0) reports.push_back(report_of(0, processes, processes + " " + reason));
  };
  add_rest(starts->failed > RunStarts::kEntries ? starts->failed - RunStarts::kEntries : 0, "could not make a dump");
  add_rest(starts->recording > found ? starts->recording - found : 0,
           "recorded, but the dump was not found: it was removed, or CULPRIT_OUT was changed");
  return reports;
}

}  // namespace culprit::report
