// How NVTX offers the functions of an extension to a tool: nvtx3/nvtxDetail/nvtxExtTypes.h, which NVTX keeps for all
// compatibility IDs 1.x.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

struct ExtensionSegment {
  std::size_t id;
  std::size_t slots;
  std::intptr_t* functions;
};
struct ExtensionModule {
  std::uint16_t nvtx_version;
  std::uint16_t struct_size;
  std::uint16_t module;
  std::uint16_t compatibility;
  std::size_t segment_count;
  ExtensionSegment* segments;
};

// The memory extension (nvtx_memory.cpp).
constexpr std::uint16_t kMemoryModule = 1;
void fill_memory_functions(const ExtensionSegment& segment);

}  // namespace culprit
