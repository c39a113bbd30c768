#include "interpose/process/job_rank.h"

#include "interpose/process/variables.h"

namespace culprit {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
  bool needs_size;
};

constexpr Launcher kLaunchers[] = {
#define LAUNCHER(rank, size, needs_size) {rank, size, needs_size},
#include "interpose/format/launchers.def"
};

// -1 when the variable is unset or invalid.
int number_of(const char* text) {
  if (text == nullptr) return -1;
  int number = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || number > 99999999) return -1;
    number = number * 10 + (*text - '0');
  }
  return number;
}

}  // namespace

JobRank find_job_rank(const Variables& variables) {
  for (const Launcher& launcher : kLaunchers) {
    int rank = number_of(variables.value(launcher.rank));
    int size = number_of(variables.value(launcher.size));
    if (rank < 0 || (launcher.needs_size && size <= 0)) continue;
    return {rank, size > 0 ? size : 0};
  }
  return {};
}

}  // namespace culprit
