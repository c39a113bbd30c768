// A program that changes its environment before its first CUDA call: environment HOW
#include <pthread.h>
#include <sys/wait.h>

#include <string>

#include "tests/guest/programs/guest.h"

namespace {

void unset_all() {
  while (environ != nullptr && *environ != nullptr) {
    const std::string entry = *environ;
    HOLDS(unsetenv(entry.substr(0, entry.find('=')).c_str()) == 0);
  }
}

volatile bool over = false;

// New names make the array grow and move, values of old ones are replaced.
void* set_for_ever(void*) {
  char name[32];
  for (int i = 0; !over; ++i) {
    snprintf(name, sizeof name, "NAME%d", i % 3000);
    HOLDS(setenv(name, i % 2 == 0 ? "short" : "a value that is longer than the other one", 1) == 0);
    if (i % 5 == 0) {
      snprintf(name, sizeof name, "NAME%d", i * 7 % 3000);
      HOLDS(unsetenv(name) == 0);
    }
  }
  return nullptr;
}

GUEST_FUNCTION void deep(int depth) {
  if (depth == 0) {
    guest::allocate(11001);
  } else {
    deep(depth - 1);
  }
  KEEP_FRAME();
}

void use_cuda() {
  guest::start_cuda();
  deep(20);
}

}  // namespace

int main(int argc, char** argv) {
  HOLDS(argc >= 2);
  const std::string how = argv[1];
  static char own[] = "CULPRIT_DEPTH=3";
  static char other[] = "X=1";
  static char* array[] = {other, nullptr};
  if (how == "clearenv") HOLDS(clearenv() == 0);
  if (how == "unset") unset_all();
  if (how == "array") environ = array;
  if (how == "null") environ = nullptr;
  if (how == "wild") environ = reinterpret_cast<char**>(0x10);
  if (how == "emptied") HOLDS(setenv("CULPRIT_OUT", "", 1) == 0);
  if (how == "rank") HOLDS(setenv("RANK", "5", 1) == 0 && setenv("WORLD_SIZE", "8", 1) == 0);
  if (how == "rank-clear") HOLDS(clearenv() == 0 && setenv("RANK", "5", 1) == 0 && setenv("WORLD_SIZE", "8", 1) == 0);
  if (how == "depth") HOLDS(setenv("CULPRIT_DEPTH", "3", 1) == 0);
  if (how == "putenv") {
    HOLDS(putenv(own) == 0);
    strcpy(own + strlen("CULPRIT_DEPTH="), "4");
  }
  if (how == "off") HOLDS(setenv("CULPRIT_START", "signal", 1) == 0);
  if (how == "on") HOLDS(setenv("CULPRIT_START", "now", 1) == 0);
  if (how == "fail") {
    HOLDS(setenv("CULPRIT_FAIL", "cuMemAlloc:1:2", 1) == 0);
    guest::start_cuda();
    CUdeviceptr memory = 0;
    const bool failed = cuMemAlloc(&memory, 512) != CUDA_SUCCESS;
    guest::figure("failed", failed ? 1 : 0);
    if (!failed) guest::release(memory);
  }
  if (how == "fork" || how == "fork-used") {
    if (how == "fork-used") guest::start_cuda();
    const pid_t child = fork();
    HOLDS(child >= 0);
    if (child == 0) {
      HOLDS(clearenv() == 0);
      use_cuda();
      _exit(5);
    }
    int status = 0;
    HOLDS(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    return 4;
  }
  pthread_t thread;
  if (how == "storm") {
    HOLDS(pthread_create(&thread, nullptr, set_for_ever, nullptr) == 0);
    if (argc == 3) usleep(static_cast<useconds_t>(atoi(argv[2])));
  }
  use_cuda();
  if (how == "storm") {
    over = true;
    pthread_join(thread, nullptr);
  }
  return 4;
}
