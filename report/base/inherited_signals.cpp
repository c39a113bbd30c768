#include "report/base/inherited_signals.h"

#include <signal.h>

namespace culprit::report {
namespace {

struct sigaction inherited;
bool ignored = false;

}  // namespace

void ignore_file_size_signal() {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  ignored = ::sigaction(SIGXFSZ, &action, &inherited) == 0;
}

void restore_inherited_signals() {
  if (ignored) ::sigaction(SIGXFSZ, &inherited, nullptr);
}

}  // namespace culprit::report
