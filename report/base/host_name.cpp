#include "report/base/host_name.h"

#include <unistd.h>

#include <climits>

namespace culprit::report {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace culprit::report
