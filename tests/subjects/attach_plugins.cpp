// Threads load, use and close libraries of the driver for as long as standard input is open; another one computes.
// culprit attaches meanwhile. Prints "ready" and "fine"; exit code 3 when a library does not load.
//   attach_plugins             two threads, with pauses
//   attach_plugins restless N  N threads, without any, which load a library that takes 2 ms and close it at once: one
//   of
//                              them has the loader's lock nearly always
#include <cuda.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

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
    if (i % 2 == 0) usleep(500);
  }
}

static void load_restlessly(const std::string& name) {
  for (; !stop.load(); ++loads) {
    void* library = dlopen(name.c_str(), RTLD_NOW);
    if (library == nullptr || dlclose(library) != 0) {
      fprintf(stderr, "wrong: %s\n", dlerror());
      _exit(3);
    }
  }
}

int main(int count, char** arguments) {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return 4;
  std::string folder = arguments[0];
  folder.resize(folder.rfind('/'));
  const bool restless = count == 3;
  std::vector<std::thread> loaders(restless ? strtoul(arguments[2], nullptr, 10) : 2);
  for (std::thread& loader : loaders) {
    loader = std::thread([&] {
      cuCtxSetCurrent(context);
      if (restless) load_restlessly(folder + "/attach_plugin_slow.so");
      if (!restless) load_and_close(folder);
    });
  }
  puts("ready");
  fflush(stdout);
  long sum = 0;
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) <= 0;) {
    for (int i = 0; i < 1000000; ++i) sum = sum * 3 + i;
  }
  stop = true;
  for (std::thread& loader : loaders) loader.join();
  if (loads.load() < 10 || sum == 1) return 3;
  puts("fine");
  return 0;
}
