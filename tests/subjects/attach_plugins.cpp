// Two threads load, use and close libraries of the driver for as long as standard input is open; another one computes.
// culprit attaches meanwhile. Prints "ready" and "fine"; exit code 3 when a library does not load.
#include <cuda.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

static std::atomic<bool> stop{false};
static std::atomic<long> loads{0};

static void load_and_close(const std::string& folder) {
  for (int i = 0; !stop.load(); ++i) {
    const std::string name = folder + (i % 2 == 0 ? "/attach_plugin.so" : "/attach_plugin_plain.so");
    void* library = dlopen(name.c_str(), RTLD_NOW);
    void* use = library != nullptr ? dlsym(library, "use_plugin") : nullptr;
    if (use == nullptr) {
      fprintf(stderr, "wrong: %s\n", dlerror());
      _exit(3);
    }
    reinterpret_cast<void (*)()>(use)();
    dlclose(library);
    ++loads;
    // Without pauses both are in the loader nearly always, and an attach waits half a minute.
    if (i % 2 == 0) usleep(500);
  }
}

int main(int, char** arguments) {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return 4;
  std::string folder = arguments[0];
  folder.resize(folder.rfind('/'));
  const auto load = [&] {
    cuCtxSetCurrent(context);
    load_and_close(folder);
  };
  std::thread loader(load);
  std::thread other(load);
  puts("ready");
  fflush(stdout);
  long sum = 0;
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) <= 0;) {
    for (int i = 0; i < 1000000; ++i) sum = sum * 3 + i;
  }
  stop = true;
  loader.join();
  other.join();
  if (loads.load() < 10 || sum == 1) return 3;
  puts("fine");
  return 0;
}
