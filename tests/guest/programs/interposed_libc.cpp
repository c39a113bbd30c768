// A program that replaces functions of libc, as sanitizers, profilers and allocators do. The program counts calls of
// these functions inside CUDA calls, where neither the program nor the driver makes any, and prints the functions'
// names.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

__thread bool inside __attribute__((tls_model("initial-exec")));
unsigned calls[64];

enum Function {
#define INTERPOSED(name) k_##name,
#include "tests/guest/programs/interposed_functions.def"
  kEnd
};
static_assert(kEnd <= 64, "");

const char* const kNames[] = {
#define INTERPOSED(name) #name,
#include "tests/guest/programs/interposed_functions.def"
};

void* next_functions[kEnd];

void use_cuda(uint64_t path) {
  inside = true;
  guest::use_context();
  for (uint64_t i = 0; i < 200; ++i) guest::pair_by_path(path + i, 10);
  const CUdeviceptr memory = guest::allocate(100);
  guest::release(memory);
  CUdeviceptr none = 0;
  HOLDS(cuMemFree(memory) != CUDA_SUCCESS && cuMemAlloc(&none, size_t{1} << 50) != CUDA_SUCCESS);
  inside = false;
}

void* thread_main(void*) {
  use_cuda(5000);
  return nullptr;
}

}  // namespace

// Each jumps to the real function after increasing a counter, and changes neither argument registers nor the stack.
extern "C" __attribute__((visibility("hidden"))) void* guest_next(unsigned function) {
  if (inside) __atomic_add_fetch(&calls[function], 1, __ATOMIC_RELAXED);
  return next_functions[function];
}

#define INTERPOSED(name)                                                                                               \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name                                                    \
      ":\n push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n push %rax\n mov $guest_number_" #name \
      ", %edi\n call guest_next\n mov %rax, %r11\n pop %rax\n pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n "   \
      "pop "                                                                                                           \
      "%rdi\n jmp *%r11\n.size " #name ", . - " #name "\n");
#include "tests/guest/programs/interposed_functions.def"

// The numbers of the functions, for the assembler.
__attribute__((used)) static void define_numbers() {
#define INTERPOSED(name) asm volatile(".set guest_number_" #name ", %c0" ::"i"(k_##name));
#include "tests/guest/programs/interposed_functions.def"
}

// Before any other constructor asks for one of them.
static void find_next() {
#define INTERPOSED(name) next_functions[k_##name] = dlsym(RTLD_NEXT, #name);
#include "tests/guest/programs/interposed_functions.def"
}
__attribute__((section(".preinit_array"), used)) static void (*const early)() = find_next;

int main() {
  inside = true;
  CHECKED(cuInit(0));
  CHECKED(cuDevicePrimaryCtxRetain(&guest::primary_context(), 0));
  inside = false;
  use_cuda(0);
  pthread_t thread;
  CHECKED(pthread_create(&thread, nullptr, thread_main, nullptr));
  CHECKED(pthread_join(thread, nullptr));
  unsigned total = 0;
  for (int i = 0; i < kEnd; ++i) {
    total += calls[i];
    if (calls[i] != 0) guest::say("called inside a CUDA call: %s", kNames[i]);
  }
  guest::say("%s", total == 0 ? "no function of libc was called" : "functions of libc were called");
  return 0;
}
