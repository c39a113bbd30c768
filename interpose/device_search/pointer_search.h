// Runs the kernel that looks for pointers in the memory of a device (find_pointers.h), in a context of the program.
//
// Nothing stays: the module, the stream and the memory on the device are given back. At exit the default stream is
// used, as in device_copies.h, because another one takes memory that the balance would count. Should the kernel not
// have ended at the deadline, for instance because another process uses the GPU, they stay, since giving them back
// would wait.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/device_search/find_pointers.h"

namespace culprit {

// The memory to look through, and the targets. `memory` lies in the context, and a kernel of the context can read it.
struct PointerOrder {
  const SearchedMemory* memory;
  std::uint32_t memory_count;
  const TargetRange* targets;
  std::uint32_t target_count;
  const HostRange* hosts;
  std::uint32_t host_count;
};

class PointerSearch {
 public:
  // Whether this library has a kernel.
  static bool is_there();

  // On the tracker's own stack, while a DriverUse exists and all streams of the context are idle. Returns false if not
  // all memory was looked through until the deadline (CLOCK_MONOTONIC), or the driver refuses.
  bool run(CUcontext context, const PointerOrder& order, bool at_exit, std::uint64_t deadline_ns);
  void close();

  // The entries of find_pointers.h, in no order.
  const std::uint64_t* begin() const { return list_; }
  const std::uint64_t* end() const { return list_ + count_; }

 private:
  // Where each part lies in the memory on the device, in bytes.
  struct Layout;
  bool run_kernel(CUfunction kernel, const PointerOrder& order, const Layout& layout, std::uint64_t deadline_ns);
  bool prepare(const PointerOrder& order, const Layout& layout);
  bool search(CUfunction kernel, const SearchOrder& order, CUdeviceptr memory, const Layout& layout,
              std::uint64_t deadline_ns);
  bool wait(std::uint64_t deadline_ns);
  bool fetch(const SearchOrder& order);

  std::uint64_t* list_ = nullptr;
  std::uint64_t count_ = 0;
  unsigned char* input_ = nullptr;
  std::uint64_t input_bytes_ = 0;
  CUstream stream_ = nullptr;
  bool stuck_ = false;
};

}  // namespace culprit
