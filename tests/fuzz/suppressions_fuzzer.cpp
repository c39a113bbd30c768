// Files of suppressions, tried on a report of three leaks.
#include "report/base/file_error.h"
#include "report/select/suppressions.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;

namespace {

struct Leaks {
  report::Module module;
  report::Frame frames[3];
  report::ResolvedStack stack;
  report::Report all;
  Leaks() {
    module.path = "/usr/lib/libsolver.so.4";
    module.name = "libsolver.so.4";
    for (report::Frame& frame : frames) {
      frame.function = "Solver::step<aaaaaaaaaaaaaaaaaaaaaaaaaaaa>";
      frame.file = "/src/solver.cu";
      frame.module = &module;
      stack.frames.push_back(&frame);
    }
    all.leaks.resize(3);
    for (report::Group& group : all.leaks) group.stack = &stack;
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Leaks leaks;
  try {
    report::Suppressions suppressions;
    suppressions.read(fuzz::as_file(data, size));
    report::Report report = leaks.all;
    suppressions.apply(&report);
    suppressions.unused();
  } catch (const report::FileError&) {
  }
  return 0;
}
