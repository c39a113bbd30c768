// The files of `culprit merge`.
#include "report/base/file_error.h"
#include "report/judge/load_options.h"
#include "report/merge/join_sharings.h"
#include "report/merge/merged_file.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    std::vector<report::Report> reports;
    reports.push_back(report::read_merged_file(fuzz::as_file(data, size), report::JudgeOptions()));
    report::join_sharings({&reports.front()});
    fuzz::render_all(reports);
  } catch (const report::FileError&) {
  }
  return 0;
}
