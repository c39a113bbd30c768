// Copies and sets. They are done at once, in the calling thread, for any stream: a simulated stream is always idle. In
// a stream that is being captured they become nodes.
#include "tests/simcuda/driver/copies.h"

#include <algorithm>
#include <cstring>

#include "tests/simcuda/driver/arrays.h"
#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"
#include "tests/simcuda/driver/streams.h"

namespace simcuda {
namespace {

// The place of the rows of one side of a 3D copy.
struct Side {
  char* base = nullptr;
  std::size_t pitch = 0;
  std::size_t slice = 0;
};

CUresult side_of(DriverState& state, int device, CUmemorytype type, const void* host, CUdeviceptr address,
                 CUarray array_handle, std::size_t x, std::size_t y, std::size_t z, std::size_t pitch,
                 std::size_t height, const CUDA_MEMCPY3D& copy, Side* side) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    Array* array = state.find<Array>(array_handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    side->pitch = array->row_bytes;
    side->slice = array->row_bytes * array->rows;
    if (x + copy.WidthInBytes > array->row_bytes || y + copy.Height > array->rows || z + copy.Depth > array->slices) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    side->base = array->data + z * side->slice + y * side->pitch + x;
    return CUDA_SUCCESS;
  }
  side->pitch = pitch == 0 ? copy.WidthInBytes + x : pitch;
  side->slice = side->pitch * (height == 0 ? copy.Height + y : height);
  std::size_t offset = z * side->slice + y * side->pitch + x;
  std::size_t extent = (copy.Depth - 1) * side->slice + (copy.Height - 1) * side->pitch + copy.WidthInBytes;
  std::uint64_t start = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : address;
  side->base = host_memory(state, device, start + offset, extent);
  return side->base == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D& in) {
  CUDA_MEMCPY3D out{};
  out.srcXInBytes = in.srcXInBytes;
  out.srcY = in.srcY;
  out.srcMemoryType = in.srcMemoryType;
  out.srcHost = in.srcHost;
  out.srcDevice = in.srcDevice;
  out.srcArray = in.srcArray;
  out.srcPitch = in.srcPitch;
  out.dstXInBytes = in.dstXInBytes;
  out.dstY = in.dstY;
  out.dstMemoryType = in.dstMemoryType;
  out.dstHost = in.dstHost;
  out.dstDevice = in.dstDevice;
  out.dstArray = in.dstArray;
  out.dstPitch = in.dstPitch;
  out.WidthInBytes = in.WidthInBytes;
  out.Height = in.Height;
  out.Depth = 1;
  return out;
}

CUDA_MEMCPY3D linear(std::uint64_t destination, std::uint64_t source, std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = source;
  copy.dstDevice = destination;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D with_array(CUarray destination, std::size_t destination_offset, CUarray source, std::size_t source_offset,
                         std::uint64_t address, std::size_t bytes) {
  CUDA_MEMCPY3D copy = linear(address, address, bytes);
  if (destination != nullptr) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = destination;
    copy.dstXInBytes = destination_offset;
  }
  if (source != nullptr) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = source;
    copy.srcXInBytes = source_offset;
  }
  return copy;
}

CUresult copy_now(const CUDA_MEMCPY3D& copy) {
  SIM_CALL(kContext);
  return copy_3d(call.state(), call.context().device, copy);
}

CUresult copy_in_stream(const CUDA_MEMCPY3D& copy, CUstream handle) {
  SIM_CALL(kContext);
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    capture_node(call.state(), *stream, CU_GRAPH_NODE_TYPE_MEMCPY)->work.copy = copy;
    return CUDA_SUCCESS;
  }
  return copy_3d(call.state(), stream->context->device, copy);
}

CUresult set_now(CUdeviceptr address, std::size_t pitch, unsigned value, unsigned element, std::size_t width,
                 std::size_t height) {
  SIM_CALL(kContext);
  return set_2d(call.state(), call.context().device, address, pitch, value, element, width, height);
}

CUresult set_in_stream(CUdeviceptr address, std::size_t pitch, unsigned value, unsigned element, std::size_t width,
                       std::size_t height, CUstream handle) {
  SIM_CALL(kContext);
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    capture_node(call.state(), *stream, CU_GRAPH_NODE_TYPE_MEMSET)->work.set = {address, pitch, value,
                                                                                element, width, height};
    return CUDA_SUCCESS;
  }
  return set_2d(call.state(), stream->context->device, address, pitch, value, element, width, height);
}

// Copies between devices whose addresses may be equal: each side is looked up on its own context's device.
CUresult copy_peer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source, CUcontext source_context,
                   std::size_t bytes) {
  SIM_CALL(kContext);
  Context* to = call.state().find<Context>(destination_context);
  Context* from = call.state().find<Context>(source_context);
  if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  char* target = host_memory(call.state(), to->device, destination, bytes);
  char* origin = host_memory(call.state(), from->device, source, bytes);
  if (target == nullptr || origin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  memmove(target, origin, bytes);
  return CUDA_SUCCESS;
}

std::uint64_t bits(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

CUresult copy_3d(DriverState& state, int device, const CUDA_MEMCPY3D& copy) {
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  Side from, to;
  if (CUresult status = side_of(state, device, copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray,
                                copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcPitch, copy.srcHeight, copy, &from)) {
    return status;
  }
  if (CUresult status = side_of(state, device, copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray,
                                copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight, copy, &to)) {
    return status;
  }
  for (std::size_t z = 0; z < copy.Depth; ++z) {
    for (std::size_t y = 0; y < copy.Height; ++y) {
      memmove(to.base + z * to.slice + y * to.pitch, from.base + z * from.slice + y * from.pitch, copy.WidthInBytes);
    }
  }
  return CUDA_SUCCESS;
}

CUresult set_2d(DriverState& state, int device, CUdeviceptr address, std::size_t pitch, unsigned value,
                unsigned element, std::size_t width, std::size_t height) {
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (height == 1) pitch = width * element;
  char* base = host_memory(state, device, address, (height - 1) * pitch + width * element);
  if (base == nullptr || address % element != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t y = 0; y < height; ++y) {
    char* row = base + y * pitch;
    if (element == 1) {
      memset(row, static_cast<int>(value), width);
    } else if (element == 2) {
      auto* elements = reinterpret_cast<std::uint16_t*>(row);
      std::fill(elements, elements + width, static_cast<std::uint16_t>(value));
    } else {
      auto* elements = reinterpret_cast<std::uint32_t*>(row);
      std::fill(elements, elements + width, value);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using simcuda::bits;
using simcuda::copy_in_stream;
using simcuda::copy_now;
using simcuda::linear;
using simcuda::set_in_stream;
using simcuda::set_now;
using simcuda::with_array;

SIM(cuMemcpy)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) { return copy_now(linear(to, from, bytes)); }
SIM(cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_now(linear(to, bits(from), bytes));
}
SIM(cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, std::size_t bytes) { return copy_now(linear(bits(to), from, bytes)); }
SIM(cuMemcpyDtoD_v2)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) { return copy_now(linear(to, from, bytes)); }
SIM(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_in_stream(linear(to, from, bytes), stream);
}
SIM(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy_in_stream(linear(to, bits(from), bytes), stream);
}
SIM(cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_in_stream(linear(bits(to), from, bytes), stream);
}
SIM(cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_in_stream(linear(to, from, bytes), stream);
}
SIM(cuMemcpyDtoA_v2)(CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes) {
  return copy_now(with_array(to, offset, nullptr, 0, from, bytes));
}
SIM(cuMemcpyAtoD_v2)(CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes) {
  return copy_now(with_array(nullptr, 0, from, offset, to, bytes));
}
SIM(cuMemcpyHtoA_v2)(CUarray to, std::size_t offset, const void* from, std::size_t bytes) {
  return copy_now(with_array(to, offset, nullptr, 0, bits(from), bytes));
}
SIM(cuMemcpyAtoH_v2)(void* to, CUarray from, std::size_t offset, std::size_t bytes) {
  return copy_now(with_array(nullptr, 0, from, offset, bits(to), bytes));
}
SIM(cuMemcpyAtoA_v2)(CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset, std::size_t bytes) {
  return copy_now(with_array(to, to_offset, from, from_offset, 0, bytes));
}
SIM(cuMemcpyHtoAAsync_v2)(CUarray to, std::size_t offset, const void* from, std::size_t bytes, CUstream stream) {
  return copy_in_stream(with_array(to, offset, nullptr, 0, bits(from), bytes), stream);
}
SIM(cuMemcpyAtoHAsync_v2)(void* to, CUarray from, std::size_t offset, std::size_t bytes, CUstream stream) {
  return copy_in_stream(with_array(nullptr, 0, from, offset, bits(to), bytes), stream);
}

SIM(cuMemsetD8_v2)(CUdeviceptr to, unsigned char value, std::size_t n) { return set_now(to, 0, value, 1, n, 1); }
SIM(cuMemsetD16_v2)(CUdeviceptr to, unsigned short value, std::size_t n) { return set_now(to, 0, value, 2, n, 1); }
SIM(cuMemsetD32_v2)(CUdeviceptr to, unsigned value, std::size_t n) { return set_now(to, 0, value, 4, n, 1); }
SIM(cuMemsetD2D8_v2)(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height) {
  return set_now(to, pitch, value, 1, width, height);
}
SIM(cuMemsetD2D16_v2)(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height) {
  return set_now(to, pitch, value, 2, width, height);
}
SIM(cuMemsetD2D32_v2)(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height) {
  return set_now(to, pitch, value, 4, width, height);
}
SIM(cuMemsetD8Async)(CUdeviceptr to, unsigned char value, std::size_t n, CUstream stream) {
  return set_in_stream(to, 0, value, 1, n, 1, stream);
}
SIM(cuMemsetD16Async)(CUdeviceptr to, unsigned short value, std::size_t n, CUstream stream) {
  return set_in_stream(to, 0, value, 2, n, 1, stream);
}
SIM(cuMemsetD32Async)(CUdeviceptr to, unsigned value, std::size_t n, CUstream stream) {
  return set_in_stream(to, 0, value, 4, n, 1, stream);
}
SIM(cuMemsetD2D8Async)
(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height, CUstream stream) {
  return set_in_stream(to, pitch, value, 1, width, height, stream);
}
SIM(cuMemsetD2D16Async)
(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height, CUstream stream) {
  return set_in_stream(to, pitch, value, 2, width, height, stream);
}
SIM(cuMemsetD2D32Async)
(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height, CUstream stream) {
  return set_in_stream(to, pitch, value, 4, width, height, stream);
}

SIM(cuMemcpy2D_v2)(const CUDA_MEMCPY2D* copy) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_now(simcuda::from_2d(*copy));
}

SIM(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_in_stream(simcuda::from_2d(*copy), stream);
}

SIM(cuMemcpy3D_v2)(const CUDA_MEMCPY3D* copy) { return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_now(*copy); }

SIM(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_in_stream(*copy, stream);
}

SIM(cuMemcpyPeer)(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes) {
  return simcuda::copy_peer(to, to_context, from, from_context, bytes);
}

SIM(cuMemcpyPeerAsync)
(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes, CUstream) {
  return simcuda::copy_peer(to, to_context, from, from_context, bytes);
}
