// The names of the variables of device code: __device__, __constant__ and __managed__ ones, those of functions, and
// the compiler's own. Pointers may be in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

// All zeros: no names.
struct VariableNames {
  static constexpr std::uint32_t kMostBytes = 256 << 10;
  std::uint32_t bytes;
  std::uint32_t count;
  std::uint32_t images;   // that they come from: a driver has loaded one of these
  char text[kMostBytes];  // a NUL after each name

  // Returns false when there is no room.
  bool add(const char* name, std::size_t length);
};

// Both add the variables of one image, and return false when not all can be told: the image is damaged, there are too
// many, or its code takes memory from the heap of kernels, where pointers may be, too. Thread- and signal-safe, without
// system calls.
//
// A cubin, an ELF file of the machine EM_CUDA: variables have symbols in .nv.global, .nv.global.init and .nv.constant3.
// One of fewer than eight bytes holds no address.
bool add_variables_of_cubin(const unsigned char* image, std::uint64_t bytes, VariableNames* names);
// The text of PTX, without its NUL.
bool add_variables_of_ptx(const char* text, std::uint64_t bytes, VariableNames* names);

}  // namespace culprit
