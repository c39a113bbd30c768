#include "report/run/launchers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "report/base/environment.h"
#include "report/base/log.h"

namespace culprit::report {
namespace {

// https://docs.open-mpi.org/en/main/mca.html and mpirun(1): "VAR1;VAR2" with the values of mpirun's environment.
constexpr char kOpenMpiList[] = "OMPI_MCA_mca_base_env_list";

// The variables of libculprit.so that the user has set and `environment` lacks.
std::vector<std::string> own_variables(const Environment& environment) {
  constexpr std::string_view kPrefix = "CULPRIT_";
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.substr(0, kPrefix.size()) != kPrefix) continue;
    const std::string name(text.substr(0, text.find('=')));
    const bool known = std::any_of(environment.begin(), environment.end(),
                                   [&](const auto& variable) { return variable.first == name; });
    if (!known) names.push_back(name);
  }
  return names;
}

// Other MPIs have programs of these names, too; they ignore the variable, and have no option -x.
bool may_be_open_mpi(const std::string& program) {
  static const char* const kNames[] = {"mpirun",         "mpiexec",         "orterun", "prterun",
                                       "mpirun.openmpi", "mpiexec.openmpi", "oshrun"};
  const std::string name = std::filesystem::path(program).filename().string();
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* known) { return name == known; });
}

}  // namespace

bool is_a_rank() {
#define LAUNCHER(rank, size, needs_size) \
  if (is_set(rank) && (!(needs_size) || is_set(size))) return true;
#include "interpose/format/launchers.def"
  return false;
}

void forward_environment(std::vector<std::string>* command, Environment* environment) {
  if (command->empty() || !may_be_open_mpi(command->front()) || is_set(kOpenMpiList)) return;
  std::vector<std::string> options;
  std::string list;
  for (const auto& [name, value] : *environment) {
    options.insert(options.end(), {"-x", name});
    list += (list.empty() ? "" : ";") + name;
  }
  for (const std::string& name : own_variables(*environment)) {
    options.insert(options.end(), {"-x", name});
    list += ";" + name;
  }
  if (std::find(command->begin() + 1, command->end(), "-x") != command->end()) {
    command->insert(command->begin() + 1, options.begin(), options.end());
    log::debug("the launcher gets -x options to pass " + list);
  } else {
    environment->emplace_back(kOpenMpiList, list);
    log::debug("the launcher passes " + list + " (" + kOpenMpiList + ")");
  }
}

}  // namespace culprit::report
