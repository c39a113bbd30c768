// Which process of a parallel job this one is: what the launcher (mpirun, srun, torchrun, ...) put into the
// environment.
#pragma once

namespace culprit {

struct JobRank {
  int rank = -1;  // -1: in no job
  int size = 0;   // how many ranks the job has; 0: not known
};

// Reads the environment. Never allocates.
JobRank find_job_rank();

}  // namespace culprit
