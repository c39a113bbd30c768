#include "interpose/attach/slot_swapper.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/attach/swap_word.h"
#include "interpose/system/os.h"

namespace culprit {

SlotSwapper::SlotSwapper() : page_size_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) {}

bool SlotSwapper::swap(const Slot& slot, std::uint64_t before, std::uint64_t after, std::uint32_t* refused) {
  const auto place = reinterpret_cast<std::uint64_t>(slot.place);
  if (page_ != (place & ~(page_size_ - 1))) {
    close();
    page_ = place & ~(page_size_ - 1);
    protection_ = slot.protection;
    access_ = look_at(place);
  }
  if (access_ == Access::kNone || *slot.place != before) return false;
  if (access_ == Access::kReadOnly) open();
  if (access_ == Access::kWritable) return swap_word(place, before, after);
  if (os.write_own_word(place, after) == 0) return true;
  ++*refused;
  return false;
}

SlotSwapper::Access SlotSwapper::look_at(std::uint64_t place) const {
  // The memory may be gone by now.
  std::uint64_t found = 0;
  if (os.read_own_memory(&found, place, sizeof(found)) != static_cast<std::int64_t>(sizeof(found)))
    return Access::kNone;
  const int error = os.probe_write(place);
  if (error == -EFAULT) return Access::kReadOnly;
  return error == 0 ? Access::kWritable : Access::kSealed;  // a filter forbids the question
}

void SlotSwapper::open() {
  opened_ = os.protect(reinterpret_cast<void*>(page_), page_size_, protection_ | PROT_WRITE) == 0;
  access_ = opened_ ? Access::kWritable : Access::kSealed;
}

void SlotSwapper::close() {
  if (opened_) os.protect(reinterpret_cast<void*>(page_), page_size_, protection_);
  opened_ = false;
}

}  // namespace culprit
