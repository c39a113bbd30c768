// CUDA before main(): early WHERE WHAT [PLUGIN]
//   WHERE  preinit   in .preinit_array, before the constructors of all libraries
//          library   in the constructor of a library that the program is linked to (this file, too)
//          static    in a static object of that library, whose destructor frees
//          main      in main()
//   WHAT   one of the actions below
// Built several times: the program and its library, and both again with a library whose constructor runs before those
// of all other modules (DF_1_INITFIRST), and before .preinit_array.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

namespace {

void use_cuda() {
  guest::start_cuda();
  for (int i = 0; i < 100; ++i) guest::pair();
  guest::allocate(11001);
}

void* use_cuda_in_thread(void*) {
  use_cuda();
  return nullptr;
}

void use_cuda_in_handler(int) { use_cuda(); }

// As a static runtime does.
void look_up() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  HOLDS(driver != nullptr);
  const auto init = reinterpret_cast<decltype(&::cuInit)>(dlsym(driver, "cuInit"));
  const auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(dlsym(driver, "cuMemAlloc_v2"));
  HOLDS(init != nullptr && allocate != nullptr && dlsym(RTLD_DEFAULT, "no such function") == nullptr);
  CHECKED(init(0));
  CHECKED(cuDevicePrimaryCtxRetain(&guest::primary_context(), 0));
  guest::use_context();
  CUdeviceptr memory = 0;
  CHECKED(allocate(&memory, 11001));
  HOLDS(dlclose(driver) == 0);
}

void act(const char* what, char** argv, char** environment) {
  if (strcmp(what, "cuda") == 0) use_cuda();
  if (strcmp(what, "lookup") == 0) look_up();
  if (strcmp(what, "thread") == 0) {
    pthread_t threads[4];
    for (pthread_t& thread : threads) HOLDS(pthread_create(&thread, nullptr, use_cuda_in_thread, nullptr) == 0);
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  if (strcmp(what, "throw") == 0) {
    try {
      use_cuda();
      throw 1;
    } catch (int) {
    }
  }
  if (strcmp(what, "fork") == 0) {
    const pid_t child = fork();
    HOLDS(child >= 0);
    if (child == 0) {
      use_cuda();
      _exit(5);
    }
    int status = 0;
    HOLDS(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
  }
  if (strcmp(what, "plugin") == 0) {
    void* plugin = dlopen(argv[3], RTLD_NOW);
    HOLDS(plugin != nullptr);
    const auto use = reinterpret_cast<int (*)()>(dlsym(plugin, "use_cuda_in_plugin"));
    HOLDS(use != nullptr && use() == 42);
    HOLDS(dlclose(plugin) == 0);
  }
  if (strcmp(what, "signal") == 0) {
    HOLDS(signal(SIGUSR1, use_cuda_in_handler) != SIG_ERR && raise(SIGUSR1) == 0);
  }
  if (strcmp(what, "exit") == 0) {
    use_cuda();
    exit(6);
  }
  if (strcmp(what, "_exit") == 0) {
    use_cuda();
    _exit(7);
  }
  if (strcmp(what, "_exit-unused") == 0) _exit(7);
  if (strcmp(what, "exec") == 0) {
    use_cuda();
    char* words[] = {argv[0], const_cast<char*>("main"), const_cast<char*>("cuda"), nullptr};
    execve("/proc/self/exe", words, environment);  // libc does not know the environment in .preinit_array
    HOLDS(!"execve failed");
  }
}

[[maybe_unused]] void act_at(const char* where, int argc, char** argv, char** environment) {
  if (argc >= 3 && strcmp(argv[1], where) == 0) act(argv[2], argv, environment);
}

}  // namespace

#ifdef EARLY_LIBRARY

namespace {

__attribute__((constructor)) void at_load(int argc, char** argv, char** environment) {
  act_at("library", argc, argv, environment);
}

bool is_static_wanted() {
  char line[256] = {};
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = read(file, line, sizeof line - 1);
  close(file);
  return bytes > 0 && strcmp(line + strlen(line) + 1, "static") == 0;
}

class Holder {
 public:
  Holder() {
    if (!is_static_wanted()) return;
    use_cuda();
    memory_ = guest::allocate(22002);
  }
  ~Holder() {
    if (memory_ != 0) guest::release(memory_);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

 private:
  CUdeviceptr memory_ = 0;
};
Holder holder;

}  // namespace

extern "C" void early_library() {}

#else

extern "C" void early_library();

namespace {

void at_preinit(int argc, char** argv, char** environment) { act_at("preinit", argc, argv, environment); }
__attribute__((section(".preinit_array"), used)) void (*const preinit)(int, char**, char**) = at_preinit;

}  // namespace

int main(int argc, char** argv) {
  early_library();
  act_at("main", argc, argv, environ);
  guest::say("main");
  return 8;
}

#endif
