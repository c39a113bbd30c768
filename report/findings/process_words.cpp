#include "report/findings/process_words.h"

#include "report/merge/spread.h"
#include "report/model/report.h"

namespace culprit::report {

std::string whose(const Report& report, std::uint32_t process) {
  if (!report.job.empty()) return processes_text(report.job, {process});
  return report.process.rank ? "rank " + std::to_string(*report.process.rank) : "the process";
}

std::string whose_prefix(const Report& report, std::uint32_t process) {
  return report.job.empty() ? "" : whose(report, process) + ": ";
}

}  // namespace culprit::report
