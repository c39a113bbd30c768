// A handler on an alternate stack of 8 KiB calls CUDA: alt_stack_handler later|first|crash
//   later: after the program used CUDA itself; first: as the process's first call; crash: frees memory after a SIGSEGV
#include <signal.h>

#include "tests/guest/programs/painted.h"

namespace {

int handled;
CUdeviceptr kept;

void use_cuda(int) {
  if (guest::primary_context() == nullptr) guest::start_cuda();
  guest::pair_by_path(static_cast<uint64_t>(handled), 3);
  ++handled;
}

void give_back_and_end(int) {
  guest::release(kept);
  guest::pair();
  guest::write_text(1, "gave back in the crash handler\n");
  _exit(7);
}

}  // namespace

int main(int, char** argv) {
  const bool crash = strcmp(argv[1], "crash") == 0;
  if (strcmp(argv[1], "first") != 0) guest::start_cuda();
  guest::StackWithNeighbour stack(8192);
  const stack_t alternate = {stack.stack(), 0, stack.bytes()};
  HOLDS(sigaltstack(&alternate, nullptr) == 0);
  struct sigaction action = {};
  action.sa_handler = crash ? give_back_and_end : use_cuda;
  action.sa_flags = SA_ONSTACK;
  HOLDS(sigaction(crash ? SIGSEGV : SIGUSR1, &action, nullptr) == 0);
  if (crash) {
    kept = guest::allocate(4096);
    volatile int* nowhere = nullptr;
    *nowhere = 1;
  }
  for (int i = 0; i < 16; ++i) {
    HOLDS(raise(SIGUSR1) == 0);
    HOLDS(stack.neighbour_is_whole());
  }
  guest::say("%d signals on a stack of 8 KiB, the neighbour's memory is whole", handled);
  return 0;
}
