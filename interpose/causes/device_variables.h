// The variables of all device code that runs in this process: pointers in them refer to memory as those of other memory
// of the GPU do.
//
// Private memory of its own, never malloc. Not thread-safe. On the tracker's own stack only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/device_code/loaded_code.h"

namespace culprit {

struct Process;

struct DeviceVariable {
  CUcontext context;
  std::uint64_t begin;
  std::uint64_t bytes;
};

class DeviceVariables {
 public:
  // Reads their names, from `budget` bytes of images at most. Returns false when not all are known: then no memory can
  // be called lost.
  bool collect(Process& process, std::uint64_t budget);
  // Asks the driver for their addresses, inside a Recording, while a DriverUse exists. Returns false when it does not
  // know one.
  bool find();
  void close();

  std::uint32_t size() const { return count_; }
  const DeviceVariable& operator[](std::uint32_t number) const { return list_[number]; }

  static constexpr std::uint64_t kMostBytes = 256 << 20;  // of all variables

 private:
  // Code in a context, and its names: a part of `names_`.
  struct Code {
    CUcontext context;
    std::uint64_t handle;
    bool is_library;
    bool several;  // the names are those of several images, of which the driver has loaded one
    std::uint32_t first;
    std::uint32_t count;
  };
  static constexpr std::uint32_t kMostCode = 4096;
  static constexpr std::uint32_t kMost = 65536;

  bool add_code(Process& process, std::uint64_t handle, bool is_library, CUcontext context);
  bool add_contexts(Process& process, Code code);
  bool find_of(const Code& code);

  Architectures architectures_ = {};
  std::uint64_t budget_ = 0;
  VariableNames* names_ = nullptr;
  Code* code_ = nullptr;
  std::uint32_t code_count_ = 0;
  DeviceVariable* list_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace culprit
