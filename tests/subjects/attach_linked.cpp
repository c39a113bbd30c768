// A program that is linked to the driver: its calls go through slots that the loader fills. For each byte of standard
// input it leaks 20001 bytes, by a call, through a table of constants, and through a pointer on main's stack in turn.
// At the end all three must hold the driver's own address again: "fine", or exit code 3. With the argument "sealed" the
// memory that is read-only after relocation is sealed, where the kernel can do that.
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/syscall.h>
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

static int seal(dl_phdr_info* module, size_t, void*) {
  constexpr long kSeal = 462;  // mseal(), Linux 6.10; missing in older headers
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    if (part.p_type != PT_GNU_RELRO) continue;
    const std::uintptr_t begin = (module->dlpi_addr + part.p_vaddr) & ~std::uintptr_t{4095};
    const std::uintptr_t end = (module->dlpi_addr + part.p_vaddr + part.p_memsz) & ~std::uintptr_t{4095};
    if (begin != end && syscall(kSeal, begin, end - begin, 0) != 0 && errno != ENOSYS) exit(4);
  }
  return 0;
}

int main(int count, char**) {
  if (count > 1) dl_iterate_phdr(seal, nullptr);
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
