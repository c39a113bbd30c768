#include "interpose/events/regions.h"

#include "interpose/control/control_state.h"
#include "interpose/events/events.h"
#include "interpose/events/record_ends.h"
#include "interpose/format/array_layout.h"
#include "interpose/process/recording.h"
#include "interpose/system/own_stack.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 47;  // of an address space

bool is_off() { return process_if_recording() == nullptr; }

// The record of a name, and that of a heap, as a new record has them in `announced`.
std::uint64_t announced(Ref name, Ref heap) { return std::uint64_t{heap} << 32 | name; }

Ref record_of_name(Process& process, const RegionName& name) {
  const Ref ref = marks_of(process)
                      .note(name.text, name.length, format::MarkKind::kRegionName, thread_state.index, now_ns(process),
                            true, process.dump)
                      .record;
  if (ref == 0) add_counter(process.dump.header()->dropped_marks, 1);
  return ref;
}

// 0 without a name.
Ref record_of_name(const RegionName& name) {
  Ref ref = 0;
  if (name.length != 0) record_on_own_stack([&](Process& process) { ref = record_of_name(process, name); });
  return ref;
}

Ref heap_at(std::uint64_t address) {
  if (address == kWholeProcess) return 0;
  Recording recording;
  Process* process = recording.process();
  return process == nullptr
             ? 0
             : process->tables.live.find(space_of(Kind::kHeap), address, format::kNoDevice, process->dump);
}

// Whether a heap was announced there, and not only a name.
bool has_heap(std::uint64_t address) {
  Recording recording;
  Process* process = recording.process();
  if (process == nullptr) return false;
  const Ref heap = process->tables.live.find(space_of(Kind::kHeap), address, format::kNoDevice, process->dump);
  return heap != 0 && process->dump.at<AllocationRecord>(heap)->bytes != 0;
}

void note_announced(Api api, Kind kind, std::uint64_t address, std::uint64_t bytes, std::uint64_t extra) {
  note_any_made({api, kind, address, bytes, extra, {Where::By::kDevice, -1, nullptr}, format::kFlagNotPhysical},
                space_of(kind));
}

// Calls change(record) for a live region, which no other thread can end meanwhile. Returns false if there is none.
template <typename Change>
bool change_region(std::uint64_t address, Change change) {
  bool found = false;
  record_on_own_stack([&](Process& process) {
    const Ref ref = process.tables.live.take(
        space_of(Kind::kRegion), address, [] { return format::kNoDevice; }, process.dump, own_records());
    if (ref == 0) return;
    found = true;
    change(process, process.dump.at<AllocationRecord>(ref));
    process.tables.live.put_back(ref, process.dump);
  });
  return found;
}

// `heap` 0: regions that are in no heap.
void end_regions(Ref heap) {
  record_on_own_stack([&](Process& process) {
    process.tables.live.sweep(process.dump, [&](AllocationRecord& record, Ref, EndedBy*) {
      if (record.kind != Kind::kRegion || record.announced.heap != heap) return false;
      count_freed(process, record);
      return true;
    });
  });
}

// Of a live array: its record, 0 = none.
Ref array_with(std::uint64_t handle, AllocationRecord* record) {
  Recording recording;
  Process* process = recording.process();
  if (process == nullptr || handle == 0) return 0;
  const Ref ref = process->tables.live.find(space_of(Kind::kArray), handle, format::kNoDevice, process->dump);
  if (ref == 0) return 0;
  *record = *process->dump.at<AllocationRecord>(ref);
  return record->kind == Kind::kArray && record->handle == handle ? ref : 0;
}

// Numbers of the program may be of any size.
std::uint64_t product(std::uint64_t one, std::uint64_t other) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(one, other, &result) || result > kMostBytes ? kMostBytes : result;
}

}  // namespace

Region region_of_array(std::uint64_t array) {
  AllocationRecord record;
  const Ref ref = is_off() ? 0 : array_with(array, &record);
  if (ref == 0) return {};
  return {kWholeProcess, format::array_place(ref), record.bytes};
}

Region region_of(const ArrayPart& part) {
  AllocationRecord record;
  const Ref ref = is_off() ? 0 : array_with(part.array, &record);
  if (ref == 0) return {};
  const format::ArrayLayout layout = format::array_layout(record.extra);
  const std::uint64_t row = product(layout.width, layout.element_bytes);
  const std::uint64_t slice = product(row, layout.height == 0 ? 1 : layout.height);
  const std::uint64_t begin =
      product(part.offset[0], layout.element_bytes) + product(part.offset[1], row) + product(part.offset[2], slice);
  std::uint64_t bytes = layout.element_bytes;
  for (const std::uint64_t extent : part.extent) bytes = product(bytes, extent == 0 ? 1 : extent);
  if (begin >= record.bytes) return {};
  const std::uint64_t place = format::array_place(ref);
  return {place, place + begin, bytes < record.bytes - begin ? bytes : record.bytes - begin};
}

void note_region_made(Api api, const Region& region, const RegionName& name) {
  if (is_off()) return;
  const std::uint64_t extra = announced(record_of_name(name), heap_at(region.heap));
  note_announced(api, Kind::kRegion, region.address, region.bytes, extra);
}

void note_heap_made(Api api, std::uint64_t address, std::uint64_t bytes, const RegionName& name) {
  if (is_off()) return;
  note_announced(api, Kind::kHeap, address, bytes, announced(record_of_name(name), 0));
}

void note_region_ended(Api api, std::uint64_t address) {
  if (is_off()) return;
  Ending ending(api, Kind::kRegion, address);
  if (ending.record() != 0) ending.finish(CUDA_SUCCESS);
}

void note_region_resized(std::uint64_t address, std::uint64_t bytes) {
  if (is_off() || address == 0) return;
  change_region(address, [&](Process&, AllocationRecord* record) {
    __atomic_store_n(&record->bytes, bytes < kMostBytes ? bytes : kMostBytes, __ATOMIC_RELAXED);
  });
}

void note_region_named(std::uint64_t address, const RegionName& name) {
  if (is_off() || address == 0 || name.length == 0) return;
  const bool found = change_region(address, [&](Process& process, AllocationRecord* record) {
    const Ref ref = record_of_name(process, name);
    if (ref != 0) __atomic_store_n(&record->announced.name, ref, __ATOMIC_RELAXED);
  });
  // The allocation at this address, which nothing announced: a heap of no bytes has its name.
  if (!found && !has_heap(address)) note_heap_made(kNvtxHeap, address, 0, name);
}

void note_heap_reset(std::uint64_t address) {
  if (is_off()) return;
  const Ref heap = heap_at(address);
  if (heap != 0 || address == kWholeProcess) end_regions(heap);
}

void note_heap_ended(Api api, std::uint64_t address) {
  if (is_off() || address == kWholeProcess) return;
  const Ref heap = heap_at(address);
  if (heap == 0) return;
  end_regions(heap);
  Ending ending(api, Kind::kHeap, address);
  if (ending.record() != 0) ending.finish(CUDA_SUCCESS);
}

}  // namespace culprit
