#include "interpose/events/pool_places.h"

#include "interpose/driver/relaxed_capture.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/recording.h"

namespace culprit {

void PoolPlaces::set(CUmemoryPool pool, int device) {
  if (device < kUnknown || device > static_cast<int>(kMostDevice) + kUnknown) device = kUnknown;
  const std::uint64_t handle = reinterpret_cast<std::uint64_t>(pool);
  std::atomic<std::uint64_t>* places = entries_[bucket_of(pool)];
  std::atomic<std::uint64_t>* chosen = nullptr;
  for (int i = 0; i < kPlaces; ++i) {
    const std::uint64_t present = places[i].load(std::memory_order_relaxed) >> kDeviceBits;
    if (present == handle || (present == 0 && chosen == nullptr)) chosen = &places[i];
  }
  if (chosen == nullptr) chosen = &places[victim_.fetch_add(1, std::memory_order_relaxed) % kPlaces];
  chosen->store(handle << kDeviceBits | static_cast<std::uint64_t>(device - kUnknown), std::memory_order_relaxed);
}

void note_pool_device(CUmemoryPool pool, int device) {
  Process* process = process_if_recording();
  if (process == nullptr) return;
  meter_of(*process).note_pool();
  pool_places_of(*process).set(pool, device < 0 ? PoolPlaces::kNone : device);
}

int ask_pool_device(CUmemoryPool pool, CUdeviceptr memory) {
  int device = PoolPlaces::kUnknown;
  record_on_own_stack([&](Process& process) {
    // Inside a callback of CUPTI no call is made.
    if ((process.mode.load(std::memory_order_relaxed) & (kModeExiting | kModeOff)) != 0 ||
        process.dump.header()->attached == format::Attached::kCupti || !driver_ready())
      return;
    const RelaxedCapture relaxed;
    unsigned type = 0, managed = 0;
    int ordinal = PoolPlaces::kUnknown;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* values[] = {&type, &managed, &ordinal};
    if (driver().cuPointerGetAttributes(3, attributes, values, memory) != CUDA_SUCCESS || type == 0) return;
    device = type == CU_MEMORYTYPE_HOST || managed != 0 ? PoolPlaces::kNone : ordinal;
    pool_places_of(process).set(pool, device);
  });
  return device;
}

}  // namespace culprit
