// Ranks that pass their parts on over MPI, by the plugin culprit_mpi.c. Open MPI and MPICH have different binary
// interfaces, so the plugin is compiled where the job runs, and the command, which is the same everywhere, loads it.
#pragma once

#include <memory>
#include <string>

#include "report/ranks/rank_link.h"

namespace culprit::report {

// The file of the plugin: CULPRIT_MPI, else lib/culprit/culprit_mpi.so beside the command; empty: there is none. Throws
// FileError when CULPRIT_MPI names a file that is not there.
std::string find_mpi_plugin();

// Loads the plugin and starts MPI. The job, as MPI knows it, must have these numbers. Throws FileError when the plugin
// cannot be used, and says why. When a rank dies, or ends the link early, the launcher ends all of them.
std::unique_ptr<RankLink> open_mpi_link(const std::string& plugin, unsigned rank, unsigned size);

}  // namespace culprit::report
