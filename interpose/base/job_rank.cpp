#include "interpose/base/job_rank.h"

#include <stdlib.h>

namespace culprit {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
  bool needs_size;  // the name alone is too common: it counts only together with the size
};

// The innermost launcher first: mpirun may start a torchrun on each node, srun may start an mpirun.
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", true},                             // torchrun
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},  // Open MPI
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", false},    // MVAPICH2
    {"PMIX_RANK", "PMIX_SIZE", false},                        // PRRTE and others
    {"PMI_RANK", "PMI_SIZE", false},                          // MPICH, Intel MPI
    {"PALS_RANKID", "PALS_SIZE", false},                      // Cray PALS
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", false},               // Flux
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true},           // srun; a batch script has only the first
};

// -1 when the variable is unset or invalid.
int number_of(const char* variable) {
  const char* text = getenv(variable);
  if (text == nullptr || *text == '\0') return -1;
  int number = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || number > 99999999) return -1;
    number = number * 10 + (*text - '0');
  }
  return number;
}

}  // namespace

JobRank find_job_rank() {
  for (const Launcher& launcher : kLaunchers) {
    int rank = number_of(launcher.rank);
    int size = number_of(launcher.size);
    if (rank < 0 || (launcher.needs_size && size <= 0)) continue;
    return {rank, size > 0 ? size : 0};
  }
  return {};
}

}  // namespace culprit
