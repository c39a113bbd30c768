// Coroutines with small stacks that lie directly above other memory of the program: small_coroutines KIB
#include "tests/guest/programs/painted.h"

namespace {

int coroutine_number;

GUEST_FUNCTION void throw_with_memory() {
  const CUdeviceptr memory = guest::allocate(1024);
  guest::release(memory);
  throw coroutine_number;
}

void use_cuda() {
  for (int i = 0; i < 4; ++i) guest::pair_by_path(static_cast<uint64_t>(coroutine_number * 4 + i), 4);
  try {
    throw_with_memory();
  } catch (int) {
  }
}

}  // namespace

int main(int, char** argv) {
  const size_t kib = static_cast<size_t>(atoi(argv[1]));
  guest::start_cuda();
  for (coroutine_number = 0; coroutine_number < 64; ++coroutine_number) {
    guest::StackWithNeighbour stack(kib * 1024);
    guest::run_on(stack.stack(), stack.bytes(), use_cuda);
    HOLDS(stack.neighbour_is_whole());
  }
  guest::say("%d coroutines of %zu KiB, the neighbour's memory is whole", coroutine_number, kib);
  return 0;
}
