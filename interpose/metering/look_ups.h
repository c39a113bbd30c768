// Look-ups and launches of code that were made before. With lazy loading (CUDA_MODULE_LOADING) the driver loads code
// when a part of it is first asked for, and local memory and the like come with a kernel's first launch. The same call
// again takes no memory.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "interpose/base/hash.h"
#include "interpose/driver/api.h"
#include "interpose/metering/readable_text.h"

namespace culprit {

inline std::uint64_t with_handle(std::uint64_t key, const void* handle) {
  return mix(key ^ reinterpret_cast<std::uint64_t>(handle));
}

// A key with one more argument of a look-up: handles of code and names count; results, sizes and options do not.
template <typename T>
std::uint64_t with_argument(std::uint64_t key, const T& /*argument*/) {
  return key;
}
inline std::uint64_t with_argument(std::uint64_t key, CUmodule module) { return with_handle(key, module); }
inline std::uint64_t with_argument(std::uint64_t key, CUlibrary library) { return with_handle(key, library); }
inline std::uint64_t with_argument(std::uint64_t key, CUkernel kernel) { return with_handle(key, kernel); }
inline std::uint64_t with_argument(std::uint64_t key, CUfunction function) { return with_handle(key, function); }
inline std::uint64_t with_argument(std::uint64_t key, const char* name) {
  return name == nullptr ? key : hash_bytes(name, readable_length(name), key);
}

template <typename... Arguments>
std::uint64_t look_up_key(Api api, Arguments... arguments) {
  std::uint64_t key = static_cast<std::uint64_t>(api) + 1;
  ((key = with_argument(key, arguments)), ...);
  return key;
}

// The last of the arguments of a call that has this type; nullptr: there is none.
template <typename Wanted, typename... Arguments>
Wanted argument_of(Arguments... arguments) {
  Wanted wanted = nullptr;
  const auto look = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), Wanted>) wanted = argument;
  };
  (look(arguments), ...);
  return wanted;
}

// Whether a launch is on the default stream of its thread: by its function, or by its stream.
template <typename... Arguments>
bool is_on_thread_stream(Api api, Arguments... arguments) {
  bool on_it = api == Api::cuLaunchKernel_ptsz || api == Api::cuLaunchKernelEx_ptsz ||
               api == Api::cuLaunchCooperativeKernel_ptsz;
  const auto look = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), CUstream>) on_it = on_it || argument == CU_STREAM_PER_THREAD;
    if constexpr (std::is_same_v<decltype(argument), const CUlaunchConfig*>)
      on_it = on_it || (argument != nullptr && argument->hStream == CU_STREAM_PER_THREAD);
  };
  (look(arguments), ...);
  return on_it;
}

// The handle of code that a look-up with this result wrote to one of its arguments; nullptr: none.
template <typename... Arguments>
const void* looked_up_kernel(CUresult status, Arguments... arguments) {
  const void* kernel = nullptr;
  if (status != CUDA_SUCCESS) return kernel;
  const auto look = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), CUfunction*> || std::is_same_v<decltype(argument), CUkernel*>)
      kernel = argument == nullptr ? nullptr : *argument;
  };
  (look(arguments), ...);
  return kernel;
}

// cuLibraryEnumerateKernels: they may be none.
inline const void* looked_up_kernel(CUresult, CUkernel*, unsigned, CUlibrary) { return nullptr; }

// Thread- and signal-safe. A call that was forgotten is measured once more; nothing else depends on it.
class LookUps {
 public:
  // The key of a look-up in a context, until forget() is called. No key is 0.
  std::uint64_t in_context(std::uint64_t key, CUcontext context) const {
    return with_generation(with_handle(key, context), generation_.load(std::memory_order_relaxed) % kLast + 1);
  }
  // Keys of launches last until they are removed.
  static std::uint64_t of_launch(const void* kernel, CUcontext context) {
    return with_generation(with_handle(with_handle(1, kernel), context), 0);
  }
  static std::uint64_t of_launch(CUgraphExec exec) { return with_generation(with_handle(2, exec), 0); }

  bool contains(std::uint64_t key) const {
    for (const std::atomic<std::uint64_t>& place : keys_[bucket_of(key)]) {
      if (place.load(std::memory_order_relaxed) == key) return true;
    }
    return false;
  }
  void add(std::uint64_t key) {
    std::atomic<std::uint64_t>* places = keys_[bucket_of(key)];
    std::atomic<std::uint64_t>* chosen = nullptr;
    for (int i = 0; i < kPlaces; ++i) {
      if (is_free(places[i].load(std::memory_order_relaxed))) chosen = &places[i];
    }
    // Never always the same one: two kernels that are launched in turn would replace each other for ever.
    if (chosen == nullptr) chosen = &places[victim_.fetch_add(1, std::memory_order_relaxed) % kPlaces];
    chosen->store(key, std::memory_order_relaxed);
  }
  void remove(std::uint64_t key) {
    for (std::atomic<std::uint64_t>& place : keys_[bucket_of(key)]) {
      std::uint64_t present = key;
      place.compare_exchange_strong(present, 0, std::memory_order_relaxed);
    }
  }
  // Code or a context ended: its handles may be given out again.
  void forget() { generation_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBuckets = 4096;
  static constexpr int kPlaces = 4;
  // The lower bits are the generation, 0 for launches.
  static constexpr int kGenerationBits = 16;
  static constexpr std::uint64_t kLast = (1U << kGenerationBits) - 1;

  static std::uint64_t with_generation(std::uint64_t hash, std::uint64_t generation) {
    return (hash | std::uint64_t{1} << kGenerationBits) >> kGenerationBits << kGenerationBits | generation;
  }
  bool is_free(std::uint64_t key) const {
    const std::uint64_t generation = key & kLast;
    return key == 0 || (generation != 0 && generation != generation_.load(std::memory_order_relaxed) % kLast + 1);
  }
  static std::size_t bucket_of(std::uint64_t key) { return (key >> (kGenerationBits + 1)) % kBuckets; }

  std::atomic<std::uint64_t> generation_;
  std::atomic<std::uint32_t> victim_;
  std::atomic<std::uint64_t> keys_[kBuckets][kPlaces];  // only pages that are used take memory
};

}  // namespace culprit
