#include "report/ranks/launched_rank.h"

#include <sched.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "report/base/environment.h"
#include "report/base/stable_hash.h"
#include "report/base/words.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
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

// Those that make the launches of one command differ from one another. Each launcher sets some of them.
constexpr const char* kIdsOfJob[] = {
    "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID", "FLUX_JOB_ID", "SLURM_JOB_ID", "SLURM_STEP_ID",
};

constexpr const char* kLocalSizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                       "PALS_LOCAL_SIZE"};

std::optional<unsigned> number_in(const char* variable) {
  const std::string text = value_or(variable, "");
  return text.size() > 8 ? std::nullopt : whole_number(text);
}

std::string id_of_job() {
  StableHash hash;
  bool any = false;
  for (const char* variable : kIdsOfJob) {
    const std::string value = value_or(variable, "");
    hash.add(value);
    any = any || !value.empty();
  }
  return any ? hash.hex() : "";
}

// srun --mpi=pmix: Slurm tells the size in a variable of its own.
bool is_pmix_of_slurm(const Launcher& launcher) {
  return std::string_view(launcher.rank) == "PMIX_RANK" && begins_with(value_or("PMIX_NAMESPACE", ""), "slurm.");
}

}  // namespace

std::optional<LaunchedRank> launched_rank() {
  for (const Launcher& launcher : kLaunchers) {
    if (std::string_view(launcher.rank) == "RANK") continue;
    const std::optional<unsigned> rank = number_in(launcher.rank);
    const std::optional<unsigned> size = number_in(launcher.size);
    if (!rank || (!size && (launcher.needs_size || is_pmix_of_slurm(launcher)))) continue;
    // The innermost launcher decides: a single process of it is alone, whatever started the launcher.
    if (!size || *size < 2 || *rank >= *size) return std::nullopt;
    LaunchedRank found = {*rank, *size, id_of_job(), 0};
    for (const char* variable : kLocalSizes) {
      if (found.local == 0) found.local = number_in(variable).value_or(0);
    }
    return found;
  }
  return std::nullopt;
}

unsigned threads_of_rank(const LaunchedRank& rank) {
  const unsigned all = std::max(1U, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  const unsigned own = known ? static_cast<unsigned>(std::max(1, CPU_COUNT(&allowed))) : all;
  // mpirun binds several ranks to the same processors of a socket, too.
  return std::max(1U, std::min(own, all / std::max(1U, rank.local)));
}

}  // namespace culprit::report
