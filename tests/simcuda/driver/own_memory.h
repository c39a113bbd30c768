// The memory that the driver takes for itself: contexts, modules, local memory, the printf FIFO, the device heap,
// streams, executable graphs, and the rest of its blocks of 2 MiB. Taken only with SIMCUDA_OWN_MEMORY=1, in the amounts
// that were measured on an H200 with driver 580.
//
// A kernel tells by its name what it needs: "local_16384" in it means 16,384 bytes of local memory a thread, "printf"
// the FIFO, "heap" the device heap.
#pragma once

#include <cstddef>
#include <string>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

constexpr std::size_t kMultiprocessorCount = 132;
constexpr std::size_t kThreadsPerMultiprocessor = 2048;
constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

OwnMemory read_own_memory();  // from the environment

// Each takes memory of the device, and returns CUDA_ERROR_OUT_OF_MEMORY when there is none.
CUresult take_context(DriverState& state, Context& context);
CUresult take_module(DriverState& state, Context& context, std::size_t* taken);
CUresult take_stream(DriverState& state, Context& context);
CUresult take_graph(DriverState& state, Device& device, std::size_t bytes);
CUresult take_for_limit(DriverState& state, Context& context, CUlimit limit, std::size_t value);
CUresult take_for_kernel(DriverState& state, Context& context, const std::string& name);
std::size_t limit_of(const Context& context, CUlimit limit);
// The local memory that a kernel's name asks for.
std::size_t local_bytes_of(const std::string& name);

// The driver keeps what ended streams and graphs took, and uses it for the next ones.
void return_stream(DriverState& state, Context& context);
void return_graph(Device& device, std::size_t bytes);
void return_bytes(Device& device, std::size_t bytes);
// The context ended: its memory goes back to the device. With the last one the streams' and graphs' goes, too.
void return_context(DriverState& state, Context& context);

// The bytes by which the blocks of cuMemAlloc grow when an allocation comes (or, with `back`, shrink when it goes).
std::size_t block_bytes(const DriverState& state, Device& device, std::size_t bytes, bool back);

}  // namespace simcuda
