// Allocates and frees from as many kinds of stack as there are: deep recursion, alloca and variable-size frames, frames
// that exceptions unwound, signal handlers, a library that is closed and opened again, user-made stacks, many threads.
//
//   stack_storm PLUGIN ROUNDS THREADS [RELOAD]
//
// One round in RELOAD (64) opens and closes PLUGIN, after which every stack has to be walked again. Run with
// CULPRIT_VERIFY_STACKS=1 it proves that a remembered stack is the real one.
#include <alloca.h>
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

#define KEEP_FRAME() asm volatile("" ::: "memory")

unsigned next_random(unsigned* seed) { return *seed = *seed * 1664525U + 1013904223U; }

__attribute__((noinline)) void pair() {
  for (int i = 0; i < 4; ++i) {
    CUdeviceptr memory = 0;
    CHECKED(cuMemAlloc(&memory, 256));
    CHECKED(cuMemFree(memory));
  }
  KEEP_FRAME();
}

__attribute__((noinline)) void variable_frame(unsigned* seed, int depth) {
  volatile char* room = static_cast<char*>(alloca(16 + next_random(seed) % 512));
  room[0] = 1;
  if (depth == 0) {
    pair();
  } else {
    variable_frame(seed, depth - 1);
  }
  KEEP_FRAME();
}

__attribute__((noinline)) void recurse(unsigned* seed, int depth) {
  if (depth == 0) {
    pair();
  } else if (next_random(seed) % 4 == 0) {
    variable_frame(seed, depth - 1);
  } else {
    recurse(seed, depth - 1);
  }
  KEEP_FRAME();
}

__attribute__((noinline)) void throw_deep(unsigned* seed, int depth) {
  if (depth == 0) {
    pair();
    throw std::runtime_error("unwound");
  }
  throw_deep(seed, depth - 1);
  KEEP_FRAME();
}

__attribute__((noinline)) void through_exception(unsigned* seed) {
  try {
    throw_deep(seed, static_cast<int>(next_random(seed) % 10));
  } catch (const std::runtime_error&) {
    pair();
  }
}

void on_signal(int) { pair(); }

// A generator: a stack of its own that is entered and left again and again, at the same address with other contents.
struct Generator {
  ucontext_t self, caller;
  unsigned seed;
  std::vector<char> stack = std::vector<char>(256 * 1024);
};
thread_local Generator* running = nullptr;

void generate() {
  for (;;) {
    recurse(&running->seed, static_cast<int>(next_random(&running->seed) % 12));
    swapcontext(&running->self, &running->caller);
  }
}

void run_generator(Generator* generator) {
  running = generator;
  swapcontext(&generator->caller, &generator->self);
}

using Allocate = void (*)(void (*)());

void reload(const char* plugin) {
  void* library = dlopen(plugin, RTLD_NOW);
  if (library == nullptr) std::abort();
  reinterpret_cast<Allocate>(dlsym(library, "call_back"))(pair);
  dlclose(library);
}

void storm(const char* plugin, long rounds, unsigned every, unsigned seed) {
  Generator generator;
  generator.seed = seed;
  getcontext(&generator.self);
  generator.self.uc_stack.ss_sp = generator.stack.data();
  generator.self.uc_stack.ss_size = generator.stack.size();
  generator.self.uc_link = nullptr;
  makecontext(&generator.self, generate, 0);
  for (long round = 0; round < rounds; ++round) {
    if ((next_random(&seed) >> 8) % every == 0) reload(plugin);
    switch (next_random(&seed) % 64) {
      case 0:
        raise(SIGUSR1);
        break;
      case 1:
      case 2:
      case 3:
        through_exception(&seed);
        break;
      case 4:
      case 5:
        run_generator(&generator);
        break;
      case 6:
        recurse(&seed, 100 + static_cast<int>(next_random(&seed) % 100));
        break;
      default:
        recurse(&seed, static_cast<int>(next_random(&seed) % 30));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  long rounds = std::atol(argv[2]);
  int threads = std::atoi(argv[3]);
  unsigned every = argc > 4 ? static_cast<unsigned>(std::atoi(argv[4])) : 64;
  signal(SIGUSR1, on_signal);
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  std::vector<std::thread> others;
  for (int i = 0; i < threads; ++i) {
    others.emplace_back([=] {
      CHECKED(cuCtxSetCurrent(context));
      storm(argv[1], rounds, every, static_cast<unsigned>(i) * 7919U + 1);
    });
  }
  for (std::thread& thread : others) thread.join();
  std::printf("done\n");
  return 0;
}
