// The two compressions of device code in nvcc's images: zstd, and LZ4 as its block format.
#pragma once

#include <cstdint>

namespace culprit {

enum class Compression : std::uint8_t { kNone, kLz4, kZstd };

// Decompresses `bytes` at `from` to exactly `wanted` bytes at `to`. Returns false when they are not such data. On the
// tracker's own stack only; thread-safe; the decoder's state (100 KiB) is private memory for the time of the call.
bool decompress(Compression compression, const unsigned char* from, std::uint64_t bytes, unsigned char* to,
                std::uint64_t wanted);

}  // namespace culprit
