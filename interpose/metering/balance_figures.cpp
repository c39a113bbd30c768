#include "interpose/metering/balance_figures.h"

#include "interpose/driver/driver.h"
#include "interpose/format/live_memory.h"
#include "interpose/process/process.h"

namespace culprit {

using format::AllocationRecord;
using format::BalanceRecord;
using format::Kind;

namespace {

// The driver may not be called while the table is walked: the handles are copied first.
void read_custom_pools(Process& process, BalanceRecord* balance) {
  constexpr int kMost = 64;
  CUmemoryPool pools[kMost];
  int count = 0;
  process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (is_live_now(record) && record.kind == Kind::kMemoryPool && record.device == balance->device && count < kMost)
      pools[count++] = reinterpret_cast<CUmemoryPool>(record.handle);
  });
  for (int i = 0; i < count; ++i) read_pool(pools[i], &balance->custom_reserved, &balance->custom_used);
}

}  // namespace

void add_up_live(Process& process, BalanceRecord* balance) {
  LiveMemory live;
  process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (is_live_now(record) && record.device == balance->device) live.add(record);
  });
  live.write(balance);
}

bool read_pool(CUmemoryPool pool, std::uint64_t* reserved, std::uint64_t* used) {
  cuuint64_t now_reserved = 0, now_used = 0;
  if (driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &now_reserved) != CUDA_SUCCESS ||
      driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &now_used) != CUDA_SUCCESS)
    return false;
  *reserved += now_reserved;
  *used += now_used;
  return true;
}

bool read_graph_reserved(std::uint8_t device, std::uint64_t* bytes) {
  cuuint64_t reserved = 0;
  if (driver().cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS)
    return false;
  *bytes = reserved;
  return true;
}

void read_pools(Process& process, BalanceRecord* balance) {
  CUmemoryPool pool = nullptr;
  if (driver().cuDeviceGetDefaultMemPool(&pool, balance->device) == CUDA_SUCCESS && pool != nullptr &&
      read_pool(pool, &balance->default_reserved, &balance->default_used))
    balance->flags |= format::kBalancePools;
  // Pools of a driver that was unloaded are no pools of this one.
  if (!has_several_lives()) read_custom_pools(process, balance);
  cuuint64_t used = 0;
  std::uint64_t reserved = 0;
  if (read_graph_reserved(balance->device, &reserved) &&
      driver().cuDeviceGetGraphMemAttribute(balance->device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) ==
          CUDA_SUCCESS) {
    balance->graph_reserved = reserved;
    balance->graph_used = used;
    balance->flags |= format::kBalanceGraphs;
  }
}

void read_limits(BalanceRecord* balance) {
  std::size_t stack = 0, fifo = 0, heap = 0;
  int multiprocessors = 0, threads = 0;
  if (driver().cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE) != CUDA_SUCCESS ||
      driver().cuCtxGetLimit(&fifo, CU_LIMIT_PRINTF_FIFO_SIZE) != CUDA_SUCCESS ||
      driver().cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE) != CUDA_SUCCESS ||
      driver().cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, balance->device) !=
          CUDA_SUCCESS ||
      driver().cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, balance->device) !=
          CUDA_SUCCESS)
    return;
  balance->stack_limit = stack;
  balance->printf_limit = fifo;
  balance->heap_limit = heap;
  balance->multiprocessors = static_cast<std::uint32_t>(multiprocessors);
  balance->threads = static_cast<std::uint32_t>(threads);
  balance->flags |= format::kBalanceLimits;
}

}  // namespace culprit
