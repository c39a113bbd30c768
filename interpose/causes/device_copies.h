// Reads the memory of devices, at exit or while all threads of the program are stopped, without ever waiting for work
// that does not end.
//
// Every stream has to be idle first, which is asked and not waited for: work that goes on may hold pointers in the
// arguments of its kernels, too. Then the driver copies, and is asked whether it is done.
//
// In a program that runs, the copies are on a stream of our own that does not block. Any command on the default stream
// would make work of two other streams that begins after it wait for work that began before it, which may wait for
// just that. At exit they are on the default stream: a stream of our own takes memory of the device, which the balance
// would count.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/causes/gpu_blocks.h"

namespace culprit {

// Call on the tracker's own stack, inside a Recording, while a DriverUse exists. Not thread-safe.
class DeviceCopies {
 public:
  enum class When { kAtExit, kInRunningProgram };
  DeviceCopies(Process& process, When when, std::uint64_t deadline_ns)
      : process_(process), when_(when), deadline_ns_(deadline_ns) {}
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
  bool is_idle_with_default_streams_of_threads();
  template <typename Query>
  bool wait(Query query) const;
  bool use(CUcontext context);
  void close();

  Process& process_;
  const When when_;
  std::uint64_t deadline_ns_;
  CUcontext context_ = nullptr;  // of the stream
  CUstream stream_ = nullptr;
  bool stuck_ = false;
};

}  // namespace culprit
