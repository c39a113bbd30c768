// The linker of device code (cuLink*). It links nothing: the image is a name.
#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/modules.h"

namespace simcuda {
namespace {

struct LinkState : Object {
  static constexpr ObjectType kType = ObjectType::kLinkState;
  explicit LinkState(Context* link_context) : Object(kType, link_context) {}

  char image[64] = "simcuda linked image";
};

}  // namespace
}  // namespace simcuda

using simcuda::LinkState;

SIM(cuLinkCreate_v2)(unsigned, CUjit_option*, void**, CUlinkState* out) {
  SIM_CALL(kContext);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlinkState>(call.state().add(new LinkState(&call.context())));
  return CUDA_SUCCESS;
}

SIM(cuLinkAddData_v2)
(CUlinkState handle, CUjitInputType, void* data, std::size_t, const char*, unsigned, CUjit_option*, void**) {
  SIM_CALL(kInit);
  if (call.state().find<LinkState>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return data == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIM(cuLinkAddFile_v2)(CUlinkState handle, CUjitInputType, const char* path, unsigned, CUjit_option*, void**) {
  SIM_CALL(kInit);
  if (call.state().find<LinkState>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return simcuda::file_exists(path) ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND;
}

SIM(cuLinkComplete)(CUlinkState handle, void** image, std::size_t* bytes) {
  SIM_CALL(kInit);
  LinkState* link = call.state().find<LinkState>(handle);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *image = link->image;
  if (bytes != nullptr) *bytes = sizeof(link->image);
  return CUDA_SUCCESS;
}

SIM(cuLinkDestroy)(CUlinkState handle) {
  SIM_CALL(kInit);
  LinkState* link = call.state().find<LinkState>(handle);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(link);
  return CUDA_SUCCESS;
}
