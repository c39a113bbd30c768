// A list of objects that contain their own links. Adding and removing an object takes the same time in a list of any
// length: each thread is in several of these lists, and thousands of threads may end at once. Not thread-safe: the
// caller locks. All zeros = an empty list, and a link that is in no list. A list must not move in memory.
#pragma once

namespace culprit {

template <typename T>
struct ListLink {
  T* next;
  T** place;  // the pointer to this object: the list's `first`, or the one before's `next`; nullptr = in no list

  bool is_in_list() const { return place != nullptr; }
};

template <typename T, ListLink<T> T::*link>
class LinkedList {
 public:
  void add(T* object) {
    ListLink<T>& added = object->*link;
    added.next = first_;
    added.place = &first_;
    if (first_ != nullptr) (first_->*link).place = &added.next;
    first_ = object;
  }

  // Does nothing for an object that is in no list.
  static void remove(T* object) {
    ListLink<T>& removed = object->*link;
    if (!removed.is_in_list()) return;
    *removed.place = removed.next;
    if (removed.next != nullptr) (removed.next->*link).place = removed.place;
    removed = {};
  }

  class Iterator {
   public:
    explicit Iterator(T* object) : object_(object) {}
    T& operator*() const { return *object_; }
    Iterator& operator++() {
      object_ = (object_->*link).next;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return object_ != other.object_; }

   private:
    T* object_;
  };
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(nullptr); }

 private:
  T* first_;
};

}  // namespace culprit
