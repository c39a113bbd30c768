// Contexts, streams, events, modules, libraries and the small objects.
#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {
namespace {

// The smallest image that NVIDIA's driver loads.
const char kImage[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

SUBJECT_FUNCTION std::size_t make_context(const Driver& cuda, bool leak) {
  CUcontext context = nullptr;
  TRY(cuda.cuCtxCreate_v4(&context, nullptr, 0, 0));
  if (!leak) TRY(cuda.cuCtxDestroy_v2(context));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_context_v3(const Driver& cuda, bool leak) {
  CUcontext context = nullptr;
  TRY(cuda.cuCtxCreate_v3(&context, nullptr, 0, 0, 0));
  if (!leak) TRY(cuda.cuCtxDestroy_v2(context));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_context_v2(const Driver& cuda, bool leak) {
  CUcontext context = nullptr;
  TRY(cuda.cuCtxCreate_v2(&context, 0, 0));
  if (!leak) TRY(cuda.cuCtxDestroy_v2(context));
  return 0;
}

// NVIDIA's current driver crashes in this function when other contexts exist, and refuses it otherwise.
SUBJECT_FUNCTION std::size_t make_context_v1(const Driver& cuda, bool leak) {
  if (on_gpu()) throw Unsupported{"cuCtxCreate", 0};
  CUcontext context = nullptr;
  TRY(cuda.cuCtxCreate(&context, 0, 0));
  if (!leak) TRY(cuda.cuCtxDestroy(context));
  return 0;
}

CUgreenCtx create_green(const Driver& cuda) {
  CUdevResource all = {};
  TRY(cuda.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CUdevResource part = {};
  unsigned parts = 1;
  TRY(cuda.cuDevSmResourceSplitByCount(&part, &parts, &all, nullptr, 0, 8));
  CUdevResourceDesc description = nullptr;
  TRY(cuda.cuDevResourceGenerateDesc(&description, &part, 1));
  CUgreenCtx context = nullptr;
  TRY(cuda.cuGreenCtxCreate(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  return context;
}

SUBJECT_FUNCTION std::size_t make_green(const Driver& cuda, bool leak) {
  CUgreenCtx context = create_green(cuda);
  if (!leak) TRY(cuda.cuGreenCtxDestroy(context));
  return 0;
}

// The stream goes first: destroying a green context takes its streams with it.
SUBJECT_FUNCTION std::size_t make_green_stream(const Driver& cuda, bool leak) {
  CUgreenCtx context = create_green(cuda);
  CUstream stream = nullptr;
  TRY(cuda.cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0));
  if (!leak) {
    TRY(cuda.cuStreamDestroy_v2(stream));
    TRY(cuda.cuGreenCtxDestroy(context));
  }
  return 0;
}

SUBJECT_FUNCTION std::size_t make_stream(const Driver& cuda, bool leak) {
  CUstream stream = nullptr;
  TRY(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (!leak) TRY(cuda.cuStreamDestroy_v2(stream));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_stream_with_priority(const Driver& cuda, bool leak) {
  CUstream stream = nullptr;
  TRY(cuda.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  if (!leak) TRY(cuda.cuStreamDestroy(stream));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_event(const Driver& cuda, bool leak) {
  CUevent event = nullptr;
  TRY(cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  if (!leak) TRY(cuda.cuEventDestroy_v2(event));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_event_old(const Driver& cuda, bool leak) {
  CUevent event = nullptr;
  TRY(cuda.cuEventCreate(&event, 0));
  if (!leak) TRY(cuda.cuEventDestroy(event));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_event_from_ipc(const Driver& cuda, bool leak) {
  CUevent event = nullptr;
  TRY(cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  CUipcEventHandle handle;
  TRY(cuda.cuIpcGetEventHandle(&handle, event));
  CUevent opened = nullptr;
  const CUresult code = cuda.cuIpcOpenEventHandle(&opened, handle);
  TRY(cuda.cuEventDestroy_v2(event));
  TRY(code);
  if (!leak) TRY(cuda.cuEventDestroy_v2(opened));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_module(const Driver& cuda, bool leak) {
  CUmodule module = nullptr;
  TRY(cuda.cuModuleLoadData(&module, kImage));
  if (!leak) TRY(cuda.cuModuleUnload(module));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_module_with_options(const Driver& cuda, bool leak) {
  CUmodule module = nullptr;
  TRY(cuda.cuModuleLoadDataEx(&module, kImage, 0, nullptr, nullptr));
  if (!leak) TRY(cuda.cuModuleUnload(module));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_library(const Driver& cuda, bool leak) {
  CUlibrary library = nullptr;
  TRY(cuda.cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  if (!leak) TRY(cuda.cuLibraryUnload(library));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_texture(const Driver& cuda, bool leak) {
  CUdeviceptr memory = 0;
  TRY(cuda.cuMemAlloc_v2(&memory, 4096));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 4096;
  const CUDA_TEXTURE_DESC description = {};
  CUtexObject texture = 0;
  TRY(cuda.cuTexObjectCreate(&texture, &resource, &description, nullptr));
  if (!leak) TRY(cuda.cuTexObjectDestroy(texture));
  TRY(cuda.cuMemFree_v2(memory));
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
  TRY(cuda.cuArray3DCreate_v2(&array, &description));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUsurfObject surface = 0;
  TRY(cuda.cuSurfObjectCreate(&surface, &resource));
  if (!leak) TRY(cuda.cuSurfObjectDestroy(surface));
  TRY(cuda.cuArrayDestroy(array));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_texture_reference(const Driver& cuda, bool leak) {
  CUtexref reference = nullptr;
  TRY(cuda.cuTexRefCreate(&reference));
  if (!leak) TRY(cuda.cuTexRefDestroy(reference));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_link_state(const Driver& cuda, bool leak) {
  CUlinkState state = nullptr;
  TRY(cuda.cuLinkCreate_v2(0, nullptr, nullptr, &state));
  if (!leak) TRY(cuda.cuLinkDestroy(state));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_user_object(const Driver& cuda, bool leak) {
  static int owned = 0;
  CUuserObject object = nullptr;
  TRY(cuda.cuUserObjectCreate(
      &object, &owned, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  if (!leak) TRY(cuda.cuUserObjectRelease(object, 1));
  return 0;
}

}  // namespace

std::vector<Kind> object_kinds() {
  return {{"context", make_context},
          {"context_v3", make_context_v3},
          {"context_v2", make_context_v2},
          {"context_v1", make_context_v1},
          {"green", make_green},
          {"green_stream", make_green_stream},
          {"stream", make_stream},
          {"stream_with_priority", make_stream_with_priority},
          {"event", make_event},
          {"event_old", make_event_old},
          {"event_from_ipc", make_event_from_ipc},
          {"module", make_module},
          {"module_with_options", make_module_with_options},
          {"library", make_library},
          {"texture", make_texture},
          {"surface", make_surface},
          {"texture_reference", make_texture_reference},
          {"link_state", make_link_state},
          {"user_object", make_user_object}};
}

}  // namespace routes
