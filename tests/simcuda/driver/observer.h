// Reports every call of an exported function when it ends, to one observer: for a simulated CUPTI. The observer finds
// the driver as NVIDIA's tools do, through a private table of cuGetExportTable.
#pragma once

#include <cstddef>

namespace simcuda {

// `parameters`: the first six of them, in eight bytes each. Calls that SIMCUDA_FAIL makes fail are not reported.
using Observer = void (*)(const char* name, const void* parameters, const int* result);

// The table of this UUID: "simcuda observer".
struct ObserverTable {
  std::size_t bytes;
  void (*observe)(Observer observer);   // nullptr = none
  const char* (*name)(unsigned index);  // of an exported function; nullptr: there are not so many
  void* (*address)(const char* name);   // of an exported function, past dlsym and cuGetProcAddress
};

}  // namespace simcuda
