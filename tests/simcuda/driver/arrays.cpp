// CUDA arrays and mipmapped arrays. Their contents are ordinary lazily populated host memory, row after row.
#include "tests/simcuda/driver/arrays.h"

#include <algorithm>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"

namespace simcuda {

std::size_t element_bytes(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return std::size_t{2} * channels;
    default:
      return std::size_t{4} * channels;
  }
}

void Array::release(DriverState& state) {
  state.devices[device]->used -= charged;
  if (data != nullptr) unmap_shared(data, round_up(bytes(), kPageBytes));
}

void MipmappedArray::release(DriverState& state) {
  for (Array* level : levels) state.destroy(level);
}

CUresult make_array(DriverState& state, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, bool charged,
                    Array** out) {
  if (descriptor.Width == 0 ||
      (descriptor.NumChannels != 1 && descriptor.NumChannels != 2 && descriptor.NumChannels != 4)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::size_t row_bytes = descriptor.Width * element_bytes(descriptor.Format, descriptor.NumChannels);
  std::size_t rows = std::max<std::size_t>(descriptor.Height, 1);
  std::size_t slices = std::max<std::size_t>(descriptor.Depth, 1);
  std::size_t bytes = row_bytes * rows * slices;
  std::size_t charge = charged ? round_up(bytes, 512) : 0;
  Device& device = *state.devices[context.device];
  if (charge > device.available() && !make_room(state, device, charge)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* data = map_shared(round_up(bytes, kPageBytes));
  if (data == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Array* array = state.add(new Array(&context));
  array->device = context.device;
  array->descriptor = descriptor;
  array->row_bytes = row_bytes;
  array->rows = rows;
  array->slices = slices;
  array->charged = charge;
  array->data = static_cast<char*>(data);
  device.used += charge;
  *out = array;
  return CUDA_SUCCESS;
}

CUresult make_mipmapped_array(DriverState& state, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor,
                              unsigned levels, bool charged, MipmappedArray** out) {
  if (levels == 0) return CUDA_ERROR_INVALID_VALUE;
  MipmappedArray* mipmapped = state.add(new MipmappedArray(&context));
  CUDA_ARRAY3D_DESCRIPTOR level = descriptor;
  for (unsigned i = 0; i < levels; ++i) {
    Array* array = nullptr;
    CUresult status = make_array(state, context, level, charged, &array);
    if (status != CUDA_SUCCESS) {
      state.destroy(mipmapped);
      return status;
    }
    array->mipmapped = mipmapped;
    mipmapped->levels.push_back(array);
    if (level.Width == 1 && level.Height <= 1 && level.Depth <= 1) break;
    level.Width = std::max<std::size_t>(level.Width / 2, 1);
    if (level.Height > 1) level.Height /= 2;
    if (level.Depth > 1 && (level.Flags & CUDA_ARRAY3D_LAYERED) == 0) level.Depth /= 2;
  }
  *out = mipmapped;
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using simcuda::Array;
using simcuda::MipmappedArray;

SIM(cuArray3DCreate_v2)(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  SIM_CALL(kContext);
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult status = simcuda::check_capture_safe(call.state(), simcuda::thread_state().capture_mode)) return status;
  Array* array = nullptr;
  CUresult status = simcuda::make_array(call.state(), call.context(), *descriptor, true, &array);
  if (status == CUDA_SUCCESS) *out = reinterpret_cast<CUarray>(array);
  return status;
}

SIM(cuArrayCreate_v2)(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full{descriptor->Width,  descriptor->Height,      0,
                               descriptor->Format, descriptor->NumChannels, 0};
  return sim_cuArray3DCreate_v2(out, &full);
}

SIM(cuArrayCreate)(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full{descriptor->Width,  descriptor->Height,      0,
                               descriptor->Format, descriptor->NumChannels, 0};
  return sim_cuArray3DCreate_v2(out, &full);
}

SIM(cuArray3DCreate)(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full{descriptor->Width,  descriptor->Height,      descriptor->Depth,
                               descriptor->Format, descriptor->NumChannels, descriptor->Flags};
  return sim_cuArray3DCreate_v2(out, &full);
}

SIM(cuArrayDestroy)(CUarray handle) {
  SIM_CALL(kInit);
  Array* array = call.state().find<Array>(handle);
  if (array == nullptr || array->mipmapped != nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(array);
  return CUDA_SUCCESS;
}

SIM(cuArray3DGetDescriptor_v2)(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  SIM_CALL(kInit);
  Array* array = call.state().find<Array>(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = array->descriptor;
  return CUDA_SUCCESS;
}

SIM(cuArrayGetDescriptor_v2)(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  SIM_CALL(kInit);
  Array* array = call.state().find<Array>(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {array->descriptor.Width, array->descriptor.Height, array->descriptor.Format, array->descriptor.NumChannels};
  return CUDA_SUCCESS;
}

SIM(cuArrayGetMemoryRequirements)(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle, CUdevice) {
  SIM_CALL(kInit);
  Array* array = call.state().find<Array>(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->size = array->bytes();
  out->alignment = 512;
  return CUDA_SUCCESS;
}

SIM(cuMipmappedArrayCreate)(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned levels) {
  SIM_CALL(kContext);
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MipmappedArray* mipmapped = nullptr;
  CUresult status = simcuda::make_mipmapped_array(call.state(), call.context(), *descriptor, levels, true, &mipmapped);
  if (status == CUDA_SUCCESS) *out = reinterpret_cast<CUmipmappedArray>(mipmapped);
  return status;
}

SIM(cuMipmappedArrayGetLevel)(CUarray* out, CUmipmappedArray handle, unsigned level) {
  SIM_CALL(kInit);
  MipmappedArray* mipmapped = call.state().find<MipmappedArray>(handle);
  if (mipmapped == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || level >= mipmapped->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUarray>(mipmapped->levels[level]);
  return CUDA_SUCCESS;
}

SIM(cuMipmappedArrayDestroy)(CUmipmappedArray handle) {
  SIM_CALL(kInit);
  MipmappedArray* mipmapped = call.state().find<MipmappedArray>(handle);
  if (mipmapped == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(mipmapped);
  return CUDA_SUCCESS;
}

SIM(cuMipmappedArrayGetMemoryRequirements)(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray handle, CUdevice) {
  SIM_CALL(kInit);
  MipmappedArray* mipmapped = call.state().find<MipmappedArray>(handle);
  if (mipmapped == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  for (Array* level : mipmapped->levels) out->size += level->bytes();
  out->alignment = 512;
  return CUDA_SUCCESS;
}
