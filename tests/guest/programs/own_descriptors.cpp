// A daemon's start: own_descriptors closefrom|daemon|setuid|chroot|clearenv
//   closefrom closes all descriptors above 2 between CUDA calls, opens files and checks that they do not change;
//   daemon and chroot change the working directory; setuid gives up root
#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

namespace {

void use_cuda(uint64_t from) {
  for (uint64_t i = 0; i < 8000; ++i) guest::pair_by_path(from + i, 16);
  guest::allocate(11001);
}

void own_the_numbers() {
  char mine[4096];
  memset(mine, 'm', sizeof mine);
  HOLDS(syscall(SYS_close_range, 3U, ~0U, 0U) == 0);
  int files[64];
  for (int& file : files) {
    char name[] = "/tmp/guest.XXXXXX";
    file = mkstemp(name);
    HOLDS(file == 3 + static_cast<int>(&file - files));
    HOLDS(unlink(name) == 0 && write(file, mine, sizeof mine) == sizeof mine);
  }
  use_cuda(100000);
  for (const int file : files) {
    char now[8192];
    HOLDS(pread(file, now, sizeof now, 0) == sizeof mine && memcmp(now, mine, sizeof mine) == 0);
    HOLDS(close(file) == 0);
  }
}

}  // namespace

int main(int, char** argv) {
  const char* how = argv[1];
  if (strcmp(how, "clearenv") == 0) HOLDS(clearenv() == 0);
  guest::start_cuda();
  use_cuda(0);
  if (strcmp(how, "closefrom") == 0) own_the_numbers();
  if (strcmp(how, "daemon") == 0) {
    const pid_t pid = fork();  // like daemon(3), but the program can wait for it
    HOLDS(pid >= 0);
    if (pid != 0) {
      int status = 0;
      HOLDS(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
      return WEXITSTATUS(status);
    }
    HOLDS(setsid() > 0 && chdir("/") == 0);
    umask(0777);
    guest::start_cuda();
  }
  if (strcmp(how, "setuid") == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) guest::say("not permitted");
  if (strcmp(how, "chroot") == 0 && (chroot("/proc/self/fdinfo") != 0 || chdir("/") != 0)) guest::say("not permitted");
  HOLDS(prctl(PR_SET_NAME, "a new name") == 0);
  use_cuda(50000);
  guest::say("%s: went on", how);
  return 6;
}
