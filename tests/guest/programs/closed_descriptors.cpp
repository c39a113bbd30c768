// Started with some of the descriptors 0, 1, 2 closed: closed_descriptors [fork]
// The exit code is 10 plus the number that open() returns after CUDA was used, plus 32 for each failure: standard input
// is readable, an output takes no bytes. With "fork" 64 times the child's number is added.
#include <errno.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

int main(int argc, char**) {
  bool was_open[3];
  for (int i = 0; i < 3; ++i) was_open[i] = fcntl(i, F_GETFD) != -1;
  guest::start_cuda();
  guest::allocate(11001);
  guest::pair();
  int code = 10;
  if (argc > 1) {
    const pid_t pid = fork();
    HOLDS(pid >= 0);
    if (pid == 0) {
      guest::start_cuda();
      guest::pair();
      _exit(open("/dev/null", O_RDONLY));
    }
    int status = 0;
    HOLDS(waitpid(pid, &status, 0) == pid);
    code += WEXITSTATUS(status) * 64;
  }
  char byte;
  if (read(0, &byte, 1) > 0) code += 32;
  for (int i = 1; i < 3; ++i) {
    const bool written = write(i, "out\n", 4) == 4;
    if (written != was_open[i]) code += 32;
  }
  const int next = open("/dev/null", O_RDONLY);
  if (next >= 0) code += next;
  guest::pair();
  return code & 255;
}
