// libcuda keeps copies of every live handle in the malloc heap of the process, so a handle there proves nothing. Module
// data (.data, .bss) holds no such copies: a handle there is the value of a global or static variable, or of a member
// of one. Only whole handles are searched for, not pointers into the middle.
//
// Handles that are still missing are then searched for in the heap: see heap_search.h. Not searched: thread-local
// variables, stacks.
#include "interpose/causes/holder_search.h"

#include <cstring>

#include "interpose/base/own_module.h"
#include "interpose/base/store_release.h"
#include "interpose/causes/heap_search.h"
#include "interpose/causes/live_handles.h"
#include "interpose/causes/memory_scan.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::HolderRecord;
using format::Ref;

namespace {

constexpr std::uint64_t kLongestNs = 900'000'000;
constexpr std::uint64_t kLongestWithHeapNs = 2'000'000'000;

// Beginnings of file names. NVIDIA's: tests use a driver of the same name.
constexpr const char* kDriverLibraries[] = {
    "libcuda.so",    "libcudart",   "libcublas",   "libnvblas",   "libcudnn",        "libcufft",
    "libcusparse",   "libcusolver", "libcurand",   "libcutensor", "libnpp",          "libnvjpeg",
    "libnccl",       "libnvshmem",  "libnvinfer",  "libnvonnx",   "libnvrtc",        "libnvJitLink",
    "libcufile",     "libcupti",    "libnvperf_",  "libnvoptix",  "libcudadebugger", "libnvidia-",
    "libnvToolsExt", "libnvtx",     "libnvfatbin", "libnvvm",     "libcudss",        "libcusparseLt",
};
// Libraries that every program has.
constexpr const char* kSystemLibraries[] = {
    "ld-linux", "libc.so",      "libc-2",      "libm.so",      "libpthread", "libdl.so",
    "librt.so", "libstdc++.so", "libgcc_s.so", "libresolv.so", "libutil.so",
};

template <std::size_t kCount>
bool begins_with_one_of(const char* const (&prefixes)[kCount], const char* name) {
  for (const char* prefix : prefixes) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Writable parts of modules, in load order: the program comes first.
struct RangeList {
  static constexpr int kCapacity = 8192;
  int count;
  MemoryRange list[kCapacity];

  void add(const struct dl_phdr_info& module) {
    for_each_data_range(module, [this](std::uint64_t begin, std::uint64_t end) {
      if (!in_own_module(begin) && count < kCapacity) list[count++] = {begin, end};
    });
  }
};

struct Ranges {
  RangeList holders;       // in which a handle counts as held
  RangeList heap_holders;  // those of them whose pointers are followed
  RangeList driver;
  char program[4096];  // path

  void add(const struct dl_phdr_info& module) {
    const char* name = file_name(module.dlpi_name != nullptr ? module.dlpi_name : "");
    if (begins_with_one_of(kDriverLibraries, name)) driver.add(module);
    if (may_hold_handles(name)) holders.add(module);
  }
};

struct Search {
  Process& process;
  HandleSet handles;
  const RangeList* ranges;
  int range;            // the range of the last found handle
  std::uint64_t place;  // of its begin: module and offset

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

format::HolderSearch search_ranges(Search& search, Ranges* ranges, std::uint64_t start_ns, std::uint64_t* bytes) {
  // First list the ranges, then read them: so dlopen in other threads need not wait for the reading.
  any_loaded_module([&](const struct dl_phdr_info& module) {
    ranges->add(module);
    return false;
  });
  search.process.stacks.modules.refresh(search.process.dump);
  search.ranges = &ranges->holders;
  ScanResult result = scan_memory(search.handles, ranges->holders.list, ranges->holders.count, start_ns + kLongestNs,
                                  Search::found, &search);
  *bytes = result.bytes_read;
  // Python's objects refer to one another by the million, most of them in memory that is not malloc's. A view from
  // inside the interpreter names them.
  const bool python = search.process.dump.header()->python_version != 0;
  if (result.end == format::HolderSearch::kDone && !python) {
    const HeapRoots roots = {ranges->holders.list, ranges->holders.count, ranges->driver.list, ranges->driver.count};
    search.process.dump.header()->heap_search =
        search_heap(search.process, search.handles, roots, start_ns + kLongestWithHeapNs, bytes);
  }
  return result.end;
}

format::HolderSearch run(Search& search, std::uint64_t start_ns, std::uint64_t* bytes) {
  if (!collect_live_handles(search.process, &search.handles)) return format::HolderSearch::kStopped;
  if (search.handles.size() == 0) {
    search.process.dump.header()->heap_search = format::HeapSearch::kDone;
    return format::HolderSearch::kDone;
  }
  int error = 0;
  auto* ranges = static_cast<Ranges*>(map_private(sizeof(Ranges), &error));
  if (ranges == nullptr) return format::HolderSearch::kStopped;
  const format::HolderSearch end = search_ranges(search, ranges, start_ns, bytes);
  unmap_private(ranges, sizeof(Ranges));
  return search.process.dump.stopped() ? format::HolderSearch::kStopped : end;
}

}  // namespace

bool may_hold_handles(const char* path) {
  const char* name = file_name(path);
  return !begins_with_one_of(kDriverLibraries, name) && !begins_with_one_of(kSystemLibraries, name);
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
