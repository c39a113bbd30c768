// Leaves the place where it was started before its first CUDA call, and leaks: elsewhere HOW FOLDER
//   setuid   gives up root
//   chroot   takes FOLDER as its root directory
//   mount    has another, empty file system at FOLDER
//   network  the same, and a network of its own
//   files    may open no file
//   daemon   goes on in the background, without descriptors, when the first process has ended
// Prints "not permitted" where it must be root and is not. The last three live for some seconds.
#include <cuda.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/subjects/check.h"

namespace {

void need(bool permitted) {
  if (permitted) return;
  std::puts("not permitted");
  std::exit(0);
}

bool mount_over(const std::string& folder) {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, nullptr) == 0;
}

void become_daemon() {
  if (fork() != 0) _exit(0);
  setsid();
  if (chdir("/") != 0) _exit(1);
  syscall(SYS_close_range, 0U, ~0U, 0U);
  usleep(2500000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string how = argv[1], folder = argv[2];
  if (how == "setuid") need(setgid(65534) == 0 && setuid(65534) == 0);
  if (how == "chroot") need(chroot(folder.c_str()) == 0 && chdir("/") == 0);
  if (how == "mount") need(unshare(CLONE_NEWNS) == 0 && mount_over(folder));
  if (how == "network") need(unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 && mount_over(folder));
  if (how == "files") {
    const rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
  }
  if (how == "daemon") become_daemon();
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CHECKED(cuInit(0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  CHECKED(cuMemAlloc(&memory, 11001));
  if (how == "network" || how == "files") usleep(2500000);
  return 0;
}
