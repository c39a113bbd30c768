// The size of a CUDA array.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace culprit {

// Bytes of an array according to its description, without the hardware's padding, which the driver does not report.
std::uint64_t array_bytes(const CUDA_ARRAY_DESCRIPTOR_v1* description, unsigned levels);
std::uint64_t array_bytes(const CUDA_ARRAY_DESCRIPTOR_v2* description, unsigned levels);
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v1* description, unsigned levels);
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2* description, unsigned levels);

// The sizes of an array's elements and rows, as AllocationRecord::extra has them.
std::uint64_t array_extra(const CUDA_ARRAY_DESCRIPTOR_v1* description);
std::uint64_t array_extra(const CUDA_ARRAY_DESCRIPTOR_v2* description);
std::uint64_t array_extra(const CUDA_ARRAY3D_DESCRIPTOR_v1* description);
std::uint64_t array_extra(const CUDA_ARRAY3D_DESCRIPTOR_v2* description);

}  // namespace culprit
