// Copies and sets.
#include "tests/simcuda/runtime/runtime.h"

using simcudart::address_of;
using simcudart::done;
using simcudart::DriverTable;
using simcudart::failed;
using simcudart::legacy;

namespace {

// NVIDIA's runtime picks the driver's function by the kind of copy, too.
CUresult copy_linear(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return legacy.cuMemcpyHtoD(address_of(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return legacy.cuMemcpyDtoH(to, address_of(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return legacy.cuMemcpyDtoD(address_of(to), address_of(from), bytes);
    default:
      return legacy.cuMemcpy(address_of(to), address_of(from), bytes);
  }
}

CUresult copy_linear_async(const DriverTable& driver, void* to, const void* from, std::size_t bytes,
                           cudaMemcpyKind kind, CUstream stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoDAsync(address_of(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoHAsync(to, address_of(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoDAsync(address_of(to), address_of(from), bytes, stream);
    default:
      return driver.cuMemcpyAsync(address_of(to), address_of(from), bytes, stream);
  }
}

CUDA_MEMCPY2D rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                   std::size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = address_of(from);
  copy.srcPitch = from_pitch;
  copy.dstDevice = address_of(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

CUDA_MEMCPY2D to_array(CUDA_MEMCPY2D copy, cudaArray_t array, std::size_t x, std::size_t y) {
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = simcudart::as<CUarray>(array);
  copy.dstXInBytes = x;
  copy.dstY = y;
  return copy;
}

CUDA_MEMCPY2D from_array(CUDA_MEMCPY2D copy, cudaArray_const_t array, std::size_t x, std::size_t y) {
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = simcudart::as<CUarray>(const_cast<cudaArray_t>(array));
  copy.srcXInBytes = x;
  copy.srcY = y;
  return copy;
}

std::size_t element_bytes(cudaArray_t array) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (legacy.cuArray3DGetDescriptor(&descriptor, simcudart::as<CUarray>(array)) != CUDA_SUCCESS) return 1;
  std::size_t channel = descriptor.Format == CU_AD_FORMAT_UNSIGNED_INT8 || descriptor.Format == CU_AD_FORMAT_SIGNED_INT8
                            ? 1
                        : descriptor.Format == CU_AD_FORMAT_UNSIGNED_INT16 ||
                                descriptor.Format == CU_AD_FORMAT_SIGNED_INT16 || descriptor.Format == CU_AD_FORMAT_HALF
                            ? 2
                            : 4;
  return channel * descriptor.NumChannels;
}

// Extents and positions count elements when an array is involved, bytes otherwise.
CUDA_MEMCPY3D volume(const cudaMemcpy3DParms& in) {
  CUDA_MEMCPY3D out{};
  std::size_t unit = in.srcArray != nullptr   ? element_bytes(in.srcArray)
                     : in.dstArray != nullptr ? element_bytes(in.dstArray)
                                              : 1;
  if (in.srcArray != nullptr) {
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = simcudart::as<CUarray>(in.srcArray);
    out.srcXInBytes = in.srcPos.x * unit;
  } else {
    out.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    out.srcDevice = address_of(in.srcPtr.ptr);
    out.srcPitch = in.srcPtr.pitch;
    out.srcHeight = in.srcPtr.ysize;
    out.srcXInBytes = in.srcPos.x;
  }
  out.srcY = in.srcPos.y;
  out.srcZ = in.srcPos.z;
  if (in.dstArray != nullptr) {
    out.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    out.dstArray = simcudart::as<CUarray>(in.dstArray);
    out.dstXInBytes = in.dstPos.x * unit;
  } else {
    out.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    out.dstDevice = address_of(in.dstPtr.ptr);
    out.dstPitch = in.dstPtr.pitch;
    out.dstHeight = in.dstPtr.ysize;
    out.dstXInBytes = in.dstPos.x;
  }
  out.dstY = in.dstPos.y;
  out.dstZ = in.dstPos.z;
  out.WidthInBytes = in.extent.width * unit;
  out.Height = in.extent.height;
  out.Depth = in.extent.depth;
  return out;
}

// The primary contexts of two devices, for copies between them.
CUresult peer_contexts(int to_device, int from_device, CUcontext* to, CUcontext* from) {
  int here = simcudart::selected_device();
  simcudart::select_device(to_device);
  CUresult status = legacy.cuCtxGetCurrent(to);
  simcudart::select_device(from_device);
  if (status == CUDA_SUCCESS) status = legacy.cuCtxGetCurrent(from);
  simcudart::select_device(here);
  return status;
}

}  // namespace

RUNTIME_STREAM_API(cudaMemcpy, cudaMemcpy_ptds, (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind),
                   (to, from, bytes, kind)) {
  RUNTIME_NEEDS_CONTEXT();
  if (bytes == 0) return cudaSuccess;
  return done(copy_linear(to, from, bytes, kind));
}

RUNTIME_STREAM_API(cudaMemcpyAsync, cudaMemcpyAsync_ptsz,
                   (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                   (to, from, bytes, kind, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  if (bytes == 0) return cudaSuccess;
  return done(copy_linear_async(driver, to, from, bytes, kind, stream));
}

RUNTIME_API(cudaMemcpyPeer)(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  RUNTIME_NEEDS_CONTEXT();
  CUcontext to_context = nullptr, from_context = nullptr;
  if (CUresult status = peer_contexts(to_device, from_device, &to_context, &from_context)) return done(status);
  return done(legacy.cuMemcpyPeer(address_of(to), to_context, address_of(from), from_context, bytes));
}

RUNTIME_API(cudaMemcpyPeerAsync)
(void* to, int to_device, const void* from, int from_device, std::size_t bytes, cudaStream_t stream) {
  RUNTIME_NEEDS_CONTEXT();
  CUcontext to_context = nullptr, from_context = nullptr;
  if (CUresult status = peer_contexts(to_device, from_device, &to_context, &from_context)) return done(status);
  return done(legacy.cuMemcpyPeerAsync(address_of(to), to_context, address_of(from), from_context, bytes, stream));
}

RUNTIME_STREAM_API(cudaMemcpy2D, cudaMemcpy2D_ptds,
                   (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                    std::size_t height, cudaMemcpyKind kind),
                   (to, to_pitch, from, from_pitch, width, height, kind)) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height);
  return done(driver.cuMemcpy2DUnaligned(&copy));
}

RUNTIME_STREAM_API(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz,
                   (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                    std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                   (to, to_pitch, from, from_pitch, width, height, kind, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height);
  return done(driver.cuMemcpy2DAsync(&copy, stream));
}

RUNTIME_STREAM_API(cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds,
                   (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind),
                   (to, x, y, from, pitch, width, height, kind)) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY2D copy = to_array(rows(nullptr, 0, from, pitch, width, height), to, x, y);
  return done(driver.cuMemcpy2DUnaligned(&copy));
}

RUNTIME_STREAM_API(cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds,
                   (void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind),
                   (to, pitch, from, x, y, width, height, kind)) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY2D copy = from_array(rows(to, pitch, nullptr, 0, width, height), from, x, y);
  return done(driver.cuMemcpy2DUnaligned(&copy));
}

RUNTIME_STREAM_API(cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz,
                   (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                   (to, x, y, from, pitch, width, height, kind, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY2D copy = to_array(rows(nullptr, 0, from, pitch, width, height), to, x, y);
  return done(driver.cuMemcpy2DAsync(&copy, stream));
}

RUNTIME_STREAM_API(cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz,
                   (void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                   (to, pitch, from, x, y, width, height, kind, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY2D copy = from_array(rows(to, pitch, nullptr, 0, width, height), from, x, y);
  return done(driver.cuMemcpy2DAsync(&copy, stream));
}

RUNTIME_STREAM_API(cudaMemcpy3D, cudaMemcpy3D_ptds, (const cudaMemcpy3DParms* parameters), (parameters)) {
  RUNTIME_NEEDS_CONTEXT();
  if (parameters == nullptr) return failed(cudaErrorInvalidValue);
  CUDA_MEMCPY3D copy = volume(*parameters);
  return done(driver.cuMemcpy3D(&copy));
}

RUNTIME_STREAM_API(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz,
                   (const cudaMemcpy3DParms* parameters, cudaStream_t stream), (parameters, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  if (parameters == nullptr) return failed(cudaErrorInvalidValue);
  CUDA_MEMCPY3D copy = volume(*parameters);
  return done(driver.cuMemcpy3DAsync(&copy, stream));
}

RUNTIME_STREAM_API(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds,
                   (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind),
                   (symbol, from, bytes, offset, kind)) {
  RUNTIME_NEEDS_CONTEXT();
  CUdeviceptr address = 0;
  if (!simcudart::find_symbol(symbol, &address, nullptr)) return failed(cudaErrorInvalidSymbol);
  return done(driver.cuMemcpyHtoD(address + offset, from, bytes));
}

RUNTIME_STREAM_API(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds,
                   (void* to, const void* symbol, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind),
                   (to, symbol, bytes, offset, kind)) {
  RUNTIME_NEEDS_CONTEXT();
  CUdeviceptr address = 0;
  if (!simcudart::find_symbol(symbol, &address, nullptr)) return failed(cudaErrorInvalidSymbol);
  return done(driver.cuMemcpyDtoH(to, address + offset, bytes));
}

RUNTIME_STREAM_API(cudaMemset, cudaMemset_ptds, (void* pointer, int value, std::size_t bytes),
                   (pointer, value, bytes)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuMemsetD8(address_of(pointer), static_cast<unsigned char>(value), bytes));
}

RUNTIME_STREAM_API(cudaMemsetAsync, cudaMemsetAsync_ptsz,
                   (void* pointer, int value, std::size_t bytes, cudaStream_t stream),
                   (pointer, value, bytes, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuMemsetD8Async(address_of(pointer), static_cast<unsigned char>(value), bytes, stream));
}

RUNTIME_STREAM_API(cudaMemset2D, cudaMemset2D_ptds,
                   (void* pointer, std::size_t pitch, int value, std::size_t width, std::size_t height),
                   (pointer, pitch, value, width, height)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuMemsetD2D8(address_of(pointer), pitch, static_cast<unsigned char>(value), width, height));
}

RUNTIME_STREAM_API(cudaMemset2DAsync, cudaMemset2DAsync_ptsz,
                   (void* pointer, std::size_t pitch, int value, std::size_t width, std::size_t height,
                    cudaStream_t stream),
                   (pointer, pitch, value, width, height, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(
      driver.cuMemsetD2D8Async(address_of(pointer), pitch, static_cast<unsigned char>(value), width, height, stream));
}

RUNTIME_STREAM_API(cudaMemset3D, cudaMemset3D_ptds, (cudaPitchedPtr pointer, int value, cudaExtent extent),
                   (pointer, value, extent)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuMemsetD2D8(address_of(pointer.ptr), pointer.pitch, static_cast<unsigned char>(value),
                                  extent.width, extent.height * extent.depth));
}
