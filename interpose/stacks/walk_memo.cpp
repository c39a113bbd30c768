#include "interpose/stacks/walk_memo.h"

#include <atomic>
#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/stacks/walk_reader.h"

namespace culprit {
namespace {

constexpr std::uint64_t kPage = 4096;
std::uint64_t page_of(std::uint64_t address) { return address & ~(kPage - 1); }

}  // namespace

// The place of the node that is reached, or of the end of the search for it.
std::uint16_t* WalkMemo::place_of(std::uint32_t from, std::uint64_t value) {
  std::uint64_t place = quick_hash(value ^ std::uint64_t{from} << 40) >> 40;
  for (;; ++place) {
    std::uint16_t* number = &places_[place % kPlaces];
    if (*number == 0 || (node(*number).from == from && node(*number).value == value)) return number;
  }
}

std::uint32_t WalkMemo::next(std::uint32_t from, std::uint64_t value) const {
  if (from < node_count_ && nodes_[from].from == from && nodes_[from].value == value) return from + 1;
  return *const_cast<WalkMemo*>(this)->place_of(from, value);
}

template <typename Read>
format::Ref WalkMemo::follow(const std::uint64_t* frame, std::uint32_t* path, Read read) const {
  std::uint32_t number = next(0, reinterpret_cast<std::uint64_t>(frame));
  while (number != 0) {
    const Node& at = node(number);
    if (at.is_leaf) {
      *path = leaves_[at.address].path;
      return leaves_[at.address].stack;
    }
    std::uint64_t value = 0;
    if (!read(at, &value)) return 0;
    number = next(number, WalkedWords::decisive(at.kind, value, at.cfa));
  }
  return 0;
}

format::Ref WalkMemo::look_up_in_place(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path) {
  if (node_count_ == 0 || generation != generation_) return 0;
  constexpr std::uint32_t kOften = 64;
  if (++look_ups_ % kOften == 0 && modules_were_added(&modules_)) {
    forget_all();
    return 0;
  }
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  const std::uint64_t begin = page_of(base);
  std::uint64_t end = base >= stack_.begin && base < stack_.end ? stack_.end : begin + kPage;
  return follow(frame, path, [&](const Node& at, std::uint64_t* value) {
    if (at.certain && at.address >= end) end = page_of(at.address) + kPage;
    if (at.address < begin || at.address >= end || end - at.address < sizeof(*value)) return false;
    *value = read_in_place(at.address);
    return true;
  });
}

format::Ref WalkMemo::look_up(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path) {
  if (node_count_ == 0) return 0;
  if (generation != generation_) {
    forget_all();
    return 0;
  }
  WalkReader reader(nullptr);
  reader.trust(reinterpret_cast<std::uint64_t>(frame));
  reader.begin_guessing();
  const format::Ref stack = follow(frame, path, [&](const Node& at, std::uint64_t* value) {
    if (at.certain) reader.trust(at.address);
    return reader.read(at.address, value);
  });
  if (stack != 0) learn_stack(reinterpret_cast<std::uint64_t>(frame));
  return stack;
}

// A thread that is found in this slow way again and again finds out where its stack is.
void WalkMemo::learn_stack(std::uint64_t frame) {
  constexpr std::uint32_t kOften = 16;
  if (++slow_look_ups_ < kOften << searches_ || searches_ == kMostSearches) return;
  slow_look_ups_ = 0;
  ++searches_;
  const ThreadStack found = find_thread_stack(frame);
  if (found.end != 0) stack_ = found;
}

void WalkMemo::remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack, std::uint32_t path,
                        const WalkedWords& words) {
  if (!words.complete || stack == 0 || words.count == 0) return;
  const std::uint32_t wanted = static_cast<std::uint32_t>(words.count) + 1;
  if (generation != generation_ || node_count_ + wanted > kNodes || leaf_count_ == kLeaves) forget_all();
  // An overwritten stack was copied to its users before: see stack_collection.h.
  std::atomic_thread_fence(std::memory_order_release);
  if (node_count_ == 0) {
    generation_ = generation;
    modules_were_added(&modules_);
  }
  std::uint32_t from = 0;
  std::uint64_t value = reinterpret_cast<std::uint64_t>(frame);
  for (int i = 0; i <= words.count; ++i) {
    const bool is_leaf = i == words.count;
    const WalkedWords::Word word = is_leaf ? WalkedWords::Word{} : words.words[i];
    std::uint16_t* number = place_of(from, value);
    if (*number == 0) {
      nodes_[node_count_] = {value,   from, word.kind, word.certain, is_leaf, is_leaf ? leaf_count_++ : word.address,
                             word.cfa};
      *number = static_cast<std::uint16_t>(++node_count_);
    }
    const Node& at = node(*number);
    // An equal walk read another word next, or ended there: memory has become readable, or unreadable.
    if (at.is_leaf != is_leaf || (!is_leaf && at.address != word.address)) return;
    if (is_leaf) {
      Leaf& leaf = leaves_[at.address];
      leaf.path = path;
      __atomic_store_n(&leaf.stack, stack, __ATOMIC_RELEASE);
    }
    from = *number;
    value = word.value;
  }
}

void WalkMemo::forget_all() {
  std::atomic_thread_fence(std::memory_order_release);
  for (std::uint32_t i = 0; i < leaf_count_; ++i) leaves_[i] = {};
  if (node_count_ != 0) std::memset(places_, 0, sizeof(places_));
  node_count_ = 0;
  leaf_count_ = 0;
}

void WalkMemo::change_thread() {
  forget_all();
  look_ups_ = slow_look_ups_ = searches_ = 0;
  stack_ = {};
}

}  // namespace culprit
