// Contexts, streams, events, modules, libraries and the small objects.
#include <stdlib.h>
#include <unistd.h>

#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {

// The smallest image that NVIDIA's driver loads.
static const char kImage[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

SUBJECT_FUNCTION std::size_t make_context(const Driver& cuda, bool leak) {
  CUcontext context = nullptr;
  TRY(cuda.FUNCTION(cuCtxCreate_v4)(&context, nullptr, 0, 0));
  if (!leak) TRY(cuda.FUNCTION(cuCtxDestroy_v2)(context));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_context_v3(const Driver& cuda, bool leak) {
  CUcontext context = nullptr;
  TRY(cuda.FUNCTION(cuCtxCreate_v3)(&context, nullptr, 0, 0, 0));
  if (!leak) TRY(cuda.FUNCTION(cuCtxDestroy_v2)(context));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_context_v2(const Driver& cuda, bool leak) {
  CUcontext context = nullptr;
  TRY(cuda.FUNCTION(cuCtxCreate_v2)(&context, 0, 0));
  if (!leak) TRY(cuda.FUNCTION(cuCtxDestroy_v2)(context));
  return 0;
}

// NVIDIA's current driver crashes in this function when other contexts exist, and refuses it otherwise.
SUBJECT_FUNCTION std::size_t make_context_v1(const Driver& cuda, bool leak) {
  if (on_gpu()) throw Unsupported{"cuCtxCreate", 0};
  CUcontext context = nullptr;
  TRY(cuda.FUNCTION(cuCtxCreate)(&context, 0, 0));
  if (!leak) TRY(cuda.FUNCTION(cuCtxDestroy)(context));
  return 0;
}

// Detached once after a second reference was taken: the context lives on.
SUBJECT_FUNCTION std::size_t make_context_attached(const Driver& cuda, bool leak) {
  if (on_gpu()) throw Unsupported{"cuCtxAttach", 0};  // deprecated since CUDA 4
  CUcontext context = nullptr;
  TRY(cuda.FUNCTION(cuCtxCreate_v2)(&context, 0, 0));
  CUcontext attached = nullptr;
  TRY(cuda.FUNCTION(cuCtxAttach)(&attached, 0));
  TRY(cuda.FUNCTION(cuCtxDetach)(attached));
  if (!leak) TRY(cuda.FUNCTION(cuCtxDetach)(context));
  return 0;
}

static CUgreenCtx create_green(const Driver& cuda) {
  CUdevResource all = {};
  TRY(cuda.FUNCTION(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CUdevResource part = {};
  unsigned parts = 1;
  TRY(cuda.FUNCTION(cuDevSmResourceSplitByCount)(&part, &parts, &all, nullptr, 0, 8));
  CUdevResourceDesc description = nullptr;
  TRY(cuda.FUNCTION(cuDevResourceGenerateDesc)(&description, &part, 1));
  CUgreenCtx context = nullptr;
  TRY(cuda.FUNCTION(cuGreenCtxCreate)(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  return context;
}

SUBJECT_FUNCTION std::size_t make_green(const Driver& cuda, bool leak) {
  CUgreenCtx context = create_green(cuda);
  if (!leak) TRY(cuda.FUNCTION(cuGreenCtxDestroy)(context));
  return 0;
}

// The stream goes first: destroying a green context takes its streams with it.
SUBJECT_FUNCTION std::size_t make_green_stream(const Driver& cuda, bool leak) {
  CUgreenCtx context = create_green(cuda);
  CUstream stream = nullptr;
  TRY(cuda.FUNCTION(cuGreenCtxStreamCreate)(&stream, context, CU_STREAM_NON_BLOCKING, 0));
  if (!leak) {
    TRY(cuda.FUNCTION(cuStreamDestroy_v2)(stream));
    TRY(cuda.FUNCTION(cuGreenCtxDestroy)(context));
  }
  return 0;
}

SUBJECT_FUNCTION std::size_t make_stream(const Driver& cuda, bool leak) {
  CUstream stream = nullptr;
  TRY(cuda.FUNCTION(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  if (!leak) TRY(cuda.FUNCTION(cuStreamDestroy_v2)(stream));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_stream_with_priority(const Driver& cuda, bool leak) {
  CUstream stream = nullptr;
  TRY(cuda.FUNCTION(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0));
  if (!leak) TRY(cuda.FUNCTION(cuStreamDestroy)(stream));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_event(const Driver& cuda, bool leak) {
  CUevent event = nullptr;
  TRY(cuda.FUNCTION(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  if (!leak) TRY(cuda.FUNCTION(cuEventDestroy_v2)(event));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_event_old(const Driver& cuda, bool leak) {
  CUevent event = nullptr;
  TRY(cuda.FUNCTION(cuEventCreate)(&event, 0));
  if (!leak) TRY(cuda.FUNCTION(cuEventDestroy)(event));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_event_from_ipc(const Driver& cuda, bool leak) {
  CUevent event = nullptr;
  TRY(cuda.FUNCTION(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  CUipcEventHandle handle;
  TRY(cuda.FUNCTION(cuIpcGetEventHandle)(&handle, event));
  CUevent opened = nullptr;
  const CUresult code = cuda.FUNCTION(cuIpcOpenEventHandle)(&opened, handle);
  TRY(cuda.FUNCTION(cuEventDestroy_v2)(event));
  TRY(code);
  if (!leak) TRY(cuda.FUNCTION(cuEventDestroy_v2)(opened));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_module(const Driver& cuda, bool leak) {
  CUmodule module = nullptr;
  TRY(cuda.FUNCTION(cuModuleLoadData)(&module, kImage));
  if (!leak) TRY(cuda.FUNCTION(cuModuleUnload)(module));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_module_with_options(const Driver& cuda, bool leak) {
  CUmodule module = nullptr;
  TRY(cuda.FUNCTION(cuModuleLoadDataEx)(&module, kImage, 0, nullptr, nullptr));
  if (!leak) TRY(cuda.FUNCTION(cuModuleUnload)(module));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_module_fat_binary(const Driver& cuda, bool leak) {
  CUmodule module = nullptr;
  TRY(cuda.FUNCTION(cuModuleLoadFatBinary)(&module, kImage));
  if (!leak) TRY(cuda.FUNCTION(cuModuleUnload)(module));
  return 0;
}

// The image in a file, which is removed with this object.
class ImageFile {
 public:
  ImageFile() {
    const int file = mkstemp(path_);
    CHECKED(file < 0 || write(file, kImage, sizeof(kImage)) != static_cast<ssize_t>(sizeof(kImage)));
    close(file);
  }
  ~ImageFile() { unlink(path_); }
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/routes-image-XXXXXX";
};

SUBJECT_FUNCTION std::size_t make_module_from_file(const Driver& cuda, bool leak) {
  const ImageFile image;
  CUmodule module = nullptr;
  TRY(cuda.FUNCTION(cuModuleLoad)(&module, image.path()));
  if (!leak) TRY(cuda.FUNCTION(cuModuleUnload)(module));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_library_from_file(const Driver& cuda, bool leak) {
  const ImageFile image;
  CUlibrary library = nullptr;
  TRY(cuda.FUNCTION(cuLibraryLoadFromFile)(&library, image.path(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  if (!leak) TRY(cuda.FUNCTION(cuLibraryUnload)(library));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_library(const Driver& cuda, bool leak) {
  CUlibrary library = nullptr;
  TRY(cuda.FUNCTION(cuLibraryLoadData)(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  if (!leak) TRY(cuda.FUNCTION(cuLibraryUnload)(library));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_texture(const Driver& cuda, bool leak) {
  CUdeviceptr memory = 0;
  TRY(cuda.FUNCTION(cuMemAlloc_v2)(&memory, 4096));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 4096;
  const CUDA_TEXTURE_DESC description = {};
  CUtexObject texture = 0;
  TRY(cuda.FUNCTION(cuTexObjectCreate)(&texture, &resource, &description, nullptr));
  if (!leak) TRY(cuda.FUNCTION(cuTexObjectDestroy)(texture));
  TRY(cuda.FUNCTION(cuMemFree_v2)(memory));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_surface(const Driver& cuda, bool leak) {
  CUDA_ARRAY3D_DESCRIPTOR description = {};
  description.Width = 64;
  description.Height = 64;
  description.Format = CU_AD_FORMAT_FLOAT;
  description.NumChannels = 1;
  description.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  CUarray array = nullptr;
  TRY(cuda.FUNCTION(cuArray3DCreate_v2)(&array, &description));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUsurfObject surface = 0;
  TRY(cuda.FUNCTION(cuSurfObjectCreate)(&surface, &resource));
  if (!leak) TRY(cuda.FUNCTION(cuSurfObjectDestroy)(surface));
  TRY(cuda.FUNCTION(cuArrayDestroy)(array));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_texture_reference(const Driver& cuda, bool leak) {
  CUtexref reference = nullptr;
  TRY(cuda.FUNCTION(cuTexRefCreate)(&reference));
  if (!leak) TRY(cuda.FUNCTION(cuTexRefDestroy)(reference));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_link_state(const Driver& cuda, bool leak) {
  CUlinkState state = nullptr;
  TRY(cuda.FUNCTION(cuLinkCreate_v2)(0, nullptr, nullptr, &state));
  if (!leak) TRY(cuda.FUNCTION(cuLinkDestroy)(state));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_link_state_old(const Driver& cuda, bool leak) {
  CUlinkState state = nullptr;
  TRY(cuda.FUNCTION(cuLinkCreate)(0, nullptr, nullptr, &state));
  if (!leak) TRY(cuda.FUNCTION(cuLinkDestroy)(state));
  return 0;
}

}  // namespace routes
