// culprit library: the path of libculprit.so. A wheel, a package and a build have it in different places, so that no
// document could name one place for LD_PRELOAD.
#include <iostream>

#include "report/base/exit_codes.h"
#include "report/commands/commands.h"
#include "report/run/preload.h"

namespace culprit::report {

Action declare_library(OptionList*) {
  return [] {
    std::cout << preloadable_library() << "\n";
    return kExitFine;
  };
}

}  // namespace culprit::report
