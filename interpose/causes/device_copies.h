// Reads the memory of devices at exit, without ever waiting for work that does not end.
//
// Every stream has to be idle first, which is asked and not waited for: work that goes on may hold pointers in the
// arguments of its kernels, too. Then the driver copies on a stream of our own, and is asked whether it is done.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/causes/gpu_blocks.h"

namespace culprit {

// Call on the tracker's own stack, inside a Recording, while a DriverUse exists. Not thread-safe.
class DeviceCopies {
 public:
  DeviceCopies(Process& process, std::uint64_t deadline_ns) : process_(process), deadline_ns_(deadline_ns) {}
  ~DeviceCopies() { close(); }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // Whether all known contexts and streams are idle. False also if one cannot be asked, or at the deadline.
  bool all_idle();

  static constexpr std::uint64_t kMostBytes = 1 << 20;  // of one copy

  // Copies a part of a block, or other memory of a context. Returns false when the driver refuses, or at the deadline;
  // then no other call succeeds: the driver may still write to `to`, which must stay mapped.
  bool read(const GpuBlock& block, std::uint64_t offset, std::uint64_t bytes, void* to);
  bool read(CUcontext context, std::uint64_t address, std::uint64_t bytes, void* to);
  // Whether a copy may still be going on.
  bool is_stuck() const { return stuck_; }

 private:
  bool is_idle(CUcontext context, std::uint32_t index);
  template <typename Query>
  bool wait(Query query) const;
  bool use(CUcontext context);
  void close();

  Process& process_;
  std::uint64_t deadline_ns_;
  CUcontext context_ = nullptr;  // of the stream
  CUstream stream_ = nullptr;
  bool stuck_ = false;
};

}  // namespace culprit
