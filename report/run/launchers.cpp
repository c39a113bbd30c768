#include "report/run/launchers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
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
    if (!known && name != "CULPRIT_CACHE") names.push_back(name);  // of the command
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

// The names of the variables that the launcher has to pass: those of `environment`, and the user's own variables for
// the library.
std::vector<std::string> names_to_pass(const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& variable : environment) names.push_back(variable.first);
  for (std::string& name : own_variables(environment)) names.push_back(std::move(name));
  return names;
}

std::string joined(const std::vector<std::string>& names, char separator) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : std::string(1, separator)) + name;
  return text;
}

bool is_executable(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

// Whether a shell would start `name`.
bool is_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_executable(name);
  std::istringstream folders(value_or("PATH", ""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_executable(std::filesystem::path(folder) / name)) return true;
  }
  return false;
}

void forward_with_open_mpi(std::vector<std::string>* command, Environment* environment) {
  if (is_set(kOpenMpiList)) return;
  const std::vector<std::string> names = names_to_pass(*environment);
  if (std::find(command->begin() + 1, command->end(), "-x") != command->end()) {
    std::vector<std::string> options;
    for (const std::string& name : names) options.insert(options.end(), {"-x", name});
    command->insert(command->begin() + 1, options.begin(), options.end());
    log::debug("the launcher gets -x options to pass " + joined(names, ' '));
  } else {
    environment->emplace_back(kOpenMpiList, joined(names, ';'));
    log::debug("the launcher passes " + joined(names, ';') + " (" + kOpenMpiList + ")");
  }
}

// srun(1): the value of --export with `names` added; unchanged where it passes everything already.
std::string srun_export(const std::string& value, const std::string& names) {
  if (("," + value + ",").find(",ALL,") != std::string::npos) return value;
  return value.empty() || value == "NONE" ? names : value + "," + names;
}

// srun passes everything, unless --export, or SLURM_EXPORT_ENV that a batch script with --export sets, names less.
void forward_with_srun(std::vector<std::string>* command, Environment* environment) {
  const std::string names = joined(names_to_pass(*environment), ',');
  constexpr std::string_view kOption = "--export";
  for (std::size_t i = 1; i < command->size(); ++i) {
    std::string& argument = (*command)[i];
    if (argument.empty() || argument[0] != '-') {
      // The value of an option, or the program, whose arguments are its own.
      if ((*command)[i - 1][0] != '-' || is_program(argument)) break;
      continue;
    }
    const bool apart = argument == kOption && i + 1 < command->size();
    if (!apart && argument.rfind(std::string(kOption) + "=", 0) != 0) continue;
    std::string& text = apart ? (*command)[i + 1] : argument;
    const std::size_t start = apart ? 0 : kOption.size() + 1;
    text = text.substr(0, start) + srun_export(text.substr(start), names);
    log::debug("srun gets " + text);
    return;
  }
  constexpr char kVariable[] = "SLURM_EXPORT_ENV";
  if (!is_set(kVariable)) return;
  environment->emplace_back(kVariable, srun_export(value_or(kVariable, ""), names));
  log::debug("srun passes " + environment->back().second + " (" + kVariable + ")");
}

}  // namespace

bool is_a_rank() {
#define LAUNCHER(rank, size, needs_size) \
  if (is_set(rank) && (!(needs_size) || is_set(size))) return true;
#include "interpose/format/launchers.def"
  return false;
}

void forward_environment(std::vector<std::string>* command, Environment* environment) {
  if (command->empty()) return;
  if (may_be_open_mpi(command->front())) forward_with_open_mpi(command, environment);
  if (std::filesystem::path(command->front()).filename() == "srun") forward_with_srun(command, environment);
}

}  // namespace culprit::report
