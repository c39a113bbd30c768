// Properties of the simulated GPUs.
#include <cstdio>
#include <cstring>

#include "tests/simcuda/driver/call.h"

namespace simcuda {
namespace {

constexpr int kDriverVersion = 13000;

// The values of a Hopper GPU for attributes that programs read; 0 for the others.
int attribute_value(const Device& device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 62914560;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return device.ordinal + 1;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
      return 131072;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH:
      return 16384;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}

CUuuid uuid_of(const Device& device) {
  CUuuid uuid;
  // "GPU-51adc0da-0000-4000-8000-0000000000NN"
  static constexpr unsigned char kBytes[16] = {0x51, 0xad, 0xc0, 0xda, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0};
  memcpy(uuid.bytes, kBytes, sizeof(kBytes));
  uuid.bytes[15] = static_cast<char>(device.ordinal);
  return uuid;
}

void format_bus_id(const Device& device, char* text, std::size_t size) {
  snprintf(text, size, "0000:%02x:00.0", device.ordinal + 1);
}

}  // namespace
}  // namespace simcuda

using simcuda::Device;

// Declares `device`, or returns CUDA_ERROR_INVALID_DEVICE.
#define SIM_DEVICE(ordinal)              \
  SIM_CALL(kInit);                       \
  Device* device = call.device(ordinal); \
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE

SIM(cuDriverGetVersion)(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = simcuda::kDriverVersion;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGet)(CUdevice* out, int ordinal) {
  SIM_DEVICE(ordinal);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = device->ordinal;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetCount)(int* count) {
  SIM_CALL(kInit);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(call.state().devices.size());
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetName)(char* name, int length, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, static_cast<std::size_t>(length), "Simulated GPU %d", device->ordinal);
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *uuid = simcuda::uuid_of(*device);
  return CUDA_SUCCESS;
}

SIM(cuDeviceTotalMem_v2)(std::size_t* bytes, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = device->total;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = simcuda::attribute_value(*device, attribute);
  return CUDA_SUCCESS;
}

SIM(cuDeviceComputeCapability)(int* major, int* minor, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = simcuda::attribute_value(*device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = simcuda::attribute_value(*device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetProperties)(CUdevprop* properties, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = CUdevprop{1024,
                          {1024, 1024, 64},
                          {2147483647, 65535, 65535},
                          49152,
                          65536,
                          32,
                          2147483647,
                          65536,
                          simcuda::attribute_value(*device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                          512};
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetPCIBusId)(char* text, int length, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (text == nullptr || length < 13) return CUDA_ERROR_INVALID_VALUE;
  simcuda::format_bus_id(*device, text, static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetByPCIBusId)(CUdevice* out, const char* text) {
  SIM_CALL(kInit);
  if (out == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (auto& device : call.state().devices) {
    char bus_id[16];
    simcuda::format_bus_id(*device, bus_id, sizeof(bus_id));
    if (strcmp(bus_id, text) == 0) {
      *out = device->ordinal;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIM(cuDeviceCanAccessPeer)(int* can, CUdevice ordinal, CUdevice peer) {
  SIM_DEVICE(ordinal);
  if (call.device(peer) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device->ordinal != peer;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetP2PAttribute)(int* value, CUdevice_P2PAttribute attribute, CUdevice ordinal, CUdevice peer) {
  SIM_DEVICE(ordinal);
  if (call.device(peer) == nullptr || peer == device->ordinal) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : 1;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetTexture1DLinearMaxWidth)(std::size_t* width, CUarray_format, unsigned, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (width == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *width = std::size_t{1} << 28;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetExecAffinitySupport)(int* supported, CUexecAffinityType, CUdevice ordinal) {
  SIM_DEVICE(ordinal);
  if (supported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

SIM(cuFlushGPUDirectRDMAWrites)(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope) {
  SIM_CALL(kContext);
  return CUDA_SUCCESS;
}
