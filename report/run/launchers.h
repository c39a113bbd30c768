// Launchers of parallel jobs: mpirun, torchrun, srun, ...
#pragma once

#include <string>
#include <vector>

#include "report/run/preload.h"

namespace culprit::report {

// Whether this process is itself a rank of a job, as in `mpirun -n 4 culprit run -- ./app`: the other ranks are then
// those of other processes. Reads the environment.
bool is_a_rank();

// Two launchers pass the environment to the ranks only on request: Open MPI's mpirun to other nodes, and Slurm's srun
// with
// --export=NONE or a list. If `command` is one of them, adds what makes it pass the names of `environment`, and the
// variables for the library that the user has set. Does nothing for other commands.
//
// mpirun gets -x options where it has others, because Open MPI refuses two ways at once, else a variable in
// `environment`, unless the user has set that variable. srun's list is extended where the user gives one: in the
// option, or in SLURM_EXPORT_ENV.
void forward_environment(std::vector<std::string>* command, Environment* environment);

}  // namespace culprit::report
