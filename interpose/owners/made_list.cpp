#include "interpose/owners/made_list.h"

#include <cstring>

#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// The last bytes of a packed entry: path, in_frames, then the sizes of three numbers.
constexpr std::uint32_t kTail = 3;
constexpr std::uint32_t kInFrames = MadeList::kPaths;
constexpr int kRecordShift = 14;
constexpr int kGenerationShift = 17;
constexpr int kClockShift = 20;
constexpr std::uint32_t kSize = 7;

constexpr std::uint32_t kUnits = sizeof(format::AllocationRecord) / format::kRefUnit;

// Small numbers for small differences of both signs.
std::uint32_t zigzag(std::uint32_t difference) { return difference << 1 ^ (difference >> 31 != 0 ? ~0U : 0U); }
std::uint32_t from_zigzag(std::uint32_t number) { return number >> 1 ^ ((number & 1) != 0 ? ~0U : 0U); }

std::uint32_t size_of(std::uint32_t number) {
  return number == 0 ? 0 : (39 - static_cast<std::uint32_t>(__builtin_clz(number))) / 8;
}

std::uint32_t load(const unsigned char* from, std::uint32_t bytes) {
  std::uint32_t number = 0;
  std::memcpy(&number, from, bytes);
  return number;
}
std::uint32_t tail_of(const unsigned char* end) { return load(end - kTail, kTail); }

// A packed entry.
struct Packed {
  Packed(const MadeEntry& made, const MadeEntry& older)
      : record(zigzag(made.record / kUnits - older.record / kUnits - 1)),
        generation(zigzag(made.generation - older.generation)),
        clock(zigzag(made.clock - older.clock - 1)),
        tail(made.path | (made.in_frames ? kInFrames : 0) | size_of(record) << kRecordShift |
             size_of(generation) << kGenerationShift | size_of(clock) << kClockShift) {
    CULPRIT_ASSERT(made.record % kUnits == 0 && made.path < MadeList::kPaths);
  }
  // Of the entry that ends there.
  explicit Packed(const unsigned char* end) : tail(tail_of(end)) {
    const unsigned char* at = end - kTail - size_of_clock();
    clock = load(at, size_of_clock());
    at -= size_of_generation();
    generation = load(at, size_of_generation());
    at -= size_of_record();
    record = load(at, size_of_record());
  }

  std::uint32_t size_of_record() const { return tail >> kRecordShift & kSize; }
  std::uint32_t size_of_generation() const { return tail >> kGenerationShift & kSize; }
  std::uint32_t size_of_clock() const { return tail >> kClockShift & kSize; }
  std::uint32_t bytes() const { return size_of_record() + size_of_generation() + size_of_clock() + kTail; }

  // The entry before `made`, except for its path and in_frames.
  MadeEntry older_than(const MadeEntry& made) const {
    return {(made.record / kUnits - 1 - from_zigzag(record)) * kUnits, made.generation - from_zigzag(generation), 0,
            false, made.clock - 1 - from_zigzag(clock)};
  }
  void write(unsigned char* at) const {
    std::memcpy(at, &record, size_of_record());
    at += size_of_record();
    std::memcpy(at, &generation, size_of_generation());
    at += size_of_generation();
    std::memcpy(at, &clock, size_of_clock());
    std::memcpy(at + size_of_clock(), &tail, kTail);
  }

  std::uint32_t record;
  std::uint32_t generation;
  std::uint32_t clock;
  std::uint32_t tail;
};

// Reads the entry that ends at packed + *end; `older` is that entry without its path, and afterwards the one before it.
MadeEntry step(const unsigned char* packed, std::uint32_t* end, MadeEntry* older) {
  const Packed entry(packed + *end);
  MadeEntry made = *older;
  made.path = entry.tail % MadeList::kPaths;
  made.in_frames = (entry.tail & kInFrames) != 0;
  *end -= entry.bytes();
  *older = *end == 0 ? MadeEntry{} : entry.older_than(made);
  return made;
}

}  // namespace

bool MadeList::Walk::next_packed() {
  if (packed_left_ == 0) return false;
  place_ = {packed_left_, true};
  entry_ = step(list_.packed_, &packed_left_, &older_);
  return true;
}

void MadeList::set_in_frames(Place place, bool in_frames) {
  if (!place.is_packed) {
    recent_[place.at].in_frames = in_frames;
    return;
  }
  unsigned char* tail = packed_ + place.at - kTail;
  const std::uint32_t changed = (load(tail, kTail) & ~kInFrames) | (in_frames ? kInFrames : 0);
  std::memcpy(tail, &changed, kTail);
}

void MadeList::set_path(Place place, std::uint32_t path) {
  if (!place.is_packed) {
    recent_[place.at].path = path;
    return;
  }
  unsigned char* tail = packed_ + place.at - kTail;
  const std::uint32_t changed = (load(tail, kTail) & ~(kPaths - 1)) | path;
  std::memcpy(tail, &changed, kTail);
}

void MadeList::pop_packed() {
  if (packed_bytes_ == 0) return;
  step(packed_, &packed_bytes_, &packed_newest_);
  --packed_count_;
}

bool MadeList::grow_packed() {
  const std::uint32_t capacity = packed_ == nullptr ? kFirstPacked : packed_capacity_ * 2;
  if (capacity < packed_capacity_) return false;  // 4 GiB
  int error = 0;
  void* larger =
      packed_ == nullptr ? map_private(capacity, &error) : enlarge_private(packed_, packed_capacity_, capacity);
  if (larger == nullptr) return false;
  packed_ = static_cast<unsigned char*>(larger);
  packed_capacity_ = capacity;
  return true;
}

// Returns whether half of the array can be packed.
bool MadeList::prepare_packed(bool roomy) {
  const bool is_tight = roomy && packed_bytes_ > packed_capacity_ / 4 * 3;
  return (!is_tight && !needs_memory()) || grow_packed() || !needs_memory();
}

void MadeList::make_room(bool roomy) {
  if (recent_ == nullptr) {
    int error = 0;
    recent_ = static_cast<MadeEntry*>(map_private(sizeof(MadeEntry) * kRecent, &error));
    if (recent_ != nullptr) recent_capacity_ = kRecent;
    return;
  }
  constexpr std::uint32_t kOlder = kRecent / 2;
  if (recent_count_ < kRecent / 4 * 3 || !prepare_packed(roomy)) return;
  for (std::uint32_t i = 0; i < kOlder; ++i) {
    const Packed entry(recent_[i], packed_newest_);
    entry.write(packed_ + packed_bytes_);
    packed_bytes_ += entry.bytes();
    packed_newest_ = recent_[i];
  }
  packed_count_ += kOlder;
  recent_count_ -= kOlder;
  std::memmove(recent_, recent_ + kOlder, sizeof(MadeEntry) * recent_count_);
}

bool MadeList::Repacking::next() {
  if (walk_left_ == 0) return false;
  entry_ = step(list_.packed_, &walk_left_, &older_);
  return true;
}

void MadeList::Repacking::write(const MadeEntry& older) {
  const Packed entry(unwritten_, older);
  begin_ -= entry.bytes();
  CULPRIT_ASSERT(begin_ >= walk_left_);
  entry.write(list_.packed_ + begin_);
}

void MadeList::Repacking::keep() {
  if (kept_++ == 0) {
    newest_ = entry_;
  } else {
    write(entry_);
  }
  unwritten_ = entry_;
}

MadeList::Repacking::~Repacking() {
  if (kept_ != 0) write({});
  list_.packed_bytes_ -= begin_;
  list_.packed_newest_ = newest_;
  list_.packed_count_ = kept_;
  // A list of recent entries only has no packed ones, and no memory for them.
  if (list_.packed_bytes_ != 0) std::memmove(list_.packed_, list_.packed_ + begin_, list_.packed_bytes_);
}

void MadeList::set_clocks(std::uint32_t clock) {
  for (std::uint32_t i = 0; i < recent_count_; ++i) recent_[i].clock = clock;
  packed_bytes_ = packed_count_ = 0;
  packed_newest_ = {};
}

void MadeList::clear() {
  recent_count_ = packed_bytes_ = packed_count_ = 0;
  packed_newest_ = {};
}

void MadeList::free_memory() {
  if (recent_ != nullptr) unmap_private(recent_, sizeof(MadeEntry) * kRecent);
  if (packed_ != nullptr) unmap_private(packed_, packed_capacity_);
  *this = {};
}

}  // namespace culprit
