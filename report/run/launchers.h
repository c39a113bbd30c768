// Launchers of parallel jobs: mpirun, torchrun, srun, ...
#pragma once

#include <string>
#include <vector>

#include "report/run/preload.h"

namespace culprit::report {

// Whether this process is itself a rank of a job, as in `mpirun -n 4 culprit run -- ./app`: the other ranks are then
// those of other processes. Reads the environment.
bool is_a_rank();

// Open MPI's mpirun passes the environment to processes on other nodes only where it is told to. If `command` is such a
// launcher, adds what makes it pass the names of `environment`: -x options to the command where it has others, because
// Open MPI refuses two ways at once, else a variable to `environment`. Does nothing for other commands, and for a user
// who has set that variable.
void forward_environment(std::vector<std::string>* command, Environment* environment);

}  // namespace culprit::report
