// The part of NVIDIA's management library (libnvidia-ml.so.1) that culprit calls, declared here because nvml.h comes
// with the CUDA toolkit and culprit is built and run without one.
//
// Source of names, layouts and values: nvml.h of CUDA 12.2 and 13.0
// (https://docs.nvidia.com/deploy/nvml-api/; also published in github.com/NVIDIA/go-nvml, gen/nvml/nvml.h). Versioned
// functions (_v2, _v3) keep their layout for ever; a newer layout gets a new name.
#pragma once

#include <cstddef>

extern "C" {

typedef struct nvmlDevice_st* nvmlDevice_t;
typedef int nvmlReturn_t;

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;  // includes the bytes that the driver reserves
};

struct nvmlMemory_v2_t {
  unsigned int version;  // size | 2 << 24
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;  // nvml.h: includes `reserved`; real drivers: does not. Compute it from the others
};

// nvmlDeviceGetPciInfo_v3.
struct nvmlPciInfo_t {
  char legacy_text[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  char text[32];
};

// Filled in by nvmlDeviceGet*RunningProcesses_v2, and by _v3 but for the drivers of read_processes() in nvml.cpp.
struct nvmlProcessInfo_v2_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;  // ~0: not available
  unsigned int gpuInstanceId;        // ~0: no MIG
  unsigned int computeInstanceId;    // ~0: no MIG
};

}  // extern "C"

namespace culprit::report::nvml {

static_assert(sizeof(nvmlMemory_v2_t) == 40 && offsetof(nvmlMemory_v2_t, total) == 8);
static_assert(sizeof(nvmlPciInfo_t) == 68 && offsetof(nvmlPciInfo_t, domain) == 16);
static_assert(sizeof(nvmlProcessInfo_v2_t) == 24 && offsetof(nvmlProcessInfo_v2_t, usedGpuMemory) == 8);

constexpr nvmlReturn_t kSuccess = 0;
constexpr nvmlReturn_t kNotSupported = 3;
constexpr nvmlReturn_t kNoPermission = 4;
constexpr nvmlReturn_t kNotFound = 6;
constexpr nvmlReturn_t kInsufficientSize = 7;
constexpr nvmlReturn_t kDriverNotLoaded = 9;
constexpr nvmlReturn_t kVersionMismatch = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH

constexpr unsigned kMemoryV2 = sizeof(nvmlMemory_v2_t) | 2U << 24;
constexpr unsigned long long kBytesNotAvailable = ~0ULL;
constexpr unsigned kNoInstance = ~0U;

constexpr int kComputeDefault = 0;
constexpr int kComputeExclusiveThread = 1;
constexpr int kComputeProhibited = 2;
constexpr int kComputeExclusiveProcess = 3;

constexpr int kRetiredSingleBit = 0;  // NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS
constexpr int kRetiredDoubleBit = 1;

}  // namespace culprit::report::nvml
