// libcuda keeps copies of every live handle in the malloc heap of the process, so a handle there proves nothing. Module
// data (.data, .bss) holds no such copies: a handle there is the value of a global or static variable, or of a member
// of one. Only whole handles are searched for, not pointers into the middle.
//
// Not searched: thread-local variables, heap and stacks.
#include "interpose/causes/holder_search.h"

#include <cstring>

#include "interpose/base/loader_modules.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/own_module.h"
#include "interpose/base/store_release.h"
#include "interpose/causes/memory_scan.h"
#include "interpose/process/process.h"

namespace culprit {

using format::AllocationRecord;
using format::AllocationState;
using format::HolderRecord;
using format::Kind;
using format::Ref;

namespace {

constexpr std::uint64_t kLongestNs = 900'000'000;

// Beginnings of file names. NVIDIA's (tests use a driver of the same name), then libraries that every program has.
constexpr const char* kNoHolders[] = {
    "libcuda.so",  "libcudart",       "libcublas",    "libnvblas",     "libcudnn",     "libcufft",    "libcusparse",
    "libcusolver", "libcurand",       "libcutensor",  "libnpp",        "libnvjpeg",    "libnccl",     "libnvshmem",
    "libnvinfer",  "libnvonnx",       "libnvrtc",     "libnvJitLink",  "libcufile",    "libcupti",    "libnvperf_",
    "libnvoptix",  "libcudadebugger", "libnvidia-",   "libnvToolsExt", "libnvtx",      "libnvfatbin", "libnvvm",
    "libcudss",    "libcusparseLt",   "ld-linux",     "libc.so",       "libc-2",       "libm.so",     "libpthread",
    "libdl.so",    "librt.so",        "libstdc++.so", "libgcc_s.so",   "libresolv.so", "libutil.so",
};

// The writable parts of the searched modules, in load order: the program comes first.
struct Ranges {
  static constexpr int kCapacity = 8192;
  int count;
  MemoryRange list[kCapacity];

  void add(const struct dl_phdr_info& module) {
    if (!may_hold_handles(module.dlpi_name != nullptr ? module.dlpi_name : "")) return;
    for_each_data_range(module, [this](std::uint64_t begin, std::uint64_t end) {
      if (!in_own_module(begin) && count < kCapacity) list[count++] = {begin, end};
    });
  }
};

bool is_live(const AllocationRecord& record) {
  auto state = static_cast<AllocationState>(record.state & ((1U << format::kStateBits) - 1));
  return state == AllocationState::kLive;
}

struct Search {
  Process& process;
  HandleSet handles;
  const Ranges* ranges;
  int range;            // the range of the last found handle
  std::uint64_t place;  // of its begin: module and offset

  // Calls visit(handle, record) for live memory: a `handle` found in data means that `record` is held.
  template <typename Visit>
  void for_each_handle(Visit visit) {
    process.dump.for_each_record<AllocationRecord>(
        format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
          // Physical memory may have no handle any more; a holder of its mapped address can still free it.
          if (!is_live(record) || !is_memory(record.kind) || (record.flags & format::kFlagHandleReleased) != 0) return;
          bool mapping = record.kind == Kind::kVmmMapping && record.physical != 0;
          visit(record.handle, mapping ? *process.dump.at<AllocationRecord>(record.physical) : record);
        });
  }

  bool collect() {
    std::uint64_t count = 0;
    for_each_handle([&](std::uint64_t, const AllocationRecord&) { ++count; });
    if (count == 0) return true;
    if (!handles.reserve(count)) return false;
    const auto* base = reinterpret_cast<const unsigned char*>(process.dump.header());
    for_each_handle([&](std::uint64_t handle, const AllocationRecord& record) {
      std::uint32_t state = __atomic_load_n(&record.state, __ATOMIC_ACQUIRE);
      if (!is_live(record)) return;
      auto offset = static_cast<std::uint64_t>(reinterpret_cast<const unsigned char*>(&record) - base);
      handles.add(handle, static_cast<Ref>(offset / format::kRefUnit), state);
    });
    return true;
  }

  static void found(void* context, Ref allocation, std::uint32_t state, std::uint64_t address) {
    static_cast<Search*>(context)->write(allocation, state, address);
  }

  void write(Ref allocation, std::uint32_t state, std::uint64_t address) {
    // The ranges are searched in order, so that one look-up serves all handles in it.
    while (range < 0 || address < ranges->list[range].begin || address >= ranges->list[range].end) {
      if (++range == ranges->count) return;
      place = process.stacks.modules.frame_of(ranges->list[range].begin);
    }
    Ref ref = process.dump.allocate_records(format::ChunkType::kHolders, 1, nullptr);
    if (ref == 0) return;
    auto* record = process.dump.at<HolderRecord>(ref);
    record->allocation = allocation;
    record->place = place + (address - ranges->list[range].begin);
    // The state when the handle was read: it differs if the record was reused since.
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
  }
};

format::HolderSearch run(Search& search, std::uint64_t start_ns, std::uint64_t* bytes) {
  if (!search.collect()) return format::HolderSearch::kStopped;
  if (search.handles.size() == 0) return format::HolderSearch::kDone;
  int error = 0;
  auto* ranges = static_cast<Ranges*>(map_private(sizeof(Ranges), &error));
  if (ranges == nullptr) return format::HolderSearch::kStopped;
  // First list the ranges, then read them: so dlopen in other threads need not wait for the reading.
  any_loaded_module([&](const struct dl_phdr_info& module) {
    ranges->add(module);
    return false;
  });
  search.process.stacks.modules.refresh(search.process.dump);
  search.ranges = ranges;
  ScanResult result =
      scan_memory(search.handles, ranges->list, ranges->count, start_ns + kLongestNs, Search::found, &search);
  unmap_private(ranges, sizeof(Ranges));
  *bytes = result.bytes_read;
  return search.process.dump.stopped() ? format::HolderSearch::kStopped : result.end;
}

}  // namespace

bool may_hold_handles(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  for (const char* prefix : kNoHolders) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return false;
  }
  return true;
}

void search_holders(Process& process) {
  format::Header* header = process.dump.header();
  if (!process.options.search_holders) {
    header->holder_search = format::HolderSearch::kOff;
    return;
  }
  std::uint64_t start = clock_ns(CLOCK_MONOTONIC);
  Search search = {process, {}, nullptr, -1, 0};
  std::uint64_t bytes = 0;
  format::HolderSearch end = run(search, start, &bytes);
  search.handles.release();
  header->holder_search_bytes = bytes;
  header->holder_search_ns = clock_ns(CLOCK_MONOTONIC) - start;
  store_release(&header->holder_search, end);
}

}  // namespace culprit
