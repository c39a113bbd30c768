// A record of an allocation as NVIDIA's driver has it in the heap of the process.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"

// Without the identity that the driver knows, such a record is the program's.
SUBJECT_FUNCTION inline uintptr_t* make_driver_record(void* memory, bool identity) {
  constexpr unsigned long long kOther = 700;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  unsigned long long number = kOther;
  using Ask = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  const auto ask =
      reinterpret_cast<Ask>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuPointerGetAttribute"));
  if (ask(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS) number = kOther;
  auto* words = static_cast<uintptr_t*>(calloc(71, sizeof(uintptr_t)));
  words[4] = address;
  words[5] = reinterpret_cast<uintptr_t>(words);
  words[8] = words[11] = 11264;
  words[12] = words[13] = address;
  words[15] = identity ? number : 0;
  return words;
}

// A range of device memory in one of the driver's trees. Without its links to itself it is the program's.
SUBJECT_FUNCTION inline uintptr_t* make_range_record(void* memory, bool links) {
  auto* words = static_cast<uintptr_t*>(calloc(19, sizeof(uintptr_t)));
  words[0] = reinterpret_cast<uintptr_t>(memory);
  words[1] = 11001;
  words[4] = words[5] = reinterpret_cast<uintptr_t>(words);
  words[7] = 4;
  if (links) words[10] = reinterpret_cast<uintptr_t>(words);
  return words;
}

// Device memory that the driver divides among allocations.
SUBJECT_FUNCTION inline uintptr_t* make_segment_record(void* memory, bool pages) {
  constexpr uintptr_t kSegment = 2 << 20;
  auto* words = static_cast<uintptr_t*>(calloc(99, sizeof(uintptr_t)));
  words[13] = words[15] = words[18] = reinterpret_cast<uintptr_t>(memory) / kSegment * kSegment;
  words[14] = words[20] = kSegment;
  if (pages) words[21] = kSegment / 4096;
  words[30] = reinterpret_cast<uintptr_t>(memory);
  return words;
}

// An allocation of a pool. Without its own address it is the program's.
SUBJECT_FUNCTION inline uintptr_t* make_pool_record(void* memory, bool own) {
  auto* words = static_cast<uintptr_t*>(calloc(43, sizeof(uintptr_t)));
  words[7] = words[8] = 11001;
  words[31] = reinterpret_cast<uintptr_t>(memory);
  if (own) words[41] = reinterpret_cast<uintptr_t>(words);
  return words;
}

// A range of device memory whose node has functions of the driver, or of another library.
SUBJECT_FUNCTION inline uintptr_t* make_linked_record(void* memory, bool of_driver) {
  struct Search {
    bool of_driver;
    uintptr_t code;
  } search = {of_driver, 0};
  dl_iterate_phdr(
      [](struct dl_phdr_info* module, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const bool is_driver = strstr(module->dlpi_name, "libcuda.so") != nullptr;
        for (int i = 0; i < module->dlpi_phnum && is_driver == wanted.of_driver && wanted.code == 0; ++i) {
          const ElfW(Phdr)& part = module->dlpi_phdr[i];
          if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0)
            wanted.code = module->dlpi_addr + part.p_vaddr + part.p_memsz / 2;
        }
        return 0;
      },
      &search);
  auto* words = static_cast<uintptr_t*>(calloc(17, sizeof(uintptr_t)));
  words[0] = reinterpret_cast<uintptr_t>(memory);
  words[1] = 2 << 20;
  words[2] = 1;
  words[10] = words[13] = search.code;
  words[11] = words[14] = search.code + 64;
  return words;
}
