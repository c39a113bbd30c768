// Leaves GPU memory behind without a process: ghost GIB
//
// Allocates, forks a child that keeps the inherited /dev/nvidia* descriptors, prints "ready PARENT CHILD GPU-UUID",
// waits for the end of its input, and is killed. The child stays until it is killed too; after ten minutes it ends by
// itself.
#include <cuda.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

void require(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "ghost: %s: CUDA error %d\n", what, static_cast<int>(status));
  std::exit(1);
}

void print_uuid(const CUuuid& uuid) {
  std::printf("GPU");
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) std::printf("-");
    std::printf("%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const long gib = argc == 2 ? std::atol(argv[1]) : 0;
  if (gib < 1) {
    std::fputs("usage: ghost GIB\n", stderr);
    return 2;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUuuid uuid = {};
  const size_t bytes = static_cast<size_t>(gib) << 30;
  require(cuInit(0), "cuInit");
  require(cuDeviceGet(&device, 0), "cuDeviceGet");
  require(cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  require(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  require(cuMemAlloc(&memory, bytes), "cuMemAlloc");

  const pid_t child = fork();
  if (child < 0) {
    std::perror("ghost: fork");
    return 1;
  }
  if (child == 0) {
    // A reader of our output must not wait for the child.
    for (int fd = 0; fd <= 2; ++fd) close(fd);
    sleep(600);
    _exit(0);
  }
  std::printf("ready %d %d ", static_cast<int>(getpid()), static_cast<int>(child));
  print_uuid(uuid);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  raise(SIGKILL);
  return 0;
}
