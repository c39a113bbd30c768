#include "interpose/metering/device_use.h"

#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {

void DeviceUse::begin_making(Process& process, std::uint8_t ordinal) {
  if ((process.mode.load(std::memory_order_relaxed) & kModeExiting) != 0) return;
  format::DeviceRecord* device = process.tables.contexts.known_device(ordinal, process.dump);
  if (device == nullptr || last_made_.exchange(ordinal + 1U, std::memory_order_relaxed) == ordinal + 1U) return;
  __atomic_fetch_add(&device->made_stretches, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&device->last_made, order_.fetch_add(1, std::memory_order_relaxed) + 1, __ATOMIC_RELAXED);
}

// Two threads that launch on two devices come here each time: soon it is known that both devices are in use.
void DeviceUse::begin_launches(CUcontext context) {
  constexpr std::uint32_t kEnough = 256;
  if (context == nullptr || launch_stretches_.load(std::memory_order_relaxed) >= kEnough) return;
  last_launch_.store(context, std::memory_order_relaxed);
  launch_stretches_.fetch_add(1, std::memory_order_relaxed);
  record_on_own_stack([&](Process& recording) {
    const Place place = recording.tables.contexts.of_handle(context, now_ns(recording), recording.dump);
    if (format::DeviceRecord* device = recording.tables.contexts.known_device(place.device, recording.dump))
      __atomic_fetch_add(&device->launch_stretches, 1, __ATOMIC_RELAXED);
  });
}

void DeviceUse::note_code(CUcontext context) {
  for (std::atomic<CUcontext>& place : code_contexts_) {
    CUcontext present = place.load(std::memory_order_relaxed);
    if (present == nullptr && context != nullptr)
      place.compare_exchange_strong(present, context, std::memory_order_relaxed);
    if (place.load(std::memory_order_relaxed) == context && context != nullptr) return;
  }
  misses_contexts_.store(true, std::memory_order_relaxed);
}

}  // namespace culprit
