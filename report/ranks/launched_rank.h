// The rank that a launcher (mpirun, srun, ...) gave to this command, when it started the command several times.
#pragma once

#include <optional>
#include <string>

namespace culprit::report {

struct LaunchedRank {
  unsigned rank = 0;
  unsigned size = 0;   // at least 2
  std::string job;     // digits of a hash, the same for all ranks of one launch; empty: the launcher tells no id
  unsigned local = 0;  // ranks on this machine; 0: not known
};

// Empty: this process is no rank, or the only one. Variables that whole containers and batch scripts have (RANK of
// torchrun, SLURM_PROCID without a step) do not count: there is one process then, and the others would never come.
std::optional<LaunchedRank> launched_rank();

// How many threads each of the ranks may use, so that those of one machine share its processors: at least 1.
unsigned threads_of_rank(const LaunchedRank& rank);

}  // namespace culprit::report
