#include "interpose/causes/device_copies.h"

#include "interpose/driver/driver.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

using format::AllocationRecord;
using format::ContextRecord;

constexpr std::uint32_t kPauseMicroseconds = 50;

}  // namespace

// Asks until the answer is another one than "not ready".
template <typename Query>
bool DeviceCopies::wait(Query query) const {
  for (;;) {
    const CUresult status = query();
    if (status != CUDA_ERROR_NOT_READY) return status == CUDA_SUCCESS;
    if (clock_ns(CLOCK_MONOTONIC) > deadline_ns_) return false;
    sleep_microseconds(kPauseMicroseconds);
  }
}

bool DeviceCopies::is_idle(CUcontext context, std::uint32_t index) {
  const PushedContext pushed(context);
  if (!pushed.done() || !wait([] { return driver().cuStreamQuery(CU_STREAM_LEGACY); })) return false;
  bool idle = true;
  process_.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (!idle || record.kind != format::Kind::kStream || record.context != index || !is_live_now(record)) return;
    const auto stream = reinterpret_cast<CUstream>(record.handle);
    idle = wait([&] { return driver().cuStreamQuery(stream); });
  });
  return idle &&
         (!device_use_of(process_).uses_default_streams_of_threads() || is_idle_with_default_streams_of_threads());
}

// Each thread can ask for its own only. An event on the legacy stream waits for all of them.
bool DeviceCopies::is_idle_with_default_streams_of_threads() {
  CUevent event = nullptr;
  if (when_ == When::kInRunningProgram || driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  const bool idle = driver().cuEventRecord(event, CU_STREAM_LEGACY) == CUDA_SUCCESS &&
                    wait([&] { return driver().cuEventQuery(event); });
  driver().cuEventDestroy_v2(event);
  return idle;
}

bool DeviceCopies::all_idle() {
  if (has_captures(process_)) return false;
  bool idle = true;
  std::uint32_t index = 0;
  process_.dump.for_each_record<ContextRecord>(format::ChunkType::kContexts, [&](const ContextRecord& record) {
    if (record.state == format::ContextState::kAlive && idle)
      idle = is_idle(reinterpret_cast<CUcontext>(record.handle), index);
    ++index;
  });
  return idle;
}

bool DeviceCopies::use(CUcontext context) {
  if (stream_ != nullptr && context_ == context) return true;
  if (when_ == When::kAtExit) {
    context_ = context;
    stream_ = CU_STREAM_LEGACY;
    return true;
  }
  close();
  context_ = context;
  const PushedContext pushed(context_);
  if (pushed.done() && driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) return true;
  stream_ = nullptr;
  return false;
}

bool DeviceCopies::read(const GpuBlock& block, std::uint64_t offset, std::uint64_t bytes, void* to) {
  return read(process_.tables.contexts.any_context_on(block.device), block.begin + offset, bytes, to);
}

bool DeviceCopies::read(CUcontext context, std::uint64_t address, std::uint64_t bytes, void* to) {
  if (stuck_ || clock_ns(CLOCK_MONOTONIC) > deadline_ns_ || !use(context)) return false;
  const PushedContext pushed(context_);
  if (!pushed.done() || driver().cuMemcpyDtoHAsync_v2(to, address, bytes, stream_) != CUDA_SUCCESS) return false;
  stuck_ = !wait([&] { return driver().cuStreamQuery(stream_); });
  return !stuck_;
}

void DeviceCopies::close() {
  if (stream_ == nullptr || stuck_ || when_ == When::kAtExit) return;
  const PushedContext pushed(context_);
  if (pushed.done()) driver().cuStreamDestroy_v2(stream_);
  stream_ = nullptr;
}

}  // namespace culprit
