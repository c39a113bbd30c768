#include "interpose/hooks/array_bytes.h"

#include <algorithm>

#include "interpose/format/array_layout.h"
#include "interpose/hooks/saturating.h"

namespace culprit {
namespace {

// Bits per channel. Block-compressed formats store blocks of 4 x 4 texels in 8 or 16 bytes: 4 or 8 bits per texel.
unsigned bits_of(CUarray_format format) {
  switch (static_cast<unsigned>(format)) {
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
      return 4;
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
      return 8;
    case CU_AD_FORMAT_NV12:  // luma plane, and half as much chroma
      return 12;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 16;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 32;
    default:
      return 8;
  }
}

bool is_block_compressed(CUarray_format format) {
  return format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB;
}

std::uint64_t at_least_one(std::uint64_t value) { return value == 0 ? 1 : value; }

// CUDA makes as many levels as halve the largest extent to one texel, however many are asked for. The depth of layers
// is not halved.
unsigned possible_levels(std::uint64_t width, std::uint64_t height, std::uint64_t depth, bool depth_is_layers) {
  const std::uint64_t largest = std::max({width, height, depth_is_layers ? 0 : depth, std::uint64_t{1}});
  return 64 - static_cast<unsigned>(__builtin_clzll(largest));
}

std::uint64_t bytes_of(std::uint64_t width, std::uint64_t height, std::uint64_t depth, CUarray_format format,
                       unsigned channels, unsigned flags, unsigned levels) {
  // Sparse and deferred arrays have no memory of their own: memory is mapped into them, and counted where it was
  // created.
  if ((flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  bool depth_is_layers = (flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  bool compressed = is_block_compressed(format);
  levels = std::min(levels, possible_levels(width, height, depth, depth_is_layers));
  std::uint64_t total = 0;
  for (unsigned level = 0; level < levels; ++level) {
    std::uint64_t w = at_least_one(width >> level);
    std::uint64_t h = at_least_one(height >> level);
    std::uint64_t d = depth_is_layers ? at_least_one(depth) : at_least_one(depth >> level);
    if (compressed) {
      w = saturating_product((w - 1) / 4 + 1, 4);
      h = saturating_product((h - 1) / 4 + 1, 4);
    }
    const std::uint64_t texels = saturating_product(saturating_product(w, h), d);
    const std::uint64_t bits = saturating_product(texels, std::uint64_t{compressed ? 1 : channels} * bits_of(format));
    total = saturating_sum(total, bits / 8);
  }
  return total;
}

// 0 for formats whose elements are blocks.
template <typename Description>
std::uint64_t extra_of(const Description* d) {
  constexpr std::uint64_t kMost = 0xfffffff;
  if (d == nullptr || is_block_compressed(d->Format) || d->Width > kMost || d->Height > kMost) return 0;
  return format::packed({std::uint64_t{d->NumChannels} * bits_of(d->Format) / 8, d->Width, d->Height});
}

}  // namespace

std::uint64_t array_bytes(const CUDA_ARRAY_DESCRIPTOR_v1* d, unsigned levels) {
  return d == nullptr ? 0 : bytes_of(d->Width, d->Height, 0, d->Format, d->NumChannels, 0, levels);
}
std::uint64_t array_bytes(const CUDA_ARRAY_DESCRIPTOR_v2* d, unsigned levels) {
  return d == nullptr ? 0 : bytes_of(d->Width, d->Height, 0, d->Format, d->NumChannels, 0, levels);
}
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v1* d, unsigned levels) {
  return d == nullptr ? 0 : bytes_of(d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags, levels);
}
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2* d, unsigned levels) {
  return d == nullptr ? 0 : bytes_of(d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags, levels);
}

std::uint64_t array_extra(const CUDA_ARRAY_DESCRIPTOR_v1* d) { return extra_of(d); }
std::uint64_t array_extra(const CUDA_ARRAY_DESCRIPTOR_v2* d) { return extra_of(d); }
std::uint64_t array_extra(const CUDA_ARRAY3D_DESCRIPTOR_v1* d) { return extra_of(d); }
std::uint64_t array_extra(const CUDA_ARRAY3D_DESCRIPTOR_v2* d) { return extra_of(d); }

}  // namespace culprit
