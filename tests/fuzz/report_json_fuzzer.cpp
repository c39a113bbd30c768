// What `culprit diff` takes: JSON reports, and by its first bytes any other input.
#include "report/base/file_error.h"
#include "report/dump/dump_error.h"
#include "report/judge/load_options.h"
#include "report/render/formats.h"
#include "report/select/diff.h"
#include "report/select/leak_list.h"
#include "report/select/render_options.h"
#include "report/symbols/symbolizer.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  report::LoadOptions options;
  options.lookup = [](std::vector<report::ModuleSymbols>&) {};
  options.machine.proc = "/nonexistent";
  try {
    const std::string path = fuzz::as_file(data, size);
    const report::Diff diff =
        report::diff_of(report::read_leak_list(path, options), report::LeakList(), report::Growth());
    for (const std::string& format : report::diff_formats())
      report::find_format(format)->write_diff(diff, report::RenderOptions(), fuzz::nowhere());
  } catch (const report::FileError&) {
  } catch (const report::DumpError&) {
  }
  return 0;
}
