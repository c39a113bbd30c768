#include "report/ranks/mpi_link.h"

#include <dlfcn.h>

#include <filesystem>

#include "report/base/environment.h"
#include "report/base/file_error.h"
#include "report/proc/process_folder.h"
#include "report/ranks/culprit_mpi.h"

namespace culprit::report {
namespace {

class MpiLink : public RankLink {
 public:
  explicit MpiLink(const culprit_mpi& mpi) : mpi_(mpi) {}
  ~MpiLink() override {
    // A rank that has not given its part would keep another one waiting.
    if (!done_) mpi_.abort(1);
    mpi_.end();
  }

  std::optional<std::string> take(unsigned from, std::string* problem) override {
    unsigned long long bytes = 0;
    std::string text;
    const int rank = static_cast<int>(from);
    if (mpi_.receive_size(rank, &bytes) == 0) {
      text.resize(bytes);
      if (mpi_.receive(rank, text.data(), bytes) == 0) return text;
    }
    *problem = "MPI could not receive its part";
    return std::nullopt;
  }

  void give(const std::string& part, unsigned to) override {
    if (mpi_.send(static_cast<int>(to), part.data(), part.size()) != 0)
      throw FileError("MPI could not send the part to rank " + std::to_string(to));
    done_ = true;
  }

  void finish() override { done_ = true; }

 private:
  const culprit_mpi& mpi_;
  bool done_ = false;
};

}  // namespace

std::string find_mpi_plugin() {
  namespace fs = std::filesystem;
  const std::string chosen = value_or("CULPRIT_MPI", "");
  std::error_code error;
  if (!chosen.empty()) {
    if (chosen.find('/') == std::string::npos || !fs::exists(chosen, error))
      throw FileError(chosen + ": no such file, and CULPRIT_MPI names it. Run: unset CULPRIT_MPI");
    return chosen;
  }
  const fs::path root = fs::path(own_program()).parent_path().parent_path();
  for (const char* folder : {"lib", CULPRIT_INSTALL_LIBDIR}) {
    const fs::path file = root / folder / "culprit" / "culprit_mpi.so";
    if (fs::exists(file, error)) return file.string();
  }
  return {};
}

std::unique_ptr<RankLink> open_mpi_link(const std::string& plugin, unsigned rank, unsigned size) {
  // Open MPI loads components that need its own symbols.
  void* const library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw FileError(plugin + ": cannot be loaded (" + (reason != nullptr ? reason : "no reason given") +
                    "): compile it with the mpicc of this MPI");
  }
  const auto entry = reinterpret_cast<const culprit_mpi* (*)()>(::dlsym(library, "culprit_mpi_plugin"));
  if (entry == nullptr) throw FileError(plugin + ": is no plugin of culprit: compile culprit_mpi.c with mpicc");
  const culprit_mpi* const mpi = entry();
  if (mpi == nullptr || mpi->version != CULPRIT_MPI_VERSION)
    throw FileError(plugin + ": is of another version of culprit: compile the culprit_mpi.c of this version");
  int its_rank = -1;
  int its_size = 0;
  const int failure = mpi->begin(&its_rank, &its_size);
  if (failure == CULPRIT_MPI_NO_SERVER)
    throw FileError(plugin + ": Open MPI finds its ranks by PMIx, which srun starts with --mpi=pmix");
  if (failure != 0) throw FileError(plugin + ": MPI did not start");
  if (its_rank != static_cast<int>(rank) || its_size != static_cast<int>(size)) {
    mpi->end();
    throw FileError(plugin + ": MPI calls this rank " + std::to_string(its_rank) + " of " + std::to_string(its_size) +
                    ", the launcher calls it rank " + std::to_string(rank) + " of " + std::to_string(size) +
                    ": compile the plugin with the mpicc of the launcher's MPI");
  }
  return std::make_unique<MpiLink>(*mpi);
}

}  // namespace culprit::report
