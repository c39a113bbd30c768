// A library whose constructor prints "ready" and waits for the end of standard input.
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void wait_for_end() {
  puts("ready");
  fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}
