// A program with many libraries, each of which has thousands of slots that the loader fills with the driver's
// addresses. For each byte of standard input each library leaks 7001 bytes. At the end all slots must hold the driver's
// own address again: "fine", or exit code 3.
//   attach_many FOLDER   loads all libraries of the folder: copies of attach_plugin.so
#include <cuda.h>
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/subjects/check.h"

// Masked, so that no search for addresses finds it.
constexpr std::uintptr_t kMask = 0x5a5a5a5a5a5a5a5a;

struct Plugin {
  void (*leak)();
  int (*slots_other_than)(std::uintptr_t masked, std::uintptr_t mask);
};

int main(int count, char** arguments) {
  if (count != 2) return 2;
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  std::vector<Plugin> plugins;
  DIR* folder = opendir(arguments[1]);
  for (const dirent* entry = nullptr; folder != nullptr && (entry = readdir(folder)) != nullptr;) {
    const std::string path = std::string(arguments[1]) + "/" + entry->d_name;
    if (entry->d_name[0] == '.') continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      fprintf(stderr, "wrong: %s\n", dlerror());
      return 3;
    }
    plugins.push_back({reinterpret_cast<void (*)()>(dlsym(library, "leak_plugin")),
                       reinterpret_cast<int (*)(std::uintptr_t, std::uintptr_t)>(dlsym(library, "slots_other_than"))});
  }
  if (folder != nullptr) closedir(folder);
  // volatile: otherwise it is masked at the end only, and the search finds it.
  const volatile std::uintptr_t own = reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")) ^ kMask;
  puts("ready");
  fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
    for (const Plugin& plugin : plugins) plugin.leak();
  }
  int wrong = 0;
  for (const Plugin& plugin : plugins) wrong += plugin.slots_other_than(own, kMask);
  if (wrong != 0) {
    fprintf(stderr, "wrong: %d slots\n", wrong);
    return 3;
  }
  puts("fine");
  return 0;
}
