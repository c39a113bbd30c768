#include "tests/simcuda/driver/modules.h"

#include <cudaProfiler.h>

#include <cstdio>
#include <cstring>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"
#include "tests/simcuda/driver/own_kernels.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/streams.h"

namespace simcuda {
namespace {

// The size of a global variable is not known without reading the image. Each gets this much of the (lazily populated)
// address space, and none of the device's memory: the real driver counts it with the module's code.
constexpr std::size_t kGlobalBytes = std::size_t{1} << 20;

struct Function : Object {
  static constexpr ObjectType kType = ObjectType::kFunction;
  explicit Function(Context* function_context) : Object(kType, function_context) {}

  std::string name;
  Object* owner = nullptr;  // module or kernel
};

struct Module : Object {
  static constexpr ObjectType kType = ObjectType::kModule;
  explicit Module(Context* module_context) : Object(kType, module_context) {}
  void release(DriverState& state) override;

  std::map<std::string, Function*> functions;
  std::map<std::string, std::uint64_t> globals;
  std::size_t taken = 0;  // own_memory.h
};

struct Kernel : Object {
  static constexpr ObjectType kType = ObjectType::kKernel;
  Kernel() : Object(kType) {}

  std::string name;
  Object* library = nullptr;
};

// A library belongs to no context; each context loads it as a module on first use.
struct Library : Object {
  static constexpr ObjectType kType = ObjectType::kLibrary;
  Library() : Object(kType) {}
  void release(DriverState& state) override;

  std::map<std::string, Kernel*> kernels;
  std::map<Context*, std::pair<std::uint64_t, Module*>> modules;  // with the serial number of the context
  std::map<std::string, std::uint64_t> managed;
};

void Module::release(DriverState& state) {
  if (taken != 0 && context->own_bytes >= taken) {
    context->own_bytes -= taken;
    return_bytes(*state.devices[context->device], taken);
  }
  for (auto& [name, function] : functions) state.destroy(function);

  for (auto& [name, address] : globals) {
    if (Allocation* global = find_allocation(state, context->device, address)) release_allocation(state, *global);
  }
}

void Library::release(DriverState& state) {
  for (auto& [name, kernel] : kernels) state.destroy(kernel);
  for (auto& [loaded_in, loaded] : modules) {
    Context* live = state.find<Context>(loaded_in);
    if (live != nullptr && live->serial == loaded.first) state.destroy(loaded.second);
  }
  for (auto& [name, address] : managed) {
    if (Allocation* variable = find_allocation(state, -1, address)) release_allocation(state, *variable);
  }
}

Module* module_of(Call& call, Library& library) {
  auto& [serial, module] = library.modules[&call.context()];
  if (module == nullptr || serial != call.context().serial) {
    module = call.state().add(new Module(&call.context()));
    serial = call.context().serial;
    take_module(call.state(), call.context(), &module->taken);
  }
  return module;
}

Function* function_of(DriverState& state, Module& module, const std::string& name) {
  Function*& function = module.functions[name];
  if (function == nullptr) {
    function = state.add(new Function(module.context));
    function->name = name;
    function->owner = &module;
  }
  return function;
}

CUresult global_of(DriverState& state, Module& module, const char* name, CUdeviceptr* out, std::size_t* bytes) {
  if (name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t& address = module.globals[name];
  if (address == 0) {
    Device& device = *state.devices[module.context->device];
    Allocation* global = add_allocation(state, device, MemoryKind::kModuleGlobal, kGlobalBytes, 512, 0, module.context);
    if (global == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    global->owner = &module;
    address = global->address;
  }
  if (out != nullptr) *out = address;
  if (bytes != nullptr) *bytes = kGlobalBytes;
  return CUDA_SUCCESS;
}

CUresult load_module(CUmodule* out, const void* image) {
  SIM_CALL(kContext);
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = call.state().add(new Module(&call.context()));
  if (CUresult status = take_module(call.state(), call.context(), &module->taken)) {
    call.state().destroy(module);
    return status;
  }
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}

CUresult load_library(CUlibrary* out, const void* image) {
  SIM_CALL(kInit);
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlibrary>(call.state().add(new Library));
  return CUDA_SUCCESS;
}

CUresult launch(const void* function, unsigned blocks, unsigned threads, CUstream handle,
                const CUDA_KERNEL_NODE_PARAMS& parameters) {
  SIM_CALL(kContext);
  if (!is_launchable(call.state(), function)) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult status = load_for_launch(call, function)) return status;
  if (stream->capture != nullptr)
    capture_node(call.state(), *stream, CU_GRAPH_NODE_TYPE_KERNEL)->work.kernel = parameters;
  else
    run_own_kernel(call.state(), call.context().device, kernel_name(call.state(), function), parameters.kernelParams);
  return CUDA_SUCCESS;
}

CUresult function_attribute(int* out, CUfunction_attribute attribute) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out = 90;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *out = 49152;
      return CUDA_SUCCESS;
    default:
      *out = 0;
      return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult check_launchable(const void* handle) {
  SIM_CALL(kInit);
  return is_launchable(call.state(), handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult active_blocks(int* out, const void* function, int block_size) {
  if (CUresult status = check_launchable(function)) return status;
  if (out == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  *out = block_size > 1024 ? 0 : 2048 / block_size > 32 ? 32 : 2048 / block_size;
  return CUDA_SUCCESS;
}

}  // namespace

// A library's kernel is loaded at its first launch (CUDA_MODULE_LOADING=LAZY).
const std::string& kernel_name(DriverState& state, const void* handle) {
  const Kernel* kernel = state.find<Kernel>(handle);
  return kernel != nullptr ? kernel->name : state.find<Function>(handle)->name;
}

CUresult load_for_launch(Call& call, const void* handle) {
  if (!call.state().own_memory.on) return CUDA_SUCCESS;
  if (Kernel* kernel = call.state().find<Kernel>(handle)) module_of(call, *static_cast<Library*>(kernel->library));
  return take_for_kernel(call.state(), call.context(), kernel_name(call.state(), handle));
}

bool file_exists(const char* path) {
  FILE* file = path == nullptr ? nullptr : fopen(path, "re");
  if (file == nullptr) return false;
  fclose(file);
  return true;
}

bool is_launchable(const DriverState& state, const void* handle) {
  return state.find<Function>(handle) != nullptr || state.find<Kernel>(handle) != nullptr;
}

}  // namespace simcuda

using simcuda::Function;
using simcuda::Kernel;
using simcuda::Library;
using simcuda::Module;

SIM(cuModuleLoad)(CUmodule* out, const char* path) {
  return simcuda::file_exists(path) ? simcuda::load_module(out, path) : CUDA_ERROR_FILE_NOT_FOUND;
}
SIM(cuModuleLoadData)(CUmodule* out, const void* image) { return simcuda::load_module(out, image); }
SIM(cuModuleLoadDataEx)(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return simcuda::load_module(out, image);
}
SIM(cuModuleLoadFatBinary)(CUmodule* out, const void* image) { return simcuda::load_module(out, image); }

SIM(cuModuleUnload)(CUmodule handle) {
  SIM_CALL(kInit);
  Module* module = call.state().find<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(module);
  return CUDA_SUCCESS;
}

SIM(cuModuleGetLoadingMode)(CUmoduleLoadingMode* mode) {
  SIM_CALL(kInit);
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIM(cuModuleGetFunction)(CUfunction* out, CUmodule handle, const char* name) {
  SIM_CALL(kContext);
  Module* module = call.state().find<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUfunction>(simcuda::function_of(call.state(), *module, name));
  return CUDA_SUCCESS;
}

SIM(cuModuleGetGlobal_v2)(CUdeviceptr* out, std::size_t* bytes, CUmodule handle, const char* name) {
  SIM_CALL(kContext);
  Module* module = call.state().find<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return simcuda::global_of(call.state(), *module, name, out, bytes);
}

SIM(cuLibraryLoadData)
(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  return simcuda::load_library(out, image);
}

SIM(cuLibraryLoadFromFile)
(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  return simcuda::file_exists(path) ? simcuda::load_library(out, path) : CUDA_ERROR_FILE_NOT_FOUND;
}

SIM(cuLibraryUnload)(CUlibrary handle) {
  SIM_CALL(kInit);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(library);
  return CUDA_SUCCESS;
}

SIM(cuLibraryGetKernel)(CUkernel* out, CUlibrary handle, const char* name) {
  SIM_CALL(kInit);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  Kernel*& kernel = library->kernels[name];
  if (kernel == nullptr) {
    kernel = call.state().add(new Kernel);
    kernel->name = name;
    kernel->library = library;
  }
  *out = reinterpret_cast<CUkernel>(kernel);
  return CUDA_SUCCESS;
}

SIM(cuLibraryGetModule)(CUmodule* out, CUlibrary handle) {
  SIM_CALL(kContext);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(simcuda::module_of(call, *library));
  return CUDA_SUCCESS;
}

SIM(cuLibraryGetGlobal)(CUdeviceptr* out, std::size_t* bytes, CUlibrary handle, const char* name) {
  SIM_CALL(kContext);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return simcuda::global_of(call.state(), *simcuda::module_of(call, *library), name, out, bytes);
}

SIM(cuLibraryGetManaged)(CUdeviceptr* out, std::size_t* bytes, CUlibrary handle, const char* name) {
  SIM_CALL(kContext);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t& address = library->managed[name];
  if (address == 0) {
    address = call.state().managed_space->allocate(simcuda::kGlobalBytes, 512);
    if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    simcuda::Allocation& variable = call.state().managed[address];
    variable.address = variable.range = address;
    variable.bytes = variable.reserved = simcuda::kGlobalBytes;
    variable.kind = simcuda::MemoryKind::kManaged;
    variable.device = call.context().device;
    variable.owner = library;
  }
  if (out != nullptr) *out = address;
  if (bytes != nullptr) *bytes = simcuda::kGlobalBytes;
  return CUDA_SUCCESS;
}

SIM(cuLibraryGetKernelCount)(unsigned* count, CUlibrary handle) {
  SIM_CALL(kInit);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr || count == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}

SIM(cuLibraryEnumerateKernels)(CUkernel* kernels, unsigned count, CUlibrary handle) {
  SIM_CALL(kInit);
  Library* library = call.state().find<Library>(handle);
  if (library == nullptr || kernels == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unsigned i = 0;
  for (auto& [name, kernel] : library->kernels) {
    if (i < count) kernels[i++] = reinterpret_cast<CUkernel>(kernel);
  }
  return CUDA_SUCCESS;
}

SIM(cuKernelGetFunction)(CUfunction* out, CUkernel handle) {
  SIM_CALL(kContext);
  Kernel* kernel = call.state().find<Kernel>(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = simcuda::module_of(call, *static_cast<Library*>(kernel->library));
  *out = reinterpret_cast<CUfunction>(simcuda::function_of(call.state(), *module, kernel->name));
  return CUDA_SUCCESS;
}

SIM(cuKernelGetLibrary)(CUlibrary* out, CUkernel handle) {
  SIM_CALL(kInit);
  Kernel* kernel = call.state().find<Kernel>(handle);
  if (kernel == nullptr || out == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUlibrary>(kernel->library);
  return CUDA_SUCCESS;
}

SIM(cuKernelGetName)(const char** name, CUkernel handle) {
  SIM_CALL(kInit);
  Kernel* kernel = call.state().find<Kernel>(handle);
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

SIM(cuKernelGetAttribute)(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  if (CUresult status = simcuda::check_launchable(kernel)) return status;
  return simcuda::function_attribute(value, attribute);
}

SIM(cuKernelSetAttribute)(CUfunction_attribute, int, CUkernel kernel, CUdevice) {
  return simcuda::check_launchable(kernel);
}
SIM(cuKernelSetCacheConfig)(CUkernel kernel, CUfunc_cache, CUdevice) { return simcuda::check_launchable(kernel); }

SIM(cuFuncGetAttribute)(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (CUresult status = simcuda::check_launchable(function)) return status;
  return simcuda::function_attribute(value, attribute);
}

SIM(cuFuncSetAttribute)(CUfunction function, CUfunction_attribute, int) { return simcuda::check_launchable(function); }
SIM(cuFuncSetCacheConfig)(CUfunction function, CUfunc_cache) { return simcuda::check_launchable(function); }
SIM(cuFuncSetSharedMemConfig)(CUfunction function, CUsharedconfig) { return simcuda::check_launchable(function); }
SIM(cuFuncSetBlockShape)(CUfunction function, int, int, int) { return simcuda::check_launchable(function); }
SIM(cuFuncSetSharedSize)(CUfunction function, unsigned) { return simcuda::check_launchable(function); }
SIM(cuParamSetSize)(CUfunction function, unsigned) { return simcuda::check_launchable(function); }
SIM(cuParamSeti)(CUfunction function, int, unsigned) { return simcuda::check_launchable(function); }
SIM(cuParamSetf)(CUfunction function, int, float) { return simcuda::check_launchable(function); }
SIM(cuParamSetv)(CUfunction function, int, void*, unsigned) { return simcuda::check_launchable(function); }
SIM(cuFuncLoad)(CUfunction function) { return simcuda::check_launchable(function); }

SIM(cuFuncGetModule)(CUmodule* out, CUfunction handle) {
  SIM_CALL(kInit);
  Function* function = call.state().find<Function>(handle);
  if (function == nullptr || out == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(function->owner);
  return CUDA_SUCCESS;
}

SIM(cuFuncGetName)(const char** name, CUfunction handle) {
  SIM_CALL(kInit);
  Function* function = call.state().find<Function>(handle);
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

SIM(cuFuncIsLoaded)(CUfunctionLoadingState* state, CUfunction function) {
  if (CUresult status = simcuda::check_launchable(function)) return status;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

SIM(cuLaunchKernel)
(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
 unsigned block_z, unsigned shared, CUstream stream, void** parameters, void**) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function;
  node.gridDimX = grid_x;
  node.gridDimY = grid_y;
  node.gridDimZ = grid_z;
  node.blockDimX = block_x;
  node.blockDimY = block_y;
  node.blockDimZ = block_z;
  node.sharedMemBytes = shared;
  node.kernelParams = parameters;
  return simcuda::launch(function, grid_x * grid_y * grid_z, block_x * block_y * block_z, stream, node);
}

SIM(cuLaunchCooperativeKernel)
(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
 unsigned block_z, unsigned shared, CUstream stream, void** parameters) {
  return sim_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters,
                            nullptr);
}

SIM(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return sim_cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                            config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                            extra);
}

SIM(cuLaunch)(CUfunction function) {
  return sim_cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}

SIM(cuLaunchGrid)(CUfunction function, int width, int height) {
  return sim_cuLaunchKernel(function, width, height, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}

SIM(cuLaunchGridAsync)(CUfunction function, int width, int height, CUstream stream) {
  return sim_cuLaunchKernel(function, width, height, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

SIM(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, CUfunction function, int block_size, std::size_t) {
  return simcuda::active_blocks(blocks, function, block_size);
}

SIM(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int* blocks, CUfunction function, int block_size, std::size_t, unsigned) {
  return simcuda::active_blocks(blocks, function, block_size);
}

SIM(cuOccupancyMaxPotentialBlockSize)
(int* grid, int* block, CUfunction function, CUoccupancyB2DSize, std::size_t, int limit) {
  if (CUresult status = simcuda::check_launchable(function)) return status;
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *block = limit > 0 && limit < 1024 ? limit : 1024;
  *grid = 132 * (2048 / *block);
  return CUDA_SUCCESS;
}

SIM(cuOccupancyAvailableDynamicSMemPerBlock)(std::size_t* bytes, CUfunction function, int, int) {
  if (CUresult status = simcuda::check_launchable(function)) return status;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = 49152;
  return CUDA_SUCCESS;
}

SIM(cuProfilerStart)(void) { return CUDA_SUCCESS; }
SIM(cuProfilerStop)(void) { return CUDA_SUCCESS; }
