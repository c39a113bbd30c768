// libcuda keeps copies of every live handle in the malloc heap of the process, so a handle there proves nothing. Module
// data (.data, .bss) holds no such copies: a handle there is the value of a global or static variable, or of a member
// of one.
//
// Handles that are still missing are then searched for in the heap: see heap_search.h; and pointers into the middle of
// that memory at last, see middle_search.h. Of thread-local variables those of the main thread are searched. Not
// searched: stacks, thread-local variables of other threads, and of libraries that thread_local_data.h does not
// understand.
#include "interpose/causes/holder_search.h"

#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/base/store_release.h"
#include "interpose/causes/heap_search.h"
#include "interpose/causes/live_handles.h"
#include "interpose/causes/memory_scan.h"
#include "interpose/causes/middle_search.h"
#include "interpose/causes/process_facts.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/raw_calls.h"

namespace culprit {

using format::HolderRecord;
using format::Ref;

namespace {

// Of a search that takes no longer than the option says, globals alone may take less than a half.
std::uint64_t longest_ns(const Process& process) { return longest_search_ns(process.options) * 9 / 20; }

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
    if (begins_with(name, prefix)) return true;
  }
  return false;
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
  RangeList holders;  // in which a handle counts as held
  RangeList driver;
  bool has_program;
  ThreadLocals thread_locals;  // of this thread, if it is the main one

  void add(const struct dl_phdr_info& module) {
    const char* name = file_name(module.dlpi_name);
    if (begins_with_one_of(kDriverLibraries, name)) driver.add(module);
    if (may_hold_handles(name)) holders.add(module);
    if ((!has_program || may_hold_handles(name)) && is_main_thread()) add_thread_local(module);
    has_program = true;
  }

  void add_thread_local(const struct dl_phdr_info& module) {
    const ThreadLocalData data = thread_local_data_of(module, !has_program);
    if (data.range.begin == data.range.end || in_own_module(data.module)) return;
    if (thread_locals.count < ThreadLocals::kCapacity) thread_locals.list[thread_locals.count++] = data;
  }

  // At the end of the list.
  void add_thread_locals_to_holders() {
    if (RangeList::kCapacity - holders.count < thread_locals.count) thread_locals.count = 0;
    for (int i = 0; i < thread_locals.count; ++i) holders.list[holders.count++] = thread_locals.list[i].range;
  }
};

struct Search {
  Process& process;
  HandleSet handles;
  const Ranges* all;
  const RangeList* ranges;
  int range;            // the range of the last found handle
  std::uint64_t place;  // of its begin: module and offset
  std::uint64_t flags;  // of the places that are multiples of 8

  static void found(void* context, Ref allocation, std::uint32_t state, std::uint64_t address) {
    static_cast<Search*>(context)->write(allocation, state, address);
  }

  void write(Ref allocation, std::uint32_t state, std::uint64_t address) {
    if (const ThreadLocalData* own = all->thread_locals.find(address)) {
      write_record(allocation, state, thread_local_place(process, *own, address));
      return;
    }
    // The ranges are searched in order, so that one look-up serves all handles in it.
    while (range < 0 || address < ranges->list[range].begin || address >= ranges->list[range].end) {
      if (++range == ranges->count) return;
      place = process.stacks.modules.frame_of(ranges->list[range].begin);
    }
    write_record(allocation, state, place + (address - ranges->list[range].begin));
  }

  void write_record(Ref allocation, std::uint32_t state, std::uint64_t where) {
    Ref ref = process.dump.allocate_records(format::ChunkType::kHolders, 1, nullptr);
    if (ref == 0) return;
    auto* record = process.dump.at<HolderRecord>(ref);
    record->allocation = allocation;
    record->place = where | (where % sizeof(std::uint64_t) == 0 ? flags : 0);
    // The state when the handle was read: it differs if the record was reused since.
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
  }
};

ScanResult search_middles_too(Search& search, const Ranges& ranges, std::uint64_t* bytes) {
  const std::uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + longest_ns(search.process);
  search.flags = format::kHolderMiddle;
  search.range = -1;
  const ScanResult result = search_middles(search.process, search.handles, ranges.holders.list, ranges.holders.count,
                                           deadline_ns, Search::found, &search);
  *bytes += result.bytes_read;
  return result;
}

format::HolderSearch search_ranges(Search& search, Ranges* ranges, std::uint64_t start_ns, std::uint64_t* bytes) {
  // First list the ranges, then read them: so dlopen in other threads need not wait for the reading.
  any_loaded_module([&](const struct dl_phdr_info& module) {
    ranges->add(module);
    return false;
  });
  ranges->add_thread_locals_to_holders();
  search.process.stacks.modules.refresh(search.process.dump);
  search.all = ranges;
  search.ranges = &ranges->holders;
  ScanResult result = scan_memory(search.handles, ranges->holders.list, ranges->holders.count,
                                  start_ns + longest_ns(search.process), Search::found, &search);
  *bytes = result.bytes_read;
  // Python's objects refer to one another by the million, most of them in memory that is not malloc's. A view from
  // inside the interpreter names them.
  if (result.end == format::HolderSearch::kDone && !has_python(search.process)) {
    const HeapRoots roots = {ranges->holders.list, ranges->holders.count, ranges->thread_locals, ranges->driver.list,
                             ranges->driver.count};
    search.process.dump.header()->heap_search =
        search_heap(search.process, search.handles, roots, start_ns + longest_search_ns(search.process.options), bytes);
  }
  if (result.end == format::HolderSearch::kDone) result = search_middles_too(search, *ranges, bytes);
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
  Search search = {process, {}, nullptr, nullptr, -1, 0, 0};
  std::uint64_t bytes = 0;
  format::HolderSearch end = run(search, start, &bytes);
  search.handles.release();
  header->holder_search_bytes = bytes;
  header->holder_search_ns = clock_ns(CLOCK_MONOTONIC) - start;
  store_release(&header->holder_search, end);
}

}  // namespace culprit
