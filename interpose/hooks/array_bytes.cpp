#include "interpose/hooks/array_bytes.h"

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

std::uint64_t bytes_of(std::uint64_t width, std::uint64_t height, std::uint64_t depth, CUarray_format format,
                       unsigned channels, unsigned flags, unsigned levels) {
  // Sparse and deferred arrays have no memory of their own: memory is mapped into them, and counted where it was
  // created.
  if ((flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  bool depth_is_layers = (flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  bool compressed = is_block_compressed(format);
  std::uint64_t total = 0;
  for (unsigned level = 0; level < levels; ++level) {
    std::uint64_t w = at_least_one(width >> level);
    std::uint64_t h = at_least_one(height >> level);
    std::uint64_t d = depth_is_layers ? at_least_one(depth) : at_least_one(depth >> level);
    if (compressed) {
      w = (w + 3) / 4 * 4;
      h = (h + 3) / 4 * 4;
    }
    total += w * h * d * (compressed ? 1 : channels) * bits_of(format) / 8;
  }
  return total;
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

}  // namespace culprit
