#include "interpose/dump/record_index.h"

#include "interpose/system/own_memory.h"
#include "interpose/system/own_stack.h"

namespace culprit {

void RecordIndex::free_memory() {
  if (slots_ != nullptr) unmap_private(slots_, bytes());
  *this = {};
}

bool RecordIndex::put_among_others(std::uint64_t handle, std::uint32_t mark, std::uint8_t device, format::Ref ref,
                                   const DumpWriter& dump, format::Ref* replaced) {
  if (count_ >= most_ && !grow()) return false;
  Slot* slot = first_of(mark);
  for (; has_mark(*slot, mark); ++slot) {
    const auto* record = dump.at<format::AllocationRecord>(ref_of(*slot));
    if (record->handle != handle || record->device != device) continue;
    *replaced = ref_of(*slot);
    store(slot, slot_of(mark, ref));
    return true;
  }
  return place(slot, mark, ref);
}

// At least so many homes: all that fit.
bool RecordIndex::allocate(std::uint32_t homes, std::uint32_t beyond) {
  const std::uint32_t pages = (homes + beyond + kSlotsOfPage - 1) / kSlotsOfPage;
  int error = 0;
  slots_ = static_cast<Slot*>(map_private(std::uint64_t{pages} * kPage, &error));
  if (slots_ == nullptr) return false;
  pages_ = pages;
  homes_ = slot_count() - beyond;
  beyond_ = beyond;
  most_ = homes_ - homes_ / 8;
  return true;
}

// Frees the slot `at`. Each entry is twice in the table for a moment, never missing. Returns false when the table has
// no room behind it.
bool RecordIndex::make_gap(Slot* at) {
  Slot* free = at;
  while (*free != 0) ++free;
  if (free == last()) return false;
  for (; free != at; --free) store(free, free[-1]);
  return true;
}

bool RecordIndex::insert_again(std::uint32_t mark, format::Ref ref) {
  return place(first_below(first_of(mark), mark), mark, ref);
}

bool RecordIndex::grow() {
  return on_own_stack([this] { return grow_here(); });
}

bool RecordIndex::grow_here() {
  std::uint32_t homes = homes_;
  std::uint32_t beyond = slots_ == nullptr ? kFirstBeyond : beyond_;
  if (count_ >= most_) {
    homes = (pages_ + (pages_ < 16 ? 1 : pages_ / 8)) * kSlotsOfPage - beyond;
  } else {
    beyond *= 2;  // many marks are nearly equal: more homes would not part them
  }
  for (;; beyond *= 2) {
    RecordIndex larger = {};
    if (!larger.allocate(homes, beyond)) return false;
    if (copy_to(&larger)) {
      free_memory();
      *this = larger;
      return true;
    }
    larger.free_memory();
  }
}

// Returns false when there are too many entries behind the last home.
bool RecordIndex::copy_to(RecordIndex* larger) const {
  if (slots_ == nullptr) return true;
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < slot_count(); ++i) {
    if (slots_[i] == 0) continue;
    const std::uint32_t home = larger->home_of(mark_of(slots_[i]));
    if (home > next) next = home;
    if (next >= larger->slot_count() - 1) return false;
    larger->slots_[next++] = slots_[i];
  }
  larger->count_ = count_;
  return true;
}

}  // namespace culprit
