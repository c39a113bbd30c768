// A global has memory whose primary context is released by a destructor at exit: release_at_end
// thread-local|static|main (main: in main(), before exit).
#include <cuda.h>

#include <cstring>

#include "tests/subjects/check.h"

CUdeviceptr g_kept = 0;

struct Releases {
  bool wanted = false;
  ~Releases() {
    if (wanted) CHECKED(cuDevicePrimaryCtxRelease(0));
  }
};

thread_local Releases t_releases;

SUBJECT_FUNCTION void allocate_here() { CHECKED(cuMemAlloc(&g_kept, 11001)); }

int main(int, char** words) {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  allocate_here();
  t_releases.wanted = std::strcmp(words[1], "thread-local") == 0;
  static Releases releases;
  releases.wanted = std::strcmp(words[1], "static") == 0;
  if (std::strcmp(words[1], "main") == 0) CHECKED(cuDevicePrimaryCtxRelease(0));
  return 0;
}
