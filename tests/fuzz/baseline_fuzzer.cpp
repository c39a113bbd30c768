// Baselines.
#include "report/base/file_error.h"
#include "report/select/baseline.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string path = fuzz::as_file(data, size);
    const report::Baseline baseline = report::read_baseline(path);
    std::vector<report::Report> reports(1);
    report::compare(baseline, path, report::Growth(), false, &reports);
    fuzz::render_all(reports);
  } catch (const report::FileError&) {
  }
  return 0;
}
