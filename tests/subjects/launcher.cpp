// Asks how many GPUs there are, as torchrun does, then runs the program that its arguments name as two ranks of a job.
// Ends with the highest exit code of the two.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/subjects/check.h"

int main(int, char** argv) {
  int devices = 0;
  CHECKED(cudaGetDeviceCount(&devices));
  setenv("WORLD_SIZE", "2", 1);
  for (int rank = 0; rank < 2; ++rank) {
    if (fork() != 0) continue;
    const std::string number = std::to_string(rank);
    setenv("RANK", number.c_str(), 1);
    setenv("OMPI_COMM_WORLD_RANK", number.c_str(), 1);
    execv(argv[1], argv + 1);
    _exit(127);
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 126);
  return worst;
}
