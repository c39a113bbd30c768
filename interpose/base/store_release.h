// Publishes a value of a scoped enumeration, as the states of records in the dump are. __atomic_store_n() takes such a
// value in gcc only; clang and clang-tidy want the value's address, of which gcc makes the same code.
#pragma once

namespace culprit {

template <typename Enum>
inline __attribute__((always_inline)) void store_release(Enum* place, Enum value) {
  __atomic_store(place, &value, __ATOMIC_RELEASE);
}

}  // namespace culprit
