// libcuda keeps copies of every live handle in the malloc heap of the process, so a handle there proves nothing. Module
// data (.data, .bss) holds no such copies: a handle there is the value of a global or static variable, or of a member
// of one.
//
// Handles that are still missing are then searched for in the heap: see heap_search.h; and pointers into the middle of
// that memory at last, see middle_search.h. Of thread-local variables those of the program itself are searched, in the
// main thread. Not searched: stacks, thread-local variables of libraries and of other threads.
#include "interpose/causes/holder_search.h"

#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/base/store_release.h"
#include "interpose/causes/heap_search.h"
#include "interpose/causes/live_handles.h"
#include "interpose/causes/memory_scan.h"
#include "interpose/causes/middle_search.h"
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
  MemoryRange thread_local_data;      // of the program, in this thread; empty: none, or not known
  std::uint64_t thread_local_module;  // an address of the program's data

  void add(const struct dl_phdr_info& module) {
    const char* name = file_name(module.dlpi_name);
    if (begins_with_one_of(kDriverLibraries, name)) driver.add(module);
    if (may_hold_handles(name)) holders.add(module);
    if (!has_program) add_thread_local(module);
    has_program = true;
  }

  bool has_thread_local() const { return thread_local_data.begin != thread_local_data.end; }

  // The loader gives the program's own segment the place below the thread's control block (the ABI's variant II).
  void add_thread_local(const struct dl_phdr_info& module) {
    for (int i = 0; i < module.dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = module.dlpi_phdr[i];
      const std::uint64_t alignment = header.p_align == 0 ? 1 : header.p_align;
      if (header.p_type != PT_TLS || header.p_vaddr % alignment != 0 || !is_main_thread()) continue;
#if defined(__x86_64__)
      const auto control_block = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
      const std::uint64_t begin = control_block - (header.p_memsz + alignment - 1) / alignment * alignment;
      if (begin % sizeof(std::uint64_t) != 0 || begin > control_block) continue;
      thread_local_data = {begin, begin + header.p_memsz / sizeof(std::uint64_t) * sizeof(std::uint64_t)};
      thread_local_module = module.dlpi_addr + header.p_vaddr;
#endif
    }
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
    const MemoryRange& own = all->thread_local_data;
    if (address >= own.begin && address < own.end) {
      write_record(allocation, state, thread_local_place(process, all->thread_local_module, address - own.begin));
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
  // The last one of the list.
  if (ranges->holders.count == RangeList::kCapacity) ranges->thread_local_data = {};
  if (ranges->has_thread_local()) ranges->holders.list[ranges->holders.count++] = ranges->thread_local_data;
  search.process.stacks.modules.refresh(search.process.dump);
  search.all = ranges;
  search.ranges = &ranges->holders;
  ScanResult result = scan_memory(search.handles, ranges->holders.list, ranges->holders.count,
                                  start_ns + longest_ns(search.process), Search::found, &search);
  *bytes = result.bytes_read;
  // Python's objects refer to one another by the million, most of them in memory that is not malloc's. A view from
  // inside the interpreter names them.
  const bool python = search.process.dump.header()->python_version != 0;
  if (result.end == format::HolderSearch::kDone && !python) {
    const HeapRoots roots = {ranges->holders.list, ranges->holders.count,
                             ranges->has_thread_local() ? ranges->thread_local_module : 0, ranges->driver.list,
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
