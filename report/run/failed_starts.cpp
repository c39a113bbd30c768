#include "report/run/failed_starts.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "interpose/format/failed_starts.h"
#include "report/base/file_error.h"
#include "report/model/report.h"

namespace culprit::report {

using format::FailedStart;
using format::FailedStarts;

namespace {

std::string text_of(const char (&field)[sizeof(FailedStart::path)]) {
  return std::string(field, ::strnlen(field, sizeof(field)));
}

std::string reason_of(const FailedStart& start) {
  const std::string path = text_of(start.path);
  if (start.error == ESPIPE) return "no dump could be made: " + path + " is no regular file; choose another --out";
  return "no dump could be made: " + path + " (" + std::strerror(start.error) + "); choose another --out";
}

Report report_of(int pid, const std::string& reason) {
  Report report;
  report.process.pid = static_cast<std::uint32_t>(pid);
  report.dropped.reason = reason;
  return report;
}

}  // namespace

FailedStartsFile::FailedStartsFile(const std::string& folder) : path_(folder + "/failed-starts") {
  const auto starts = std::make_unique<FailedStarts>();
  starts->version = format::kFailedStartsVersion;
  std::ofstream file(path_, std::ios::binary);
  file.write(reinterpret_cast<const char*>(starts.get()), sizeof(*starts));
  file.close();
  if (!file) throw FileError(path_ + ": cannot be written (" + std::strerror(errno) + "); set TMPDIR to another folder");
}

std::vector<Report> FailedStartsFile::reports() const {
  const auto starts = std::make_unique<FailedStarts>();
  std::ifstream file(path_, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(starts.get()), sizeof(*starts)))
    throw FileError(path_ + ": cannot be read any more: something removed it while the program ran");
  std::vector<Report> reports;
  for (std::uint32_t i = 0; i < starts->count && i < FailedStarts::kEntries; ++i) {
    const FailedStart& start = starts->entries[i];
    reports.push_back(report_of(start.pid, start.pid != 0 ? reason_of(start) : "no dump could be made"));
  }
  if (starts->count > FailedStarts::kEntries) {
    const std::uint32_t more = starts->count - FailedStarts::kEntries;
    reports.push_back(report_of(0, "no dump could be made by " + std::to_string(more) + " more processes"));
  }
  return reports;
}

}  // namespace culprit::report
