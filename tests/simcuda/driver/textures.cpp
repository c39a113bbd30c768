// Texture and surface objects, texture references. Their descriptions are stored and returned; nothing samples them.
#include <cstring>

#include "tests/simcuda/driver/arrays.h"
#include "tests/simcuda/driver/call.h"

namespace simcuda {
namespace {

struct TextureObject : Object {
  static constexpr ObjectType kType = ObjectType::kTextureObject;
  explicit TextureObject(Context* texture_context) : Object(kType, texture_context) {}

  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
};

struct SurfaceObject : Object {
  static constexpr ObjectType kType = ObjectType::kSurfaceObject;
  explicit SurfaceObject(Context* surface_context) : Object(kType, surface_context) {}

  CUDA_RESOURCE_DESC resource{};
};

struct TextureReference : Object {
  static constexpr ObjectType kType = ObjectType::kTextureReference;
  explicit TextureReference(Context* reference_context) : Object(kType, reference_context) {}

  CUarray array = nullptr;
  CUdeviceptr address = 0;
  unsigned flags = 0;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  int channels = 1;
  CUaddress_mode modes[3] = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP};
  CUfilter_mode filter = CU_TR_FILTER_MODE_POINT;
};

CUresult check_resource(Call& call, const CUDA_RESOURCE_DESC* resource) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool valid = true;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      valid = call.state().find<Array>(resource->res.array.hArray) != nullptr;
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      valid = call.state().find<MipmappedArray>(resource->res.mipmap.hMipmappedArray) != nullptr;
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      valid = find_containing(call.state(), call.context().device, resource->res.linear.devPtr) != nullptr;
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      valid = find_containing(call.state(), call.context().device, resource->res.pitch2D.devPtr) != nullptr;
      break;
    default:
      valid = false;
  }
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename Use>
CUresult with_texture(CUtexObject handle, Use use) {
  SIM_CALL(kContext);
  TextureObject* texture = call.state().find<TextureObject>(reinterpret_cast<void*>(handle));
  if (texture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  use(*texture);
  return CUDA_SUCCESS;
}

template <typename Use>
CUresult with_reference(CUtexref handle, Use use) {
  SIM_CALL(kContext);
  TextureReference* reference = call.state().find<TextureReference>(handle);
  if (reference == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  use(*reference);
  return CUDA_SUCCESS;
}

CUresult create_reference(void** out) {
  SIM_CALL(kContext);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = call.state().add(new TextureReference(&call.context()));
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simcuda

using simcuda::SurfaceObject;
using simcuda::TextureObject;
using simcuda::TextureReference;

SIM(cuTexObjectCreate)
(CUtexObject* out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
 const CUDA_RESOURCE_VIEW_DESC* view) {
  SIM_CALL(kContext);
  if (out == nullptr || texture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult status = simcuda::check_resource(call, resource)) return status;
  TextureObject* object = call.state().add(new TextureObject(&call.context()));
  object->resource = *resource;
  object->texture = *texture;
  if (view != nullptr) object->view = *view;
  *out = reinterpret_cast<CUtexObject>(object);
  return CUDA_SUCCESS;
}

SIM(cuTexObjectDestroy)(CUtexObject handle) {
  SIM_CALL(kContext);
  TextureObject* object = call.state().find<TextureObject>(reinterpret_cast<void*>(handle));
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.state().destroy(object);
  return CUDA_SUCCESS;
}

SIM(cuTexObjectGetResourceDesc)(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return simcuda::with_texture(handle, [&](TextureObject& object) { *out = object.resource; });
}

SIM(cuTexObjectGetTextureDesc)(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  return simcuda::with_texture(handle, [&](TextureObject& object) { *out = object.texture; });
}

SIM(cuTexObjectGetResourceViewDesc)(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return simcuda::with_texture(handle, [&](TextureObject& object) { *out = object.view; });
}

SIM(cuSurfObjectCreate)(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  SIM_CALL(kContext);
  if (out == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult status = simcuda::check_resource(call, resource)) return status;
  SurfaceObject* object = call.state().add(new SurfaceObject(&call.context()));
  object->resource = *resource;
  *out = reinterpret_cast<CUsurfObject>(object);
  return CUDA_SUCCESS;
}

SIM(cuSurfObjectDestroy)(CUsurfObject handle) {
  SIM_CALL(kContext);
  SurfaceObject* object = call.state().find<SurfaceObject>(reinterpret_cast<void*>(handle));
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.state().destroy(object);
  return CUDA_SUCCESS;
}

SIM(cuSurfObjectGetResourceDesc)(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  SIM_CALL(kContext);
  SurfaceObject* object = call.state().find<SurfaceObject>(reinterpret_cast<void*>(handle));
  if (object == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = object->resource;
  return CUDA_SUCCESS;
}

SIM(cuTexRefCreate)(CUtexref* out) { return simcuda::create_reference(reinterpret_cast<void**>(out)); }

SIM(cuTexRefDestroy)(CUtexref handle) {
  SIM_CALL(kInit);
  TextureReference* reference = call.state().find<TextureReference>(handle);
  if (reference == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(reference);
  return CUDA_SUCCESS;
}

// References of a module live as long as the module's context; they are few.
SIM(cuModuleGetTexRef)(CUtexref* out, CUmodule, const char*) {
  return simcuda::create_reference(reinterpret_cast<void**>(out));
}
SIM(cuModuleGetSurfRef)(CUsurfref* out, CUmodule, const char*) {
  return simcuda::create_reference(reinterpret_cast<void**>(out));
}

SIM(cuTexRefSetArray)(CUtexref handle, CUarray array, unsigned) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { reference.array = array; });
}

SIM(cuTexRefGetArray)(CUarray* out, CUtexref handle) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { *out = reference.array; });
}

SIM(cuTexRefSetAddress_v2)(std::size_t* offset, CUtexref handle, CUdeviceptr address, std::size_t) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) {
    reference.address = address;
    if (offset != nullptr) *offset = 0;
  });
}

SIM(cuTexRefSetAddress2D_v3)(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR*, CUdeviceptr address, std::size_t) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { reference.address = address; });
}

SIM(cuTexRefGetAddress_v2)(CUdeviceptr* out, CUtexref handle) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { *out = reference.address; });
}

SIM(cuTexRefSetFlags)(CUtexref handle, unsigned flags) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { reference.flags = flags; });
}

SIM(cuTexRefGetFlags)(unsigned* out, CUtexref handle) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { *out = reference.flags; });
}

SIM(cuTexRefSetFormat)(CUtexref handle, CUarray_format format, int channels) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) {
    reference.format = format;
    reference.channels = channels;
  });
}

SIM(cuTexRefGetFormat)(CUarray_format* format, int* channels, CUtexref handle) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) {
    *format = reference.format;
    *channels = reference.channels;
  });
}

SIM(cuTexRefSetAddressMode)(CUtexref handle, int dimension, CUaddress_mode mode) {
  if (dimension < 0 || dimension > 2) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_reference(handle, [&](TextureReference& reference) { reference.modes[dimension] = mode; });
}

SIM(cuTexRefGetAddressMode)(CUaddress_mode* mode, CUtexref handle, int dimension) {
  if (dimension < 0 || dimension > 2) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_reference(handle, [&](TextureReference& reference) { *mode = reference.modes[dimension]; });
}

SIM(cuTexRefSetFilterMode)(CUtexref handle, CUfilter_mode mode) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { reference.filter = mode; });
}

SIM(cuTexRefGetFilterMode)(CUfilter_mode* mode, CUtexref handle) {
  return simcuda::with_reference(handle, [&](TextureReference& reference) { *mode = reference.filter; });
}

SIM(cuParamSetTexRef)(CUfunction, int, CUtexref handle) {
  return simcuda::with_reference(handle, [](TextureReference&) {});
}

SIM(cuSurfRefSetArray)(CUsurfref handle, CUarray array, unsigned) {
  return simcuda::with_reference(reinterpret_cast<CUtexref>(handle),
                                 [&](TextureReference& reference) { reference.array = array; });
}

SIM(cuSurfRefGetArray)(CUarray* out, CUsurfref handle) {
  return simcuda::with_reference(reinterpret_cast<CUtexref>(handle),
                                 [&](TextureReference& reference) { *out = reference.array; });
}
