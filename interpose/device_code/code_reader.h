// Reads an image of device code for the names of its variables: a cubin, PTX, or a container of nvcc with several.
#pragma once

#include <cstdint>

#include "interpose/device_code/variable_names.h"

namespace culprit {

// The GPUs of this machine by their compute capability: 90 for 9.0. The driver takes a cubin of the same major version
// and no later minor version; without one it compiles PTX.
struct Architectures {
  static constexpr int kMost = 64;
  int count;
  std::uint16_t of[kMost];

  bool all_take_cubin(const std::uint32_t* cubins, int cubin_count) const;
  bool one_takes_cubin(std::uint32_t cubin) const;
};

// Asks the calling thread's driver.
void read_architectures(Architectures* to);

// Where the container of an image begins: the one that a registration by nvcc's code refers to, or `image` itself. 0:
// it cannot be read.
std::uint64_t container_of(std::uint64_t image);

// Reads the image at this address of the process, which may be gone, and adds the names of its variables. `budget`:
// bytes that may be copied and decompressed; those that were are subtracted. Returns false when not all names can be
// told. On the tracker's own stack only; thread-safe.
bool read_variable_names(std::uint64_t image, const Architectures& architectures, std::uint64_t* budget,
                         VariableNames* names);
// The same for a file.
bool read_variable_names_of_file(const char* path, const Architectures& architectures, std::uint64_t* budget,
                                 VariableNames* names);

}  // namespace culprit
