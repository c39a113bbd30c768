// An open-addressing index in private memory: 64-bit key -> 32-bit value, several values per key allowed. Grows by
// mapping a larger table; never calls malloc. Not thread-safe: the caller locks. All zeros = empty.
//
// A jump from a signal handler out of put() or erase() leaves the entries inconsistent but readable; repair() keeps the
// valid ones.
#pragma once

#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/own_stack.h"

namespace culprit {

class HashIndex {
 public:
  struct Entry {
    std::uint64_t key;
    std::uint32_t value;  // 0 = free slot
    std::uint32_t tag;    // the caller's, to distinguish equal keys
  };

  // Adds an entry (value != 0). Returns false when the table had to grow and there was no memory.
  bool insert(std::uint64_t key, std::uint32_t value, std::uint32_t tag) {
    if ((count_ + 1) * 4 > capacity_ * 3 && !grow()) return false;
    place(entries_, capacity_ - 1, {key, value, tag});
    ++count_;
    return true;
  }

  // Inserts an entry for a unique pair of key and tag: `replaced` receives the old value, 0 if there was none.
  bool put(std::uint64_t key, std::uint32_t value, std::uint32_t tag, std::uint32_t* replaced) {
    if ((count_ + 1) * 4 > capacity_ * 3 && !grow()) return false;
    std::uint32_t mask = capacity_ - 1;
    std::uint32_t i = slot(key, mask);
    for (; entries_[i].value != 0; i = (i + 1) & mask) {
      if (entries_[i].key == key && entries_[i].tag == tag) break;
    }
    *replaced = entries_[i].value;
    if (*replaced == 0) ++count_;
    store(&entries_[i], {key, value, tag});
    return true;
  }

  // Calls `accept(entry)` for each entry with this key until it returns true; returns that entry, or nullptr.
  template <typename Accept>
  Entry* find(std::uint64_t key, Accept accept) {
    if (capacity_ == 0) return nullptr;
    std::uint32_t mask = capacity_ - 1;
    for (std::uint32_t i = slot(key, mask); entries_[i].value != 0; i = (i + 1) & mask) {
      if (entries_[i].key == key && accept(entries_[i])) return &entries_[i];
    }
    return nullptr;
  }

  // The first entry of the table that `accept(entry)` is true for, nullptr if there is none. Walks everything.
  template <typename Accept>
  Entry* find_any(Accept accept) {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      if (entries_[i].value != 0 && accept(entries_[i])) return &entries_[i];
    }
    return nullptr;
  }

  // An entry with this key, nullptr if there is none: for keys with one value each.
  Entry* find(std::uint64_t key) {
    return find(key, [](const Entry&) { return true; });
  }

  // One of the entries with this key whose tag, without its lowest eight bits, is `tag`, and whether there are several.
  struct Found {
    Entry* entry;
    bool several;
  };
  Found find_by_tag(std::uint64_t key, std::uint32_t tag) {
    Found found = {nullptr, false};
    if (capacity_ == 0) return found;
    std::uint32_t mask = capacity_ - 1;
    for (std::uint32_t i = slot(key, mask); entries_[i].value != 0; i = (i + 1) & mask) {
      if (entries_[i].key != key || entries_[i].tag >> 8 != tag) continue;
      found.several = found.entry != nullptr;
      found.entry = &entries_[i];
      if (found.several) break;
    }
    return found;
  }

  // Removes an entry that find() returned. Closes the gap, so that no tombstones slow down later look-ups.
  void erase(Entry* entry) {
    std::uint32_t mask = capacity_ - 1;
    std::uint32_t hole = static_cast<std::uint32_t>(entry - entries_);
    for (std::uint32_t i = (hole + 1) & mask; entries_[i].value != 0; i = (i + 1) & mask) {
      std::uint32_t home = slot(entries_[i].key, mask);
      if (((i - home) & mask) >= ((i - hole) & mask)) {
        store(&entries_[hole], entries_[i]);
        hole = i;
      }
    }
    entries_[hole].value = 0;
    --count_;
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      if (entries_[i].value != 0) visit(entries_[i]);
    }
  }

  // Removes every entry for which keep(entry) is false, and shrinks the table when few are left.
  template <typename Keep>
  void filter(Keep keep) {
    std::uint32_t kept = 0;
    for_each([&](const Entry& entry) { kept += keep(entry) ? 1 : 0; });
    if (kept == count_) return;
    std::uint32_t capacity = kFirstCapacity;
    while (capacity < capacity_ && (kept + 1) * 2 > capacity) capacity *= 2;
    int error = 0;
    auto* entries = static_cast<Entry*>(map_private(sizeof(Entry) * static_cast<std::uint64_t>(capacity), &error));
    if (entries == nullptr) {
      erase_all_but(keep);
      return;
    }
    for_each([&](const Entry& entry) {
      if (keep(entry)) place(entries, capacity - 1, entry);
    });
    unmap_private(entries_, sizeof(Entry) * static_cast<std::uint64_t>(capacity_));
    entries_ = entries;
    capacity_ = capacity;
    count_ = kept;
  }

  void clear() {
    for (std::uint32_t i = 0; i < capacity_; ++i) entries_[i].value = 0;
    count_ = 0;
  }

  std::uint32_t size() const { return count_; }

  // Keeps one copy of each entry for which is_right(entry) is true, and drops the rest. Returns false, without a
  // change, when there is no memory.
  template <typename IsRight>
  bool repair(IsRight is_right) {
    if (capacity_ == 0) return true;
    HashIndex sound = {};
    int error = 0;
    sound.entries_ = static_cast<Entry*>(map_private(sizeof(Entry) * static_cast<std::uint64_t>(capacity_), &error));
    if (sound.entries_ == nullptr) return false;
    sound.capacity_ = capacity_;
    for_each([&](const Entry& entry) {
      if (!is_right(entry) || sound.find(entry.key, [&](const Entry& other) { return other.value == entry.value; }))
        return;
      place(sound.entries_, capacity_ - 1, entry);
      ++sound.count_;
    });
    free_memory();
    *this = sound;
    return true;
  }

  // Gives the memory back; empty afterwards.
  void free_memory() {
    if (entries_ != nullptr) unmap_private(entries_, sizeof(Entry) * static_cast<std::uint64_t>(capacity_));
    *this = {};
  }

 private:
  static constexpr std::uint32_t kFirstCapacity = 256;  // one page of 16-byte entries

  // Skips the uppermost eight bits, by which LiveTable chooses the shard.
  static std::uint32_t slot(std::uint64_t key, std::uint32_t mask) {
    return static_cast<std::uint32_t>(quick_hash(key) << 8 >> __builtin_clzll(mask));
  }

  // Stores the value last: an entry with a value has its key.
  static void store(Entry* to, const Entry& entry) {
    to->key = entry.key;
    to->tag = entry.tag;
    asm volatile("" ::: "memory");
    to->value = entry.value;
  }

  static void place(Entry* entries, std::uint32_t mask, const Entry& entry) {
    std::uint32_t i = slot(entry.key, mask);
    while (entries[i].value != 0) i = (i + 1) & mask;
    store(&entries[i], entry);
  }

  // filter() without memory for a new table. Erasing moves entries, also from the table's end to its beginning, so it
  // repeats until a pass erases nothing.
  template <typename Keep>
  CULPRIT_COLD void erase_all_but(Keep keep) {
    for (bool again = true; again;) {
      again = false;
      for (std::uint32_t i = 0; i < capacity_; ++i) {
        for (; entries_[i].value != 0 && !keep(entries_[i]); again = true) erase(&entries_[i]);
      }
    }
  }

  CULPRIT_COLD bool grow() {
    return on_own_stack([this] { return grow_here(); });
  }
  bool grow_here() {
    std::uint32_t capacity = capacity_ == 0 ? kFirstCapacity : capacity_ * 2;
    int error = 0;
    auto* entries = static_cast<Entry*>(map_private(sizeof(Entry) * static_cast<std::uint64_t>(capacity), &error));
    if (entries == nullptr) return false;
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      if (entries_[i].value != 0) place(entries, capacity - 1, entries_[i]);
    }
    if (entries_ != nullptr) unmap_private(entries_, sizeof(Entry) * static_cast<std::uint64_t>(capacity_));
    entries_ = entries;
    capacity_ = capacity;
    return true;
  }

  Entry* entries_;
  std::uint32_t capacity_;
  std::uint32_t count_;
};

}  // namespace culprit
