// Registrations by nvcc's generated code, kernels, symbols and libraries.
#include <cstdlib>
#include <cstring>

#include "tests/simcuda/runtime/runtime.h"

using simcudart::done;
using simcudart::failed;
using simcudart::legacy;
using simcudart::Lock;

namespace simcudart {
namespace {

struct FatBinary {
  void* image;
  CUlibrary library;
  FatBinary* next;
};

struct RegisteredKernel {
  const void* host;
  const char* name;
  FatBinary* binary;
  CUkernel kernel;
  RegisteredKernel* next;
};

struct RegisteredVariable {
  const void* host;
  const char* name;
  std::size_t bytes;
  bool managed;
  FatBinary* binary;
  RegisteredVariable* next;
};

FatBinary* binaries;
RegisteredKernel* kernels;
RegisteredVariable* variables;

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local CallConfiguration call_configuration;

CUresult load(FatBinary& binary) {
  if (binary.library != nullptr) return CUDA_SUCCESS;
  return legacy.cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

template <typename Row>
Row* prepend(Row** list) {
  Row* row = static_cast<Row*>(calloc(1, sizeof(Row)));
  if (row == nullptr) abort();
  row->next = *list;
  *list = row;
  return row;
}

template <typename Row>
void remove_of(Row** list, const FatBinary* binary) {
  while (*list != nullptr) {
    Row* row = *list;
    if (row->binary != binary) {
      list = &row->next;
      continue;
    }
    *list = row->next;
    free(row);
  }
}

void add_variable(void** handle, const void* host, const char* name, std::size_t bytes, bool managed) {
  Lock lock;
  RegisteredVariable* variable = prepend(&variables);
  variable->host = host;
  variable->name = name;
  variable->bytes = bytes;
  variable->managed = managed;
  variable->binary = reinterpret_cast<FatBinary*>(handle);
}

cudaError_t launch(const DriverTable& driver, CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared, CUstream stream) {
  if (kernel == nullptr) return failed(cudaErrorInvalidDeviceFunction);
  return done(driver.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                                    block.z, static_cast<unsigned>(shared), stream, arguments, nullptr));
}

}  // namespace

CUresult load_registered_libraries() {
  for (FatBinary* binary = binaries; binary != nullptr; binary = binary->next) {
    if (CUresult status = load(*binary)) return status;
  }
  return CUDA_SUCCESS;
}

void forget_loaded_libraries() {
  for (FatBinary* binary = binaries; binary != nullptr; binary = binary->next) binary->library = nullptr;
  for (RegisteredKernel* kernel = kernels; kernel != nullptr; kernel = kernel->next) kernel->kernel = nullptr;
}

CUkernel find_kernel(const void* host_function) {
  Lock lock;
  for (RegisteredKernel* kernel = kernels; kernel != nullptr; kernel = kernel->next) {
    if (kernel->host != host_function) continue;
    if (kernel->kernel == nullptr && load(*kernel->binary) == CUDA_SUCCESS) {
      legacy.cuLibraryGetKernel(&kernel->kernel, kernel->binary->library, kernel->name);
    }
    return kernel->kernel;
  }
  // cudaLaunchKernel and its like also take a cudaKernel_t (of cudaLibraryGetKernel) in the function's place.
  auto given = reinterpret_cast<CUkernel>(const_cast<void*>(host_function));
  CUfunction function = nullptr;
  return legacy.cuKernelGetFunction(&function, given) == CUDA_SUCCESS ? given : nullptr;
}

bool find_symbol(const void* host_variable, CUdeviceptr* address, std::size_t* bytes) {
  Lock lock;
  for (RegisteredVariable* variable = variables; variable != nullptr; variable = variable->next) {
    if (variable->host != host_variable) continue;
    if (bytes != nullptr) *bytes = variable->bytes;
    if (load(*variable->binary) != CUDA_SUCCESS) return false;
    CUresult status = variable->managed
                          ? legacy.cuLibraryGetManaged(address, nullptr, variable->binary->library, variable->name)
                          : legacy.cuLibraryGetGlobal(address, nullptr, variable->binary->library, variable->name);
    return status == CUDA_SUCCESS;
  }
  return false;
}

}  // namespace simcudart

RUNTIME_EXPORT void** CUDARTAPI __cudaRegisterFatBinary(void* image) {
  Lock lock;
  simcudart::FatBinary* binary = simcudart::prepend(&simcudart::binaries);
  binary->image = image;
  return reinterpret_cast<void**>(binary);
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}

RUNTIME_EXPORT void CUDARTAPI __cudaUnregisterFatBinary(void** handle) {
  Lock lock;
  auto* binary = reinterpret_cast<simcudart::FatBinary*>(handle);
  // At exit the driver refuses: it is shutting down.
  if (binary->library != nullptr) legacy.cuLibraryUnload(binary->library);
  simcudart::remove_of(&simcudart::kernels, binary);
  simcudart::remove_of(&simcudart::variables, binary);
  for (simcudart::FatBinary** link = &simcudart::binaries; *link != nullptr; link = &(*link)->next) {
    if (*link != binary) continue;
    *link = binary->next;
    break;
  }
  free(binary);
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int,
                                                     uint3*, uint3*, dim3*, dim3*, int*) {
  Lock lock;
  simcudart::RegisteredKernel* kernel = simcudart::prepend(&simcudart::kernels);
  kernel->host = host;
  kernel->name = name;
  kernel->binary = reinterpret_cast<simcudart::FatBinary*>(handle);
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterVar(void** handle, char* host, char*, const char* name, int,
                                                std::size_t bytes, int, int) {
  simcudart::add_variable(handle, host, name, bytes, false);
}

// nvcc's code reads a managed variable through the pointer at `host`.
RUNTIME_EXPORT void CUDARTAPI __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                                                       std::size_t bytes, int, int) {
  simcudart::add_variable(handle, host, name, bytes, true);
}

RUNTIME_EXPORT char CUDARTAPI __cudaInitModule(void** handle) {
  if (simcudart::bind_context() != cudaSuccess) return 0;
  for (simcudart::RegisteredVariable* variable = simcudart::variables; variable != nullptr; variable = variable->next) {
    if (!variable->managed || variable->binary != reinterpret_cast<simcudart::FatBinary*>(handle)) continue;
    CUdeviceptr address = 0;
    if (simcudart::find_symbol(variable->host, &address, nullptr)) {
      *static_cast<void**>(const_cast<void*>(variable->host)) = simcudart::pointer_to(address);
    }
  }
  return 1;
}

RUNTIME_EXPORT unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                                              CUstream_st* stream) {
  simcudart::call_configuration = {grid, block, shared, stream};
  return 0;
}

RUNTIME_API(__cudaPopCallConfiguration)(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = simcudart::call_configuration.grid;
  *block = simcudart::call_configuration.block;
  *shared = simcudart::call_configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = simcudart::call_configuration.stream;
  return cudaSuccess;
}

RUNTIME_API(__cudaGetKernel)(cudaKernel_t* out, const void* host_function) {
  RUNTIME_NEEDS_CONTEXT();
  *out = simcudart::find_kernel(host_function);
  return *out == nullptr ? failed(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

RUNTIME_STREAM_API(__cudaLaunchKernel, __cudaLaunchKernel_ptsz,
                   (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                    cudaStream_t stream),
                   (kernel, grid, block, arguments, shared, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return simcudart::launch(driver, kernel, grid, block, arguments, shared, stream);
}

RUNTIME_STREAM_API(cudaLaunchKernel, cudaLaunchKernel_ptsz,
                   (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                    cudaStream_t stream),
                   (function, grid, block, arguments, shared, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return simcudart::launch(driver, simcudart::find_kernel(function), grid, block, arguments, shared, stream);
}

RUNTIME_STREAM_API(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz,
                   (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                    cudaStream_t stream),
                   (function, grid, block, arguments, shared, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return simcudart::launch(driver, simcudart::find_kernel(function), grid, block, arguments, shared, stream);
}

RUNTIME_STREAM_API(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz,
                   (const cudaLaunchConfig_t* config, const void* function, void** arguments),
                   (config, function, arguments)) {
  RUNTIME_NEEDS_CONTEXT();
  if (config == nullptr) return failed(cudaErrorInvalidValue);
  return simcudart::launch(driver, simcudart::find_kernel(function), config->gridDim, config->blockDim, arguments,
                           config->dynamicSmemBytes, config->stream);
}

RUNTIME_API(cudaFuncGetAttributes)(cudaFuncAttributes* out, const void* function) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUkernel kernel = simcudart::find_kernel(function);
  if (kernel == nullptr) return failed(cudaErrorInvalidDeviceFunction);
  memset(out, 0, sizeof(*out));
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->ptxVersion = out->binaryVersion = 90;
  out->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}

RUNTIME_API(cudaFuncSetAttribute)(const void* function, cudaFuncAttribute, int) {
  RUNTIME_NEEDS_CONTEXT();
  return simcudart::find_kernel(function) == nullptr ? failed(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

RUNTIME_API(cudaFuncSetCacheConfig)(const void* function, cudaFuncCache) {
  RUNTIME_NEEDS_CONTEXT();
  return simcudart::find_kernel(function) == nullptr ? failed(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

RUNTIME_API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int* blocks, const void* function, int block_size, std::size_t, unsigned) {
  RUNTIME_NEEDS_CONTEXT();
  if (simcudart::find_kernel(function) == nullptr) return failed(cudaErrorInvalidDeviceFunction);
  if (blocks == nullptr || block_size <= 0) return failed(cudaErrorInvalidValue);
  *blocks = block_size > 1024 ? 0 : 2048 / block_size > 32 ? 32 : 2048 / block_size;
  return cudaSuccess;
}

RUNTIME_API(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
(int* blocks, const void* function, int block_size, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

RUNTIME_API(cudaGetSymbolAddress)(void** out, const void* symbol) {
  RUNTIME_NEEDS_CONTEXT();
  CUdeviceptr address = 0;
  if (out == nullptr || !simcudart::find_symbol(symbol, &address, nullptr)) return failed(cudaErrorInvalidSymbol);
  *out = simcudart::pointer_to(address);
  return cudaSuccess;
}

RUNTIME_API(cudaGetSymbolSize)(std::size_t* bytes, const void* symbol) {
  RUNTIME_NEEDS_CONTEXT();
  CUdeviceptr address = 0;
  if (bytes == nullptr || !simcudart::find_symbol(symbol, &address, bytes)) return failed(cudaErrorInvalidSymbol);
  return cudaSuccess;
}

RUNTIME_API(cudaGetFuncBySymbol)(cudaFunction_t* out, const void* symbol) {
  RUNTIME_NEEDS_CONTEXT();
  CUkernel kernel = simcudart::find_kernel(symbol);
  if (kernel == nullptr) return failed(cudaErrorInvalidDeviceFunction);
  return done(legacy.cuKernelGetFunction(out, kernel));
}

RUNTIME_API(cudaGetKernel)(cudaKernel_t* out, const void* symbol) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  *out = simcudart::find_kernel(symbol);
  return *out == nullptr ? failed(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

RUNTIME_API(cudaLibraryLoadData)
(cudaLibrary_t* out, const void* image, cudaJitOption* options, void** values, unsigned count,
 cudaLibraryOption* library_options, void** library_values, unsigned library_count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuLibraryLoadData(out, image, simcudart::as<CUjit_option*>(options), values, count,
                                       simcudart::as<CUlibraryOption*>(library_options), library_values,
                                       library_count));
}

RUNTIME_API(cudaLibraryLoadFromFile)
(cudaLibrary_t* out, const char* path, cudaJitOption* options, void** values, unsigned count,
 cudaLibraryOption* library_options, void** library_values, unsigned library_count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuLibraryLoadFromFile(out, path, simcudart::as<CUjit_option*>(options), values, count,
                                           simcudart::as<CUlibraryOption*>(library_options), library_values,
                                           library_count));
}

RUNTIME_API(cudaLibraryUnload)(cudaLibrary_t library) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuLibraryUnload(library));
}

RUNTIME_API(cudaLibraryGetKernel)(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuLibraryGetKernel(out, library, name));
}

RUNTIME_API(cudaLibraryGetGlobal)(void** out, std::size_t* bytes, cudaLibrary_t library, const char* name) {
  RUNTIME_NEEDS_CONTEXT();
  CUdeviceptr address = 0;
  CUresult status = legacy.cuLibraryGetGlobal(&address, bytes, library, name);
  if (status == CUDA_SUCCESS && out != nullptr) *out = simcudart::pointer_to(address);
  return done(status);
}
