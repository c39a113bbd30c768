// Arrays, texture and surface objects.
#include "tests/simcuda/runtime/runtime.h"

using simcudart::as;
using simcudart::done;
using simcudart::failed;
using simcudart::legacy;

namespace {

// False when the driver has no format for it.
bool array_descriptor(const cudaChannelFormatDesc* channel, cudaExtent extent, unsigned flags,
                      CUDA_ARRAY3D_DESCRIPTOR* out) {
  if (channel == nullptr) return false;
  unsigned channels = (channel->x != 0) + (channel->y != 0) + (channel->z != 0) + (channel->w != 0);
  int bits = channel->x;
  CUarray_format format;
  if (channel->f == cudaChannelFormatKindFloat) {
    format = bits == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
  } else if (channel->f == cudaChannelFormatKindSigned) {
    format = bits == 8 ? CU_AD_FORMAT_SIGNED_INT8 : bits == 16 ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_SIGNED_INT32;
  } else if (channel->f == cudaChannelFormatKindUnsigned) {
    format = bits == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
             : bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
                          : CU_AD_FORMAT_UNSIGNED_INT32;
  } else {
    return false;
  }
  *out = {extent.width, extent.height, extent.depth, format, channels, flags};
  return bits == 8 || bits == 16 || bits == 32;
}

cudaChannelFormatDesc channel_of(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  int bits = 32;
  cudaChannelFormatKind kind = cudaChannelFormatKindFloat;
  switch (descriptor.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      bits = 8, kind = cudaChannelFormatKindUnsigned;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      bits = 16, kind = cudaChannelFormatKindUnsigned;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
      kind = cudaChannelFormatKindUnsigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT8:
      bits = 8, kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT16:
      bits = 16, kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT32:
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_HALF:
      bits = 16;
      break;
    default:
      break;
  }
  unsigned n = descriptor.NumChannels;
  return {bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0, kind};
}

bool resource_descriptor(const cudaResourceDesc& in, CUDA_RESOURCE_DESC* out) {
  *out = {};
  CUDA_ARRAY3D_DESCRIPTOR element{};
  switch (in.resType) {
    case cudaResourceTypeArray:
      out->resType = CU_RESOURCE_TYPE_ARRAY;
      out->res.array.hArray = as<CUarray>(in.res.array.array);
      return true;
    case cudaResourceTypeMipmappedArray:
      out->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out->res.mipmap.hMipmappedArray = as<CUmipmappedArray>(in.res.mipmap.mipmap);
      return true;
    case cudaResourceTypeLinear:
      if (!array_descriptor(&in.res.linear.desc, {}, 0, &element)) return false;
      out->resType = CU_RESOURCE_TYPE_LINEAR;
      out->res.linear.devPtr = simcudart::address_of(in.res.linear.devPtr);
      out->res.linear.format = element.Format;
      out->res.linear.numChannels = element.NumChannels;
      out->res.linear.sizeInBytes = in.res.linear.sizeInBytes;
      return true;
    case cudaResourceTypePitch2D:
      if (!array_descriptor(&in.res.pitch2D.desc, {}, 0, &element)) return false;
      out->resType = CU_RESOURCE_TYPE_PITCH2D;
      out->res.pitch2D.devPtr = simcudart::address_of(in.res.pitch2D.devPtr);
      out->res.pitch2D.format = element.Format;
      out->res.pitch2D.numChannels = element.NumChannels;
      out->res.pitch2D.width = in.res.pitch2D.width;
      out->res.pitch2D.height = in.res.pitch2D.height;
      out->res.pitch2D.pitchInBytes = in.res.pitch2D.pitchInBytes;
      return true;
    default:
      return false;
  }
}

}  // namespace

RUNTIME_EXPORT cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                     cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

RUNTIME_API(cudaMallocArray)
(cudaArray_t* out, const cudaChannelFormatDesc* channel, std::size_t width, std::size_t height, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (!array_descriptor(channel, {width, height, 0}, flags, &descriptor)) return failed(cudaErrorInvalidValue);
  if (flags == cudaArrayDefault) {
    CUDA_ARRAY_DESCRIPTOR plain{width, height, descriptor.Format, descriptor.NumChannels};
    return done(legacy.cuArrayCreate(as<CUarray*>(out), &plain));
  }
  return done(legacy.cuArray3DCreate(as<CUarray*>(out), &descriptor));
}

RUNTIME_API(cudaMalloc3DArray)
(cudaArray_t* out, const cudaChannelFormatDesc* channel, cudaExtent extent, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (!array_descriptor(channel, extent, flags, &descriptor)) return failed(cudaErrorInvalidValue);
  return done(legacy.cuArray3DCreate(as<CUarray*>(out), &descriptor));
}

RUNTIME_API(cudaFreeArray)(cudaArray_t array) {
  RUNTIME_NEEDS_CONTEXT();
  if (array == nullptr) return cudaSuccess;
  return done(legacy.cuArrayDestroy(as<CUarray>(array)));
}

RUNTIME_API(cudaMallocMipmappedArray)
(cudaMipmappedArray_t* out, const cudaChannelFormatDesc* channel, cudaExtent extent, unsigned levels, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (!array_descriptor(channel, extent, flags, &descriptor)) return failed(cudaErrorInvalidValue);
  return done(legacy.cuMipmappedArrayCreate(as<CUmipmappedArray*>(out), &descriptor, levels));
}

RUNTIME_API(cudaGetMipmappedArrayLevel)(cudaArray_t* out, cudaMipmappedArray_const_t mipmapped, unsigned level) {
  RUNTIME_NEEDS_CONTEXT();
  CUmipmappedArray handle = as<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(mipmapped));
  return done(legacy.cuMipmappedArrayGetLevel(as<CUarray*>(out), handle, level));
}

RUNTIME_API(cudaFreeMipmappedArray)(cudaMipmappedArray_t mipmapped) {
  RUNTIME_NEEDS_CONTEXT();
  if (mipmapped == nullptr) return cudaSuccess;
  return done(legacy.cuMipmappedArrayDestroy(as<CUmipmappedArray>(mipmapped)));
}

RUNTIME_API(cudaGetChannelDesc)(cudaChannelFormatDesc* out, cudaArray_const_t array) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  CUresult status = legacy.cuArray3DGetDescriptor(&descriptor, as<CUarray>(const_cast<cudaArray_t>(array)));
  if (status == CUDA_SUCCESS && out != nullptr) *out = channel_of(descriptor);
  return done(status);
}

RUNTIME_API(cudaArrayGetInfo)(cudaChannelFormatDesc* channel, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (CUresult status = legacy.cuArray3DGetDescriptor(&descriptor, as<CUarray>(array))) return done(status);
  if (channel != nullptr) *channel = channel_of(descriptor);
  if (extent != nullptr) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
  if (flags != nullptr) *flags = descriptor.Flags;
  return cudaSuccess;
}

RUNTIME_API(cudaCreateTextureObject)
(cudaTextureObject_t* out, const cudaResourceDesc* resource, const cudaTextureDesc* texture,
 const cudaResourceViewDesc* view) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_RESOURCE_DESC descriptor;
  if (resource == nullptr || texture == nullptr || !resource_descriptor(*resource, &descriptor))
    return failed(cudaErrorInvalidValue);
  CUDA_TEXTURE_DESC sampling{};
  for (int i = 0; i < 3; ++i) sampling.addressMode[i] = static_cast<CUaddress_mode>(texture->addressMode[i]);
  sampling.filterMode = static_cast<CUfilter_mode>(texture->filterMode);
  sampling.flags = texture->normalizedCoords != 0 ? CU_TRSF_NORMALIZED_COORDINATES : 0;
  sampling.maxAnisotropy = texture->maxAnisotropy;
  return done(legacy.cuTexObjectCreate(out, &descriptor, &sampling, as<const CUDA_RESOURCE_VIEW_DESC*>(view)));
}

RUNTIME_API(cudaDestroyTextureObject)(cudaTextureObject_t texture) {
  RUNTIME_NEEDS_CONTEXT();
  if (texture == 0) return cudaSuccess;
  return done(legacy.cuTexObjectDestroy(texture));
}

RUNTIME_API(cudaCreateSurfaceObject)(cudaSurfaceObject_t* out, const cudaResourceDesc* resource) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_RESOURCE_DESC descriptor;
  if (resource == nullptr || !resource_descriptor(*resource, &descriptor)) return failed(cudaErrorInvalidValue);
  return done(legacy.cuSurfObjectCreate(out, &descriptor));
}

RUNTIME_API(cudaDestroySurfaceObject)(cudaSurfaceObject_t surface) {
  RUNTIME_NEEDS_CONTEXT();
  if (surface == 0) return cudaSuccess;
  return done(legacy.cuSurfObjectDestroy(surface));
}
