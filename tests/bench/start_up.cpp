// The cost of a preloaded library at the start of a process without CUDA: start_up ROUNDS LIBRARY_A LIBRARY_B
//
// Starts /bin/true with each library in turn. Prints the median of its processor time in nanoseconds (elapsed time
// would include other work of the machine), and the difference between B and A.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

double processor_ns(const struct timeval& time) {
  return 1e9 * static_cast<double>(time.tv_sec) + 1e3 * static_cast<double>(time.tv_usec);
}

double run_with(const char* library) {
  std::string preload = std::string("LD_PRELOAD=") + library;
  char program[] = "/bin/true";
  char* arguments[] = {program, nullptr};
  char* environment[] = {preload.data(), nullptr};
  pid_t pid = 0;
  struct rusage usage;
  int status = 0;
  if (posix_spawn(&pid, program, nullptr, nullptr, arguments, environment) != 0 ||
      wait4(pid, &status, 0, &usage) != pid || status != 0) {
    std::fprintf(stderr, "start_up: %s does not run with %s\n", program, library);
    std::exit(1);
  }
  return processor_ns(usage.ru_utime) + processor_ns(usage.ru_stime);
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 4 ? std::atoi(argv[1]) : 0;
  if (rounds < 1) return 2;
  std::vector<double> times[2];
  for (int round = 0; round < rounds; ++round) {
    for (int library = 0; library < 2; ++library) times[library].push_back(run_with(argv[2 + library]));
  }
  const double first = median(times[0]), second = median(times[1]);
  std::printf("start_a=%.0f\nstart_b=%.0f\nstart_added=%.0f\n", first, second, second - first);
  return 0;
}
