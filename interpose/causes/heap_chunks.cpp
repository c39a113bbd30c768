#include "interpose/causes/heap_chunks.h"

#include <algorithm>

#include "interpose/causes/malloc_layout.h"
#include "interpose/causes/process_facts.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using namespace malloc_layout;

namespace {

// A pointer into a chunk (a base class, an element, the object behind the counters of make_shared) is followed if the
// chunk begins so many bytes before it.
constexpr std::uint64_t kFarthestInside = 1024;
// Where all starts are known: arenas and pools take memory from malloc and share it out.
constexpr std::uint64_t kFarthestInsideKnown = 1 << 20;

// Chunks with mappings of their own that lie side by side are one mapping for the kernel: so many of them are looked
// at.
constexpr int kMostSideBySide = 64;

// glibc, malloc/arena.c: the heap of a thread begins with struct heap_info: the arena, the heap before, the size.
constexpr std::uint64_t kThreadHeapHeader = 24;

}  // namespace

std::uint64_t end_of_thread_heap(std::uint64_t base, std::uint64_t most, PageCopies* pages) {
  std::uint64_t arena = 0;
  std::uint64_t previous = 0;
  std::uint64_t size = 0;
  if (!pages->word(base, &arena) || !pages->word(base + 8, &previous) || !pages->word(base + 16, &size)) return 0;
  if (arena == 0 || arena % 8 != 0 || previous % kThreadHeap != 0) return 0;
  if (size == 0 || size > kThreadHeap || size % PageCopies::kPage != 0 || size > most - base) return 0;
  return base + size;
}

bool HeapChunks::open_empty() {
  int error = 0;
  heaps_ = static_cast<Heap*>(map_private(kMostHeaps * sizeof(Heap), &error));
  own_ = static_cast<OwnRange*>(map_private(kMostOwnRanges * sizeof(OwnRange), &error));
  return heaps_ != nullptr && own_ != nullptr && pages_.open();
}

bool HeapChunks::open() {
  if (!open_empty()) return false;
  glibcs_ = malloc_is_glibcs();
  own_count_ = sorted_own_ranges(own_);
  MemoryMap map;
  if (!map.read()) return false;
  for (const Mapping& mapping : map) {
    constexpr int kWritable = PROT_READ | PROT_WRITE;
    if (mapping.shared || mapping.file || (mapping.protection & kWritable) != kWritable) continue;
    add({mapping.begin, mapping.end}, mapping.program_break);
  }
  for (std::uint64_t i = 0; i < count_ && key_ == 0; ++i) {
    if (heaps_[i].program_break) learn_key(heaps_[i]);
  }
  return true;
}

// The first chunk of the heap is the cache of the first thread: the number of free chunks of 64 sizes, then the first
// chunk of each (glibc, struct tcache_perthread_struct).
void HeapChunks::learn_key(const Heap& heap) {
  constexpr std::uint64_t kSizes = 64;
  const std::uint64_t cache = heap.begin + kHeader;
  std::uint64_t header = 0;
  if (!pages_.word(cache - 8, &header)) return;
  const std::uint64_t counts = (header & ~kSizeFlags) - kHeader - kSizes * sizeof(std::uint64_t);
  if (counts != kSizes && counts != 2 * kSizes) return;  // one byte each until 2.29, two from 2.30 on
  for (std::uint64_t i = 0; i < kSizes && key_ == 0; ++i) {
    std::uint64_t first = 0;
    if (!pages_.word(cache + counts + i * sizeof(first), &first)) return;
    if (first < heap.begin || first % kAlignment != 0 || first >= heap.end) continue;
    pages_.word(first + 8, &key_);
  }
}

void HeapChunks::close() {
  pages_.close();
  break_starts_.close();
  for (ThreadHeap& heap : thread_heaps_) {
    heap.starts.close();
    heap.base = 0;
  }
  if (heaps_ != nullptr) unmap_private(heaps_, kMostHeaps * sizeof(Heap));
  if (own_ != nullptr) unmap_private(own_, kMostOwnRanges * sizeof(OwnRange));
  heaps_ = nullptr;
  own_ = nullptr;
  count_ = 0;
}

void HeapChunks::add(MemoryRange range, bool program_break) {
  if (count_ < kMostHeaps) heaps_[count_++] = {range.begin, range.end, program_break};
}

const HeapChunks::Heap* HeapChunks::heap_of(std::uint64_t address) const {
  if (count_ == 0 || address < heaps_[0].begin || address >= heaps_[count_ - 1].end) return nullptr;
  std::uint64_t low = 0;
  std::uint64_t high = count_;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (address >= heaps_[middle].end) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count_ && address >= heaps_[low].begin ? &heaps_[low] : nullptr;
}

bool HeapChunks::is_own(std::uint64_t address) const {
  const OwnRange* behind =
      std::upper_bound(own_, own_ + own_count_, address,
                       [](std::uint64_t wanted, const OwnRange& range) { return wanted < range.begin; });
  return behind != own_ && address < behind[-1].end;
}

bool HeapChunks::find(std::uint64_t address, HeapChunk* chunk) {
  const Heap* heap = heap_of(address);
  if (heap == nullptr) return false;
  if (heap->program_break) {
    if (!glibcs_) return false;
    if (!break_starts_.is_open()) break_starts_.open(heap->begin, heap->end);
    return find_between(address, heap->begin, heap->end, &break_starts_, chunk);
  }
  const std::uint64_t base = address / kThreadHeap * kThreadHeap;
  if (base >= heap->begin) {
    ThreadHeap& own = thread_heap_at(base, *heap);
    if (address < own.end) return find_between(address, base + kThreadHeapHeader, own.end, &own.starts, chunk);
  }
  return find_mapped(address, *heap, chunk);
}

bool HeapChunks::find_foreign(std::uint64_t address, std::uint64_t most, HeapChunk* chunk) const {
  const Heap* heap = heap_of(address);
  if (heap == nullptr || (heap->program_break && glibcs_) || is_own(address)) return false;
  // find() has just looked at the heap of a thread that may be there.
  const std::uint64_t base = address / kThreadHeap * kThreadHeap;
  const ThreadHeap& own = thread_heaps_[base / kThreadHeap % kThreadHeaps];
  if (base == own.base && address < own.end) return false;
  *chunk = {address, std::min(most, heap->end - address)};
  return true;
}

HeapChunks::ThreadHeap& HeapChunks::thread_heap_at(std::uint64_t base, const Heap& heap) {
  ThreadHeap& own = thread_heaps_[base / kThreadHeap % kThreadHeaps];
  if (own.base == base) return own;
  const bool first = own.base == 0;
  own.starts.close();
  own.base = base;
  own.end = end_of_thread_heap(base, heap.end, &pages_);
  if (first && own.end != 0) walk_thread_heap(&own);
  return own;
}

// The first chunk begins where a walk leads to the end of the heap: the size of the headers before it differs between
// versions.
void HeapChunks::walk_thread_heap(ThreadHeap* heap) {
  for (std::uint64_t before = kLeastBeforeFirst; before < kMostBeforeFirst; before += kAlignment) {
    if (heap->base + before >= heap->end || !heap->starts.open(heap->base + before, heap->end)) return;
    if (heap->starts.reach(heap->end - 1, &pages_)) return;
    heap->starts.close();
  }
}

bool HeapChunks::find_between(std::uint64_t address, std::uint64_t begin, std::uint64_t end, ChunkStarts* starts,
                              HeapChunk* chunk) {
  if (starts->is_open() && starts->reach(address, &pages_)) {
    const std::uint64_t start = starts->last(address, kFarthestInsideKnown);
    return start != 0 && chunk_at(start, begin, end, chunk) && address - start < chunk->bytes;
  }
  const std::uint64_t last = address / kAlignment * kAlignment;
  for (std::uint64_t back = 0; back <= kFarthestInside && last - back >= begin + kHeader; back += kAlignment) {
    if (chunk_at(last - back, begin, end, chunk)) return address - chunk->begin < chunk->bytes;
  }
  return false;
}

bool HeapChunks::chunk_at(std::uint64_t begin, std::uint64_t least, std::uint64_t end, HeapChunk* chunk) {
  std::uint64_t header = 0;
  if (begin < least + kHeader || !pages_.word(begin - 8, &header)) return false;
  const std::uint64_t size = size_of_chunk(header, end - begin);
  // The next header must lie inside, too.
  if (size == 0 || end - begin - size < 8) return false;
  std::uint64_t next = 0;
  if (!pages_.word(begin - 8 + size, &next) || (next & kInUseBefore) == 0) return false;
  const std::uint64_t next_size = next & ~kSizeFlags;
  if (next_size < kAlignment || next_size % kAlignment != 0 || next_size > end - (begin - kHeader + size)) return false;
  std::uint64_t second = 0;
  if (key_ != 0 && pages_.word(begin + 8, &second) && second == key_) return false;
  *chunk = {begin, size - 8};
  return true;
}

bool HeapChunks::find_mapped(std::uint64_t address, const Heap& heap, HeapChunk* chunk) {
  const auto mapped_at = [&](std::uint64_t page, std::uint64_t* size) {
    std::uint64_t before = 0;
    std::uint64_t header = 0;
    if (!pages_.word(page, &before) || !pages_.word(page + 8, &header)) return false;
    *size = header & ~kSizeFlags;
    return (header & kSizeFlags) == kOwnMapping && before == 0 && *size != 0 && *size % PageCopies::kPage == 0 &&
           *size <= heap.end - page;
  };
  const auto take = [&](std::uint64_t page, std::uint64_t size) {
    *chunk = {page + kHeader, size - kHeader};
    return address >= page + kHeader && address < page + size;
  };
  std::uint64_t size = 0;
  const std::uint64_t own_page = address / PageCopies::kPage * PageCopies::kPage;
  if (mapped_at(own_page, &size) && take(own_page, size)) return true;
  std::uint64_t page = heap.begin;
  for (int i = 0; i < kMostSideBySide && page <= own_page && mapped_at(page, &size); ++i, page += size) {
    if (take(page, size)) return true;
  }
  return false;
}

}  // namespace culprit
