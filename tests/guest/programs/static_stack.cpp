// CUDA on a stack among the program's global variables, which the search at exit reads: static_stack
#include <signal.h>

#include "tests/guest/programs/painted.h"

namespace {

alignas(64) char fiber_stack[64 * 1024];
alignas(64) char handler_stack[64 * 1024];

void use_cuda() {
  for (uint64_t path = 0; path < 64; ++path) guest::pair_by_path(path, 6);
}

}  // namespace

int main() {
  guest::start_cuda();
  guest::run_on(fiber_stack, sizeof fiber_stack, use_cuda);
  const stack_t alternate = {handler_stack, 0, sizeof handler_stack};
  HOLDS(sigaltstack(&alternate, nullptr) == 0);
  struct sigaction action = {};
  action.sa_handler = [](int) { use_cuda(); };
  action.sa_flags = SA_ONSTACK;
  HOLDS(sigaction(SIGUSR1, &action, nullptr) == 0 && raise(SIGUSR1) == 0);
  guest::say("CUDA on stacks among the globals");
  return 0;
}
