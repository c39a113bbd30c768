// Stores into slots that the loader fills. Some of them are read-only by now (RELRO).
#pragma once

#include <cstdint>

namespace culprit {

// Where a slot lies, and its two values.
struct Slot {
  std::uint64_t* place;
  std::uint64_t masked_original;  // not itself: the search for the driver's addresses finds what lies in this memory
  std::uint64_t ours;
  int protection;  // of its page, when that is read-only
  std::uint64_t original() const { return ~masked_original; }
};

// A page stays writable while slots of the same page follow one another: each change of a protection takes the lock
// that page faults of all threads take. The list of mappings (/proc/self/maps) is not read: that takes 2 us for each
// mapping, milliseconds in a large program. Not thread-safe.
class SlotSwapper {
 public:
  SlotSwapper();
  ~SlotSwapper() { close(); }
  SlotSwapper(const SlotSwapper&) = delete;
  SlotSwapper& operator=(const SlotSwapper&) = delete;

  // Store slot.ours where slot.original() is, or the other way round. Return false when something else is there, when
  // nothing is mapped there any more, or when it cannot be written; the latter is counted in `*refused`.
  bool replace(const Slot& slot, std::uint32_t* refused) { return swap(slot, slot.original(), slot.ours, refused); }
  bool put_back(const Slot& slot, std::uint32_t* refused) { return swap(slot, slot.ours, slot.original(), refused); }

 private:
  enum class Access : std::uint8_t { kNone, kReadOnly, kWritable, kSealed };
  bool swap(const Slot& slot, std::uint64_t before, std::uint64_t after, std::uint32_t* refused);
  Access look_at(std::uint64_t place) const;
  void open();
  void close();

  const std::uint64_t page_size_;
  std::uint64_t page_ = 0;
  int protection_ = 0;
  Access access_ = Access::kNone;
  bool opened_ = false;
};

}  // namespace culprit
