// Cuts buffers out of one allocation and announces them to NVTX (nvToolsExtMem.h). The argument names the calls: see
// main().
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "interpose/include/culprit.h"
#include "tests/subjects/check.h"
#if __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtMemCudaRt.h>
#define HAS_NVTX_MEMORY 1
#endif

namespace {

// By culprit.h alone.
SUBJECT_FUNCTION void carve_by_header(char* begin, std::size_t bytes, const char* name) {
  culprit_region_add(begin, bytes, name);
}

void announce_by_header() {
  static char before[64];
  culprit_region_add(before, sizeof(before), "before CUDA");
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 1 << 20));
  char* pool = static_cast<char*>(pointer);
  carve_by_header(pool, 1001, "first");
  carve_by_header(pool + 4096, 2002, nullptr);
  carve_by_header(pool + 8192, 3003, "third");
  culprit_region_resize(pool, 1111);
  culprit_region_end(pool + 8192);
  culprit_region_end(pool + 8192);
  culprit_region_end(nullptr);
  culprit_region_add(nullptr, 1, nullptr);
}

char* kept;

struct View {
  char* data;
};
[[gnu::used]] View* view;
[[gnu::used]] char* cursor;

// Only pointers into the middle are left: through the heap to a region that begins with its allocation, as Views of
// Kokkos do, and from a global to one that lies in another region.
void keep_middles() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 1 << 20));
  char* pool = static_cast<char*>(pointer);
  carve_by_header(pool, 1001, "view");
  carve_by_header(pool + 4096, 2002, "lost");
  carve_by_header(pool + 8192, 9009, "arena");
  carve_by_header(pool + 8192 + 512, 3003, "in the arena");
  carve_by_header(pool + 8192 + 4096, 4004, "lost in the arena");
  view = new View{pool + 128};
  cursor = pool + 8192 + 600;
}

// No pointer to the pool or to its region is left.
void lose_pool() {
  void* pool = nullptr;
  CHECKED(cudaMalloc(&pool, 1 << 20));
  carve_by_header(static_cast<char*>(pool) + 4096, 1001, "lost");
}

void keep_one() {
  void* pool = nullptr;
  CHECKED(cudaMalloc(&pool, 1 << 20));
  kept = static_cast<char*>(pool) + 4096;
  carve_by_header(kept, 1001, "kept");
  carve_by_header(kept + 4096, 2002, "lost");
}

}  // namespace

#if HAS_NVTX_MEMORY

namespace {

constexpr std::size_t kPool = 1 << 20;
nvtxDomainHandle_t domain;

SUBJECT_FUNCTION char* make_pool(std::size_t bytes = kPool) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return static_cast<char*>(pointer);
}

// A heap of this type, which `specific` describes.
template <typename Specific>
nvtxMemHeapHandle_t make_any_heap(std::uint32_t type, const Specific& specific, const char* name) {
  nvtxMemHeapDesc_t heap = {};
  heap.extCompatID = NVTX_EXT_COMPATID_MEM;
  heap.structSize = sizeof(heap);
  heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  heap.type = type;
  heap.typeSpecificDescSize = sizeof(specific);
  heap.typeSpecificDesc = &specific;
  heap.messageType = NVTX_MESSAGE_TYPE_ASCII;
  heap.message.ascii = name;
  return nvtxMemHeapRegister(domain, &heap);
}

SUBJECT_FUNCTION nvtxMemHeapHandle_t make_heap(char* begin, std::size_t bytes, const char* name) {
  return make_any_heap(NVTX_MEM_TYPE_VIRTUAL_ADDRESS, nvtxMemVirtualRangeDesc_t{bytes, begin}, name);
}

nvtxMemRegionsRegisterBatch_t batch_of(nvtxMemHeapHandle_t heap, const nvtxMemVirtualRangeDesc_t* ranges,
                                       std::size_t count, nvtxMemRegionHandle_t* handles = nullptr) {
  nvtxMemRegionsRegisterBatch_t batch = {};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = heap;
  batch.regionCount = count;
  batch.regionDescElementSize = sizeof(*ranges);
  batch.regionDescElements = ranges;
  batch.regionHandleElementsOut = handles;
  return batch;
}

SUBJECT_FUNCTION void carve(nvtxMemHeapHandle_t heap, char* begin, std::size_t bytes) {
  const nvtxMemVirtualRangeDesc_t range = {bytes, begin};
  const nvtxMemRegionsRegisterBatch_t batch = batch_of(heap, &range, 1);
  nvtxMemRegionsRegister(domain, &batch);
}

void end_region(const nvtxMemRegionRef_t& region, std::uint32_t type) {
  nvtxMemRegionsUnregisterBatch_t batch = {};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.refType = type;
  batch.refCount = 1;
  batch.refElementSize = sizeof(region);
  batch.refElements = &region;
  nvtxMemRegionsUnregister(domain, &batch);
}

void end_region(char* begin) {
  nvtxMemRegionRef_t region;
  region.pointer = begin;
  end_region(region, NVTX_MEM_REGION_REF_TYPE_POINTER);
}

void resize(char* begin, std::size_t bytes) {
  const nvtxMemVirtualRangeDesc_t range = {bytes, begin};
  nvtxMemRegionsResizeBatch_t batch = {};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.regionDescCount = 1;
  batch.regionDescElementSize = sizeof(range);
  batch.regionDescElements = &range;
  nvtxMemRegionsResize(domain, &batch);
}

void name(const nvtxMemRegionRef_t& region, std::uint32_t type, const char* text) {
  nvtxMemRegionNameDesc_t one = {};
  one.regionRefType = type;
  one.nameType = NVTX_MESSAGE_TYPE_ASCII;
  one.region = region;
  one.name.ascii = text;
  nvtxMemRegionsNameBatch_t batch = {};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.regionCount = 1;
  batch.regionElementSize = sizeof(one);
  batch.regionElements = &one;
  nvtxMemRegionsName(domain, &batch);
}

void name(char* begin, const char* text) {
  nvtxMemRegionRef_t region = {};
  region.pointer = begin;
  name(region, NVTX_MEM_REGION_REF_TYPE_POINTER, text);
}

// Three regions in a heap, of which the second ends: a hole, and an end that is idle.
void leak_regions() {
  char* pool = make_pool();
  const nvtxMemHeapHandle_t heap = make_heap(pool, kPool, "arena");
  EXPECTED(true, culprit_version() == 0 || heap == reinterpret_cast<nvtxMemHeapHandle_t>(pool));
  carve(heap, pool, 1001);
  carve(heap, pool + 0x10000, 2002);
  carve(heap, pool + 0x40000, 3003);
  name(pool, "weights");
  name(pool + 0x40000, "bias");
  end_region(pool + 0x10000);
}

// The names of an allocation and of another one, which is freed before its memory is allocated again.
void name_allocations() {
  name(make_pool(), "first name");
  char* pool = make_pool();
  name(pool, "freed");
  CHECKED(cudaFree(pool));
  pool = make_pool();
  char* named = make_pool();
  name(named, "old name");
  name(named, "weights");
  name(make_pool() + 4096, "inner name");
}

void end_all() {
  char* pool = make_pool();
  carve(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, pool, 1001);
  carve(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, pool + 2048, 1002);
  end_region(pool);
  end_region(pool + 2048);
  end_region(pool + 4096);  // was never announced
  CHECKED(cudaFree(pool));
}

// The regions are never ended, but their memory is given back, or reused by a newer allocation.
void free_around() {
  char* pool = make_pool();
  carve(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, pool + 512, 1001);
  CHECKED(cudaFree(pool));
  make_pool();
}

void use_batches() {
  char* pool = make_pool();
  nvtxMemVirtualRangeDesc_t ranges[3] = {{100, pool}, {200, pool + 1000}, {300, pool + 2000}};
  nvtxMemRegionHandle_t handles[3] = {};
  const nvtxMemRegionsRegisterBatch_t batch = batch_of(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, ranges, 3, handles);
  nvtxMemRegionsRegister(domain, &batch);
  if (culprit_version() == 0) return;
  nvtxMemRegionRef_t region;
  region.handle = handles[1];
  end_region(region, NVTX_MEM_REGION_REF_TYPE_HANDLE);
  resize(pool, 900);
}

// Each way in which a heap ends its regions; then one region of each other heap is left.
void end_heaps() {
  char* pool = make_pool();
  const nvtxMemHeapHandle_t first = make_heap(pool, 0x1000, "first");
  const nvtxMemHeapHandle_t second = make_heap(pool + 0x1000, 0x1000, "second");
  carve(first, pool, 101);
  carve(second, pool + 0x1000, 102);
  carve(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, pool + 0x2000, 103);
  nvtxMemHeapReset(domain, first);
  nvtxMemHeapUnregister(domain, second);
  nvtxMemHeapReset(domain, NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE);
  carve(first, pool + 256, 104);
}

SUBJECT_FUNCTION cudaArray_t make_array() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t array = nullptr;
  CHECKED(cudaMallocArray(&array, &format, 256, 64, 0));
  return array;
}

SUBJECT_FUNCTION nvtxMemRegionHandle_t carve_rows(cudaArray_t array, nvtxMemHeapHandle_t heap, std::size_t first,
                                                  std::size_t rows, std::uint32_t type = NVTX_MEM_TYPE_CUDA_ARRAY) {
  nvtxMemCudaArrayRangeDesc_t range = {};
  range.extCompatID = NVTX_EXT_COMPATID_MEM;
  range.structSize = sizeof(range);
  range.src = array;
  range.offset[1] = first;
  range.extent[0] = 256;
  range.extent[1] = rows;
  range.extent[2] = 1;
  nvtxMemRegionsRegisterBatch_t batch = {};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.regionType = type;
  batch.heap = heap;
  batch.regionCount = 1;
  batch.regionDescElementSize = sizeof(range);
  batch.regionDescElements = &range;
  nvtxMemRegionHandle_t handle = {};
  batch.regionHandleElementsOut = &handle;
  nvtxMemRegionsRegister(domain, &batch);
  return handle;
}

// Of four regions in an array one is ended, one lies in an array that is freed, and one in none.
void carve_array() {
  cudaArray_t array = make_array();
  const nvtxMemHeapHandle_t atlas = make_any_heap(NVTX_MEM_TYPE_CUDA_ARRAY, array, "atlas");
  const nvtxMemRegionHandle_t first = carve_rows(array, atlas, 0, 8);
  const nvtxMemRegionHandle_t second = carve_rows(array, atlas, 32, 10, NVTX_MEM_TYPE_CU_ARRAY);
  nvtxMemRegionRef_t reference = {};
  reference.handle = first;
  end_region(reference, NVTX_MEM_REGION_REF_TYPE_HANDLE);
  reference.handle = second;
  name(reference, NVTX_MEM_REGION_REF_TYPE_HANDLE, "glyphs");
  cudaArray_t freed = make_array();
  carve_rows(freed, atlas, 0, 3);
  CHECKED(cudaFreeArray(freed));
  carve_rows(reinterpret_cast<cudaArray_t>(&array), atlas, 0, 4);
  carve_rows(array, atlas, ~std::size_t{0}, ~std::size_t{0});
}

// Regions of memory that goes with its context, and one of memory that was freed before.
void carve_before_reset() {
  char* freed = make_pool();
  carve(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, freed + 512, 5005);
  CHECKED(cudaFree(freed));
  char* pool = make_pool();
  const nvtxMemHeapHandle_t heap = make_heap(pool, kPool, "arena");
  carve(heap, pool, 1001);
  carve(heap, pool + 0x10000, 2002);
  carve(heap, pool + 0x20000, 3003);
  name(pool + 0x10000, "weights");
  end_region(pool + 0x20000);
  carve_rows(make_array(), NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, 0, 10);
  CHECKED(cudaDeviceReset());
  make_pool();
}

void throw_past_region(char* pool) {
  try {
    carve(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, pool, 1001);
    throw std::runtime_error("no more");
  } catch (const std::runtime_error&) {
  }
}

void* last_readable_page() {
  void* pages = mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECKED(pages == MAP_FAILED || munmap(static_cast<char*>(pages) + 4096, 4096) != 0);
  return pages;
}

// Arguments that are wrong. One region is announced: the first element of the array at the page's end.
void pass_nonsense() {
  char* pool = make_pool();
  nvtxMemRegionsRegister(domain, nullptr);
  nvtxMemRegionsRegister(domain, reinterpret_cast<nvtxMemRegionsRegisterBatch_t*>(8));
  nvtxMemHeapRegister(domain, nullptr);
  nvtxMemRegionsUnregister(domain, reinterpret_cast<nvtxMemRegionsUnregisterBatch_t*>(~std::uintptr_t{0} - 8));
  const nvtxMemVirtualRangeDesc_t range = {1001, pool};
  nvtxMemRegionsRegisterBatch_t batch = batch_of(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, &range, 1);
  batch.structSize = 8;
  nvtxMemRegionsRegister(domain, &batch);
  batch = batch_of(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, &range, 1);
  batch.regionDescElementSize = 1;
  nvtxMemRegionsRegister(domain, &batch);
  batch = batch_of(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, reinterpret_cast<nvtxMemVirtualRangeDesc_t*>(16), 1);
  nvtxMemRegionsRegister(domain, &batch);
  // An array that claims to go on behind the last page that can be read.
  char* page = static_cast<char*>(last_readable_page());
  const nvtxMemVirtualRangeDesc_t last = {1002, pool};
  std::memcpy(page + 4096 - sizeof(last), &last, sizeof(last));
  batch = batch_of(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE,
                   reinterpret_cast<nvtxMemVirtualRangeDesc_t*>(page + 4096 - sizeof(last)), ~std::size_t{0});
  nvtxMemRegionsRegister(domain, &batch);
  batch.regionDescElementSize = ~std::size_t{0};
  nvtxMemRegionsRegister(domain, &batch);
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "header") announce_by_header();
  if (what == "held") keep_one();
  if (what == "middles") keep_middles();
  if (what == "lost") lose_pool();
  domain = nvtxDomainCreateA("pools");
  if (what == "leak") leak_regions();
  if (what == "named" || what == "reset") name_allocations();
  if (what == "reset") CHECKED(cudaDeviceReset());
  if (what == "regions_reset") carve_before_reset();
  if (what == "end") end_all();
  if (what == "free_around") free_around();
  if (what == "batches") use_batches();
  if (what == "heaps") end_heaps();
  if (what == "array") carve_array();
  if (what == "throw") throw_past_region(make_pool());
  if (what == "nonsense") pass_nonsense();
  printf("version %d\n", culprit_version());
  return 0;
}

#else

int main(int, char** argv) {
  if (std::string(argv[1]) == "header") announce_by_header();
  if (std::string(argv[1]) == "held") keep_one();
  if (std::string(argv[1]) == "middles") keep_middles();
  if (std::string(argv[1]) == "lost") lose_pool();
}

#endif
