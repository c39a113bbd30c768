// Which launchers of jobs are asked to pass what recording needs, and how.
#include "report/run/launchers.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/environment_variable.h"

using namespace culprit::report;
using culprit::test::EnvironmentVariable;

namespace {

struct Forwarded {
  std::string command;
  std::string variable;  // NAME=VALUE, if the environment got one
};

// "/bin/sh" stands for the program: it is there everywhere.
Forwarded forwarded(std::vector<std::string> command) {
  Environment environment = {{"LD_PRELOAD", "/l.so"}, {"CULPRIT_OUT", "/d"}};
  forward_environment(&command, &environment);
  Forwarded result;
  for (const std::string& word : command) result.command += (result.command.empty() ? "" : " ") + word;
  for (std::size_t i = 2; i < environment.size(); ++i) {
    result.variable += environment[i].first + "=" + environment[i].second;
  }
  return result;
}

}  // namespace

TEST_CASE("srun's list of variables gets those of the recording", "[launchers]") {
  struct Row {
    std::vector<std::string> command;
    const char* becomes;
  };
  const Row rows[] = {
      {{"srun", "-n", "2", "/bin/sh"}, "srun -n 2 /bin/sh"},
      {{"srun", "--export=ALL", "/bin/sh"}, "srun --export=ALL /bin/sh"},
      {{"srun", "--export=A,ALL,B=1", "/bin/sh"}, "srun --export=A,ALL,B=1 /bin/sh"},
      {{"srun", "--export=NONE", "/bin/sh"}, "srun --export=LD_PRELOAD,CULPRIT_OUT /bin/sh"},
      {{"/usr/bin/srun", "-n", "2", "--export=", "sh"}, "/usr/bin/srun -n 2 --export=LD_PRELOAD,CULPRIT_OUT sh"},
      {{"srun", "--export=A,SMALL=1", "/bin/sh"}, "srun --export=A,SMALL=1,LD_PRELOAD,CULPRIT_OUT /bin/sh"},
      {{"srun", "--job-name", "night", "--export", "A", "/bin/sh"},
       "srun --job-name night --export A,LD_PRELOAD,CULPRIT_OUT /bin/sh"},
      {{"srun", "-l", "--export=FALL", "/bin/sh"}, "srun -l --export=FALL,LD_PRELOAD,CULPRIT_OUT /bin/sh"},
      // An option of the program.
      {{"srun", "-l", "/bin/sh", "--export=A"}, "srun -l /bin/sh --export=A"},
      {{"srun", "-l", "sh", "--export", "A"}, "srun -l sh --export A"},
      {{"srun", "-n", "2", "not-there", "--export=A"}, "srun -n 2 not-there --export=A"},
      {{"srun", "--export"}, "srun --export"},
      {{"srun", ""}, "srun "},
      {{"srun"}, "srun"},
      {{"not-srun", "--export=A", "/bin/sh"}, "not-srun --export=A /bin/sh"},
  };
  const EnvironmentVariable cache("CULPRIT_CACHE", "off");  // of the command: in none of the lists
  for (const Row& row : rows) {
    const Forwarded result = forwarded(row.command);
    CHECK(result.command == row.becomes);
    CHECK(result.variable.empty());
  }
  CHECK(forwarded({}).command.empty());
}

TEST_CASE("a batch script's list of variables for srun gets those of the recording", "[launchers]") {
  const EnvironmentVariable none("SLURM_EXPORT_ENV", "NONE");
  CHECK(forwarded({"srun", "/bin/sh"}).variable == "SLURM_EXPORT_ENV=LD_PRELOAD,CULPRIT_OUT");
  // srun looks at the option first.
  CHECK(forwarded({"srun", "--export=ALL", "/bin/sh"}).variable.empty());
  {
    const EnvironmentVariable own("CULPRIT_DEPTH", "9");
    CHECK(forwarded({"srun", "/bin/sh"}).variable == "SLURM_EXPORT_ENV=LD_PRELOAD,CULPRIT_OUT,CULPRIT_DEPTH");
  }
  const EnvironmentVariable all("SLURM_EXPORT_ENV", "ALL");
  CHECK(forwarded({"srun", "/bin/sh"}).variable == "SLURM_EXPORT_ENV=ALL");
}

TEST_CASE("Open MPI gets -x where the user gives it, else a list", "[launchers]") {
  CHECK(forwarded({"mpirun", "-n", "2", "/bin/sh"}).variable == "OMPI_MCA_mca_base_env_list=LD_PRELOAD;CULPRIT_OUT");
  const Forwarded given = forwarded({"/usr/bin/mpiexec", "-x", "A", "/bin/sh"});
  CHECK(given.command == "/usr/bin/mpiexec -x LD_PRELOAD -x CULPRIT_OUT -x A /bin/sh");
  CHECK(given.variable.empty());
  const EnvironmentVariable users("OMPI_MCA_mca_base_env_list", "A");
  CHECK(forwarded({"mpirun", "/bin/sh"}).variable.empty());
}
