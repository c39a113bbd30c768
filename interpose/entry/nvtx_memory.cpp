// NVTX's memory extension (nvtx3/nvToolsExtMem.h, nvToolsExtMemCudaRt.h): a program that cuts buffers out of one
// allocation announces each of them, and names them. events/regions.h records them.
//
// Without a tool NVTX reads none of the arguments, so a program may pass anything and run. Each structure carries its
// size, each array the size of an element: newer headers may have longer ones. What is read lies within both, and
// within memory that can be read. The functions for permissions are left alone: culprit watches no access.
#include <cstdint>
#include <cstring>

#include "interpose/entry/nvtx_extension.h"
#include "interpose/entry/nvtx_text.h"
#include "interpose/events/regions.h"
#include "interpose/system/readable_word.h"

namespace culprit {
namespace {

enum Slot : unsigned {
  kHeapRegister,
  kHeapUnregister,
  kHeapReset,
  kRegionsRegister,
  kRegionsResize,
  kRegionsUnregister,
  kRegionsName,
  kSlots
};

constexpr std::uint32_t kVirtualAddress = 1;  // NVTX_MEM_TYPE_VIRTUAL_ADDRESS
// Of nvToolsExtMemCudaRt.h: the runtime's arrays are the driver's.
constexpr std::uint32_t kCudaArray = 0x11;
constexpr std::uint32_t kCuArray = 0x12;

bool is_array(std::uint32_t type) { return type == kCudaArray || type == kCuArray; }

enum ReferenceType : std::uint32_t { kPointer = 1, kHandle = 2 };

struct VirtualRange {
  std::size_t bytes;
  std::uint64_t address;
};
struct ArrayRange {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t reserved;
  std::uint64_t array;
  std::size_t offset[3];
  std::size_t extent[3];
};
static_assert(sizeof(ArrayRange) == 64);
struct HeapDescription {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t reserved;
  std::uint32_t usage;
  std::uint32_t type;
  std::size_t specific_bytes;
  const void* specific;
  std::uint32_t category;
  std::uint32_t message_type;
  const void* message;
};
static_assert(sizeof(HeapDescription) == 48);
struct RegisterBatch {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t type;
  std::uint64_t heap;
  std::size_t count;
  std::size_t element_bytes;
  const void* elements;
  std::uint64_t* handles;
};
static_assert(sizeof(RegisterBatch) == 48);
struct ResizeBatch {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t type;
  std::size_t count;
  std::size_t element_bytes;
  const void* elements;
};
struct UnregisterBatch {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t reference_type;
  std::size_t count;
  std::size_t element_bytes;
  const void* elements;
};
static_assert(sizeof(ResizeBatch) == 32 && sizeof(UnregisterBatch) == 32);
struct NameDescription {
  std::uint32_t reference_type;
  std::uint32_t name_type;
  std::uint64_t region;
  const void* name;
};
static_assert(sizeof(NameDescription) == 24);
struct NameBatch {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t reserved;
  std::size_t count;
  std::size_t element_bytes;
  const void* elements;
};
static_assert(sizeof(NameBatch) == 32);

// Copies from memory of the program. Asks the kernel once for each page that a call reads, except for the page of our
// own frame: most programs have the structures in the frame of the caller.
class Reader {
 public:
  template <typename T>
  bool copy(const void* from, T* to) {
    if (!can_read(reinterpret_cast<std::uintptr_t>(from), sizeof(T))) return false;
    std::memcpy(to, from, sizeof(T));
    return true;
  }
  bool can_read(std::uintptr_t address, std::size_t bytes) {
    const std::uintptr_t last = address + bytes - 1;
    if (address == 0 || last < address) return false;
    for (std::uintptr_t page = address / kPage; page <= last / kPage; ++page) {
      if (page == known_ || page == own_) continue;
      // A word lies in one page when its address is a multiple of its size.
      if (!is_readable_word(page * kPage)) return false;
      known_ = page;
    }
    return true;
  }

 private:
  static constexpr std::uintptr_t kPage = 4096;
  std::uintptr_t known_ = ~std::uintptr_t{0};
  const std::uintptr_t own_ = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) / kPage;
};

// A structure that begins with its version and size.
template <typename Description>
bool read_description(Reader& reader, const void* from, Description* to) {
  return reader.copy(from, to) && to->compatibility >> 8 == 1 && to->struct_size >= sizeof(Description);
}

// A count that is no count would have all memory behind the array read as elements.
constexpr std::size_t kMostElements = 1 << 16;

// Calls visit(index, element) for the first kMostElements, until one of the array cannot be read.
template <typename Element, typename Visit>
void for_each_element(const void* elements, std::size_t count, std::size_t element_bytes, Visit visit) {
  if (element_bytes < sizeof(Element)) return;
  Reader reader;
  auto at = reinterpret_cast<std::uintptr_t>(elements);
  for (std::size_t i = 0; i < count && i < kMostElements; ++i) {
    Element element;
    if (!reader.copy(reinterpret_cast<const void*>(at), &element)) return;
    visit(i, element);
    if (__builtin_add_overflow(at, element_bytes, &at)) return;
  }
}

// Calls use(name) with the name of a message, perhaps an empty one.
template <typename Use>
void with_name(std::uint32_t type, const void* message, Use use) {
  if (message == nullptr || !Reader().can_read(reinterpret_cast<std::uintptr_t>(message), 1)) return use(RegionName());
  if (type == kUnicode) {
    const Narrow narrow(static_cast<const wchar_t*>(message));
    return use(RegionName{narrow.text, narrow.length});
  }
  if (type != kAscii && type != kRegistered) return use(RegionName());
  const char* text = static_cast<const char*>(message);
  use(RegionName{text, bounded_length(text)});
}

// Where a heap lies. False: its description is of another type, or cannot be read.
bool read_range(Reader& reader, const HeapDescription& heap, VirtualRange* range) {
  if (heap.type == kVirtualAddress) return heap.specific_bytes >= sizeof(*range) && reader.copy(heap.specific, range);
  std::uint64_t array = 0;
  if (!is_array(heap.type) || heap.specific_bytes < sizeof(array) || !reader.copy(heap.specific, &array)) return false;
  const Region region = region_of_array(array);
  *range = {region.bytes, region.address};
  return region.address != 0;
}

void give_handle(Reader& reader, const RegisterBatch& batch, std::size_t index, std::uint64_t region) {
  if (batch.handles == nullptr) return;
  std::uint64_t* handle = batch.handles + index;
  if (reader.can_read(reinterpret_cast<std::uintptr_t>(handle), sizeof(*handle)))
    std::memcpy(handle, &region, sizeof(*handle));
}

std::uint64_t register_heap(const void*, const void* description) {
  CULPRIT_ANNOUNCEMENT
  Reader reader;
  HeapDescription heap;
  VirtualRange range = {};
  if (!read_description(reader, description, &heap) || !read_range(reader, heap, &range)) return 0;
  with_name(heap.message_type, heap.message,
            [&](const RegionName& name) { note_heap_made(kNvtxHeap, range.address, range.bytes, name); });
  return range.address;
}

void unregister_heap(const void*, std::uint64_t heap) {
  CULPRIT_ANNOUNCEMENT
  note_heap_ended(kNvtxHeap, heap);
}

void reset_heap(const void*, std::uint64_t heap) {
  CULPRIT_ANNOUNCEMENT
  note_heap_reset(heap);
}

// The handle of a region is its address, or its place in an array.
void register_regions(const void*, const void* description) {
  CULPRIT_ANNOUNCEMENT
  Reader reader;
  RegisterBatch batch;
  if (!read_description(reader, description, &batch)) return;
  if (is_array(batch.type)) {
    for_each_element<ArrayRange>(
        batch.elements, batch.count, batch.element_bytes, [&](std::size_t index, const ArrayRange& range) {
          if (range.compatibility >> 8 != 1 || range.struct_size < sizeof(range)) return;
          const Region region = region_of({range.array,
                                           {range.offset[0], range.offset[1], range.offset[2]},
                                           {range.extent[0], range.extent[1], range.extent[2]}});
          if (region.address == 0) return;
          note_region_made(kNvtxRegions, region, {});
          give_handle(reader, batch, index, region.address);
        });
  }
  if (batch.type != kVirtualAddress) return;
  for_each_element<VirtualRange>(batch.elements, batch.count, batch.element_bytes,
                                 [&](std::size_t index, const VirtualRange& range) {
                                   note_region_made(kNvtxRegions, {batch.heap, range.address, range.bytes}, {});
                                   give_handle(reader, batch, index, range.address);
                                 });
}

void resize_regions(const void*, const void* description) {
  CULPRIT_ANNOUNCEMENT
  Reader reader;
  ResizeBatch batch;
  if (!read_description(reader, description, &batch) || batch.type != kVirtualAddress) return;
  for_each_element<VirtualRange>(
      batch.elements, batch.count, batch.element_bytes,
      [](std::size_t, const VirtualRange& range) { note_region_resized(range.address, range.bytes); });
}

void unregister_regions(const void*, const void* description) {
  CULPRIT_ANNOUNCEMENT
  Reader reader;
  UnregisterBatch batch;
  if (!read_description(reader, description, &batch)) return;
  if (batch.reference_type != kPointer && batch.reference_type != kHandle) return;
  for_each_element<std::uint64_t>(batch.elements, batch.count, batch.element_bytes,
                                  [](std::size_t, std::uint64_t region) { note_region_ended(kNvtxRegions, region); });
}

void name_regions(const void*, const void* description) {
  CULPRIT_ANNOUNCEMENT
  Reader reader;
  NameBatch batch;
  if (!read_description(reader, description, &batch)) return;
  for_each_element<NameDescription>(
      batch.elements, batch.count, batch.element_bytes, [](std::size_t, const NameDescription& one) {
        if (one.reference_type != kPointer && one.reference_type != kHandle) return;
        with_name(one.name_type, one.name, [&](const RegionName& name) { note_region_named(one.region, name); });
      });
}

template <typename Pointer>
void fill(const ExtensionSegment& segment, Slot slot, Pointer function) {
  segment.functions[slot] = reinterpret_cast<std::intptr_t>(function);
}

}  // namespace

void fill_memory_functions(const ExtensionSegment& segment) {
  if (segment.slots < kSlots) return;
  fill(segment, kHeapRegister, register_heap);
  fill(segment, kHeapUnregister, unregister_heap);
  fill(segment, kHeapReset, reset_heap);
  fill(segment, kRegionsRegister, register_regions);
  fill(segment, kRegionsResize, resize_regions);
  fill(segment, kRegionsUnregister, unregister_regions);
  fill(segment, kRegionsName, name_regions);
}

}  // namespace culprit
