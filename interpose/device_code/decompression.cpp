#define ZSTD_STATIC_LINKING_ONLY  // the functions that work in memory of the caller
#include "interpose/device_code/decompression.h"

#include <lz4.h>
#include <zstd.h>

#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 30;  // LZ4 counts in ints

bool decompress_zstd(const unsigned char* from, std::uint64_t bytes, unsigned char* to, std::uint64_t wanted) {
  int error = 0;
  const std::uint64_t state_bytes = ZSTD_estimateDCtxSize();
  void* state = map_private(state_bytes, &error);
  if (state == nullptr) return false;
  ZSTD_DCtx* decoder = ZSTD_initStaticDCtx(state, state_bytes);
  const bool done = decoder != nullptr && ZSTD_decompressDCtx(decoder, to, wanted, from, bytes) == wanted;
  unmap_private(state, state_bytes);
  return done;
}

}  // namespace

bool decompress(Compression compression, const unsigned char* from, std::uint64_t bytes, unsigned char* to,
                std::uint64_t wanted) {
  if (bytes > kMostBytes || wanted > kMostBytes) return false;
  if (compression == Compression::kZstd) return decompress_zstd(from, bytes, to, wanted);
  if (compression != Compression::kLz4) return false;
  return LZ4_decompress_safe(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to), static_cast<int>(bytes),
                             static_cast<int>(wanted)) == static_cast<int>(wanted);
}

}  // namespace culprit
