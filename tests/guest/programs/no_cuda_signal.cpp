// A program without CUDA gets a signal that it does not handle: no_cuda_signal NUMBER
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(int, char** argv) {
  kill(getpid(), atoi(argv[1]));
  return 5;
}
