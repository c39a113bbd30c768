// A program whose thread forks children while culprit attaches and detaches: a child is forked at any moment of that.
//
//     attach_forks COUNT          one each 2 ms
//     attach_forks COUNT later    the same, after the first byte of standard input
//     attach_forks COUNT fast     one as soon as the last one is there, at once
//     attach_forks COUNT loading  the same; each calls dlopen() and ends at once, so that there is no end of them. In
//     the
//                                 parent, a dlopen() takes 20 ms longer
//
// Each child waits for the end of its standard input, and leaks 20001 bytes for each byte there. It allocates and frees
// before and after, unless it is a fast one: the simulated runtime then calls dlopen(), which ends a child that was
// forked in the middle of another thread's dlopen(). Prints "ready", and "fine" when all children have ended well.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

static pid_t slow_process = 0;

// Not _r_debug, of which the program would have a copy.
static const r_debug* loader_state() {
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_DEBUG) return reinterpret_cast<const r_debug*>(entry->d_un.d_ptr);
  }
  return nullptr;
}

static void slow_down() {
  static thread_local bool has_waited = false;
  if (slow_process == 0 || has_waited || getpid() != slow_process) return;
  const r_debug* state = loader_state();
  if (state == nullptr || state->r_state == r_debug::RT_CONSISTENT) return;
  has_waited = true;
  usleep(20000);
}

// The loader calls them while it changes its list of libraries.
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" void* malloc(size_t bytes) {
  slow_down();
  return __libc_malloc(bytes);
}
extern "C" void* calloc(size_t count, size_t bytes) {
  slow_down();
  return __libc_calloc(count, bytes);
}

SUBJECT_FUNCTION static void* allocate(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

SUBJECT_FUNCTION static void leak_in_child() { allocate(20001); }

// As the loader does that again for each library that is not loaded yet.
[[noreturn]] static void load_in_child() {
  void* library = dlopen("libutil.so.1", RTLD_NOW);
  if (library == nullptr) _exit(5);
  dlclose(library);
  _exit(0);
}

static void be_child(int input, bool allocates) {
  if (allocates) CHECKED(cudaFree(allocate(777)));
  char byte = 0;
  while (read(input, &byte, 1) > 0) leak_in_child();
  if (allocates) CHECKED(cudaFree(allocate(777)));
  _exit(0);
}

int main(int count, char** arguments) {
  const int most = atoi(arguments[1]);
  const std::string kind = count > 2 ? arguments[2] : "";
  const bool fast = kind == "fast";
  CHECKED(cudaFree(allocate(777)));
  std::vector<pid_t> children;
  std::atomic<bool> stop{false};
  int ends[2];
  if (pipe(ends) != 0) return 4;  // its writing end closes with this process's
  puts("ready");
  fflush(stdout);
  char byte = 0;
  if (kind == "later" && read(STDIN_FILENO, &byte, 1) != 1) return 4;
  std::atomic<bool> well{true};
  const auto collect = [&](pid_t child) {
    int status = 0;
    if (waitpid(child, &status, 0) == child && status == 0) return;
    fprintf(stderr, "child %d ended with status 0x%x\n", child, static_cast<unsigned>(status));
    well = false;
  };
  if (kind == "loading") slow_process = getpid();
  std::vector<std::thread> loading;  // several, because one may be the thread that culprit borrows
  for (int i = 0; i < 3 && kind == "loading"; ++i) {
    loading.emplace_back([&] {
      while (!stop.load()) {
        const pid_t child = fork();
        if (child == 0) load_in_child();
        collect(child);
      }
    });
  }
  std::thread forks([&] {
    while (!stop.load() && static_cast<int>(children.size()) < most) {
      const pid_t child = fork();
      if (child == 0) {
        close(ends[1]);
        be_child(ends[0], !fast);
      }
      children.push_back(child);
      if (!fast) usleep(2000);
    }
  });
  while (read(STDIN_FILENO, &byte, 1) > 0) CHECKED(cudaFree(allocate(999)));
  stop = true;
  forks.join();
  for (std::thread& thread : loading) thread.join();
  close(ends[1]);
  for (const pid_t child : children) collect(child);
  if (!well) return 3;
  puts("fine");
  return 0;
}
