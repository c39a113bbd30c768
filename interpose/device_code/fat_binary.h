// The container in which nvcc puts the code for several GPUs. Its layout is not documented; these are the facts that
// images of CUDA 11 to 13 show, and cuobjdump's listing of them.
#pragma once

#include <cstdint>

#include "interpose/device_code/decompression.h"

namespace culprit {

// The structure that a program registers (fatbinary_section.h, __fatBinC_Wrapper_t).
struct FatBinaryWrapper {
  static constexpr std::uint32_t kMagic = 0x466243b1;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t data;  // the address of a FatBinary
  std::uint64_t more;
};

struct FatBinary {
  static constexpr std::uint32_t kMagic = 0xba55ed50;
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  // behind the header
};

// One piece of code in a container.
struct FatBinaryEntry {
  enum class Kind : std::uint8_t { kPtx, kCubin, kOther };
  Kind kind;
  Compression compression;
  std::uint32_t architecture;  // 90 for sm_90 and compute_90
  const unsigned char* data;
  std::uint64_t bytes;        // of it
  std::uint64_t image_bytes;  // once it is decompressed
};

// Calls visit(entry, argument) for each piece of a container of `bytes` bytes at `container`, until it returns false.
// Returns whether all were visited: false also when the container is damaged. Thread- and signal-safe.
using EntryVisitor = bool (*)(const FatBinaryEntry& entry, void* argument);
bool visit_entries(const unsigned char* container, std::uint64_t bytes, EntryVisitor visit, void* argument);

template <typename Visit>
bool for_each_entry_of(const unsigned char* container, std::uint64_t bytes, Visit visit) {
  return visit_entries(
      container, bytes,
      [](const FatBinaryEntry& entry, void* argument) -> bool { return (*static_cast<Visit*>(argument))(entry); },
      &visit);
}

}  // namespace culprit
