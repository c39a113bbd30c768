// Many allocations from few stacks of code without unwind information: walked_once WHAT COUNT
//
//   counter   rbp is a counter of the caller
//   depth     with frame pointers, at changing depths and with changing room on the stack
//   pointer   rbp points to the caller's data, which changes
//   switched  on four stacks of user threads in turn
//
// CULPRIT_VERIFY_STACKS makes the library compare each remembered stack with one that it walks.
#include <initializer_list>

#include "tests/guest/programs/no_unwind_information.h"
#include "tests/guest/programs/painted.h"

GUEST_CALLS_WITHOUT_UNWIND_INFORMATION;

namespace {

guest::CallsWithoutUnwindInformation calls;
const char* what;
uint64_t count;
CUdeviceptr memory;

GUEST_FUNCTION void call_with(uint64_t rbp) {
  CHECKED(calls.with_rbp(rbp, reinterpret_cast<void*>(&cuMemAlloc_v2), reinterpret_cast<uint64_t>(&memory), 512));
  KEEP_FRAME();
}

void call_many() {
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t data[4] = {i, i * 7, i * 3, i};
    if (strcmp(what, "depth") == 0) {
      CHECKED(calls.at_depth(i % 5, reinterpret_cast<void*>(&cuMemAlloc_v2), reinterpret_cast<uint64_t>(&memory), 512,
                             i % 3 * 64));
    } else {
      call_with(strcmp(what, "pointer") == 0 ? reinterpret_cast<uint64_t>(data) : i * 0x10001);
    }
    CHECKED(cuMemFree(memory));
  }
}

}  // namespace

int main(int, char** argv) {
  what = argv[1];
  count = strtoull(argv[2], nullptr, 10);
  guest::start_cuda();
  for (const bool copied : {false, true}) {
    calls = guest::calls_without_unwind_information(copied);
    if (strcmp(what, "switched") != 0) {
      call_many();
      continue;
    }
    count = strtoull(argv[2], nullptr, 10) / 20;
    const guest::Painted stacks(4 * 65536);
    for (int i = 0; i < 20; ++i) guest::run_on(stacks.memory() + i % 4 * 65536, 65536, call_many);
  }
  guest::say("done");
  return 0;
}
