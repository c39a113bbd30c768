// A growing array in private memory, never malloc's. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/system/own_memory.h"

namespace culprit {

// `T`: a type for which all zeros are a value.
template <typename T>
class PrivateArray {
 public:
  PrivateArray() = default;
  ~PrivateArray() { unmap_private(items_, room_ * kBytes); }
  PrivateArray(const PrivateArray&) = delete;
  PrivateArray& operator=(const PrivateArray&) = delete;

  // False without memory.
  bool push(T item) {
    if (count_ == room_ && !grow_to(room_ == 0 ? kFirst : 2 * room_)) return false;
    items_[count_++] = item;
    return true;
  }
  // Makes it `count` zeros. Called once. False without memory.
  bool fill(std::uint64_t count) {
    if (!grow_to(count)) return false;
    count_ = count;
    return true;
  }
  // The memory stays.
  void clear() { count_ = 0; }
  // Leaves out the items for which keep(ITEM) is false. The others stay in their order.
  template <typename Keep>
  void keep_if(Keep keep) {
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (keep(items_[i])) items_[kept++] = items_[i];
    }
    count_ = kept;
  }
  // An index below size().
  T& operator[](std::uint64_t i) { return items_[i]; }  // NOLINT(clang-analyzer-core.uninitialized.UndefReturn)
  const T& operator[](std::uint64_t i) const { return items_[i]; }
  std::uint64_t size() const { return count_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  T* end() { return items_ + count_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + count_; }
  void swap(PrivateArray& other) {
    const auto exchange = [](auto& one, auto& another) {
      const auto kept = one;
      one = another;
      another = kept;
    };
    exchange(items_, other.items_);
    exchange(count_, other.count_);
    exchange(room_, other.room_);
  }

 private:
  static constexpr std::uint64_t kFirst = 1 << 16;
  static constexpr std::uint64_t kBytes = sizeof(T);

  bool grow_to(std::uint64_t room) {
    if (room == 0) return true;
    int error = 0;
    void* memory =
        items_ == nullptr ? map_private(room * kBytes, &error) : enlarge_private(items_, room_ * kBytes, room * kBytes);
    if (memory == nullptr) return false;
    items_ = static_cast<T*>(memory);
    room_ = room;
    return true;
  }

  T* items_ = nullptr;
  std::uint64_t count_ = 0, room_ = 0;
};

}  // namespace culprit
