// A program that is linked to the driver: its calls go through slots that the loader fills. For each byte of standard
// input it leaks 20001 bytes, by a call, through a table of constants, and through a pointer on main's stack in turn.
// At the end all three must hold the driver's own address again: "fine", or exit code 3.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>

#include "tests/subjects/check.h"

using Allocate = CUresult (*)(CUdeviceptr*, size_t);

// Masked, so that no search for addresses finds it.
constexpr std::uintptr_t kMask = 0x5a5a5a5a5a5a5a5a;

Allocate const volatile constant_table[] = {cuMemAlloc, cuMemAlloc};

SUBJECT_FUNCTION CUresult leak_linked(CUdeviceptr* pointer) { return cuMemAlloc(pointer, 20001); }
SUBJECT_FUNCTION CUresult leak_constant(CUdeviceptr* pointer) { return constant_table[1](pointer, 20001); }
SUBJECT_FUNCTION CUresult leak_on_stack(Allocate allocate, CUdeviceptr* pointer) { return allocate(pointer, 20001); }

int main() {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  volatile Allocate on_stack = cuMemAlloc;
  // volatile: otherwise a copy in a register would be compared, which the detach cannot restore.
  volatile std::uintptr_t own = reinterpret_cast<std::uintptr_t>(on_stack) ^ kMask;
  puts("ready");
  fflush(stdout);
  char byte = 0;
  for (int i = 0; read(STDIN_FILENO, &byte, 1) > 0; ++i) {
    CUdeviceptr pointer = 0;
    if (i % 3 == 0) CHECKED(leak_linked(&pointer));
    if (i % 3 == 1) CHECKED(leak_constant(&pointer));
    if (i % 3 == 2) CHECKED(leak_on_stack(on_stack, &pointer));
  }
  const Allocate kept[] = {constant_table[0], constant_table[1], on_stack};
  for (int i = 0; i < 3; ++i) {
    if ((reinterpret_cast<std::uintptr_t>(kept[i]) ^ kMask) != own) {
      fprintf(stderr, "%s was not put back\n", i < 2 ? "a constant" : "the address on the stack");
      return 3;
    }
  }
  puts("fine");
  return 0;
}
