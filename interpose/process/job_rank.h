// This process's rank in a parallel job, from the environment variables of the launcher (mpirun, srun, torchrun, ...).
#pragma once

namespace culprit {

struct JobRank {
  int rank = -1;  // -1: no job
  int size = 0;   // ranks of the job; 0: not known
};

class Variables;

JobRank find_job_rank(const Variables& variables);

}  // namespace culprit
