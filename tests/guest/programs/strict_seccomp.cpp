// Strict seccomp: the kernel kills the process at each system call but read, write, _exit and sigreturn, and forbids
// the time stamp counter: strict_seccomp known|dies
//   known  pairs with stacks that were seen before: neither this program nor the library makes a call
//   dies   the program makes a forbidden call itself
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <initializer_list>

#include "tests/guest/programs/guest.h"

namespace {

constexpr int kStacks = 20;
constexpr int kRounds = 5000;
CUevent events[16];

GUEST_FUNCTION void pair_on_stream(size_t bytes) {
  CUdeviceptr memory = 0;
  CHECKED(cuMemAllocAsync(&memory, bytes, nullptr));
  CHECKED(cuMemFreeAsync(memory, nullptr));
  KEEP_FRAME();
}

GUEST_FUNCTION void pair_at_depth(int depth) {
  if (depth == 0) {
    pair_on_stream(512);
  } else {
    pair_at_depth(depth - 1);
  }
  KEEP_FRAME();
}

GUEST_FUNCTION void all_pairs(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (int depth = 0; depth < kStacks; ++depth) pair_at_depth(depth);
    for (int i = 0; i < 4; ++i) pair_on_stream(4096);
    pair_on_stream(6 << 20);  // changes the sum of the device at once
    CHECKED(cuEventCreate(&events[round % 16], 0));
    CHECKED(cuEventDestroy(events[round % 16]));
  }
}

}  // namespace

int main(int, char** argv) {
  guest::start_cuda();
  for (const bool strict : {false, true}) {
    if (strict) {
      guest::allocate(7001);
      HOLDS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    }
    all_pairs(strict ? kRounds : 2);  // at one place: the same stacks
  }
  if (argv[1][0] == 'd') syscall(SYS_getppid);
  guest::write_text(1, "all calls of strict seccomp\n");
  syscall(SYS_exit, 0);
  return 3;
}
