// A program without CUDA: threads, exceptions, a child process. Prints its number of threads and its open files, so
// that a test can compare the two runs, with and without the preloaded library.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <thread>

static int entries(const char* folder) {
  int count = 0;
  DIR* directory = opendir(folder);
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

int main() {
  int caught = 0;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) {
      try {
        throw std::runtime_error("expected");
      } catch (const std::exception&) {
        ++caught;
      }
    }
  }).join();
  const pid_t child = fork();
  if (child == 0) _exit(5);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("caught %d, child %d, threads %d, descriptors %d\n", caught, WEXITSTATUS(status),
              entries("/proc/self/task"), entries("/proc/self/fd"));
  return 6;
}
