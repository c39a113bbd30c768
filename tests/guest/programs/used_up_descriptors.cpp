// The program opens all descriptors that its limit allows: used_up_descriptors before|after|between
//   before the first CUDA call, after it, or in the middle of many allocations
// Prints the number of descriptors.
#include <errno.h>

#include "tests/guest/programs/guest.h"

namespace {

int opened;
int last;

void use_up() {
  for (;;) {
    const int file = open("/dev/null", O_RDONLY);
    if (file < 0) break;
    last = file;
    ++opened;
  }
  HOLDS(errno == EMFILE);
}

}  // namespace

int main(int, char** argv) {
  if (argv[1][0] == 'b' && argv[1][2] == 'f') use_up();
  guest::start_cuda();
  guest::allocate(11001);
  if (argv[1][0] == 'a') use_up();
  for (unsigned i = 0; i < 20000; ++i) {
    guest::pair_by_path(i, 14);
    if (i == 1000 && argv[1][2] == 't') use_up();
  }
  guest::say("%d descriptors could be opened, the last is %d", opened, last);
  return 0;
}
