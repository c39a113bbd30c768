// The environment, read in a process whose other threads change it, or that has none any more.
//
// libc's getenv() is safe only as long as no thread calls setenv(): the array moves, and glibc before 2.41 and musl
// free what they replace. A program that never calls getenv() may rely on that, so we must not call it in its place.
// Here the array and the strings are read by system calls, which fail where a plain read would crash, and a variable
// counts when its entry stands in the array still, after it was copied.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

// Which variables are wanted: `name` has `length` letters, and no NUL behind them.
using WantsVariable = bool (*)(const char* name, std::size_t length, const void* data);

// Copies of variables: "NAME=value" and a NUL each. All zeros = empty. A value that is longer than a path can be is cut
// behind that length; a variable that finds no room is left out.
class VariableCopies {
 public:
  static constexpr std::size_t kLongestName = 255;
  static constexpr std::size_t kLongestValue = 4096;  // one more than a path of Linux has
  void clear() { used_ = 0; }
  // The value, nullptr when there is no copy. `length`: of the name.
  const char* find(const char* name, std::size_t length) const;
  // `entry`: NAME=value of `length` letters.
  void add(const char* entry, std::size_t length);

 private:
  static constexpr std::size_t kBytes = (64 << 10) - sizeof(std::uint32_t);
  std::uint32_t used_;
  char text_[kBytes];
};

// The array that the loader passes to constructors: for a process that runs no other code yet.
// Returns whether there was one.
bool copy_variables_at_load(char* const* entries, WantsVariable wants, const void* data, VariableCopies* copies);

// The environment as the kernel laid it out for the process's start: the array, and the strings behind one another, in
// the stack of the first thread.
class StartEnvironment {
 public:
  // `entries`: the array that the loader passes to constructors.
  void remember(char* const* entries);
  // Whether it is the environment still, with every byte as it was. False also where it is too large to be remembered.
  // Thread-safe, async-signal-safe.
  bool is_unchanged() const;

 private:
  static constexpr std::size_t kMostBytes = 32 << 10;
  std::uint64_t sum() const;

  char* const* entries_;
  const char* first_;
  std::uint64_t sum_;  // 0 = not remembered
};

// The variables that the process was started with, from /proc: for code that runs before libc knows its environment.
// False: they cannot be read. On the tracker's own stack only.
bool copy_variables_of_start(WantsVariable wants, const void* data, VariableCopies* copies);

// The variables of now. False: they could not be read, or the array changed all the time: some may be missing. On the
// tracker's own stack only. Thread-safe, async-signal-safe.
bool copy_variables(WantsVariable wants, const void* data, VariableCopies* copies);

// copy_variables() for an array that `where` points to.
bool copy_variables_of(char** const* where, WantsVariable wants, const void* data, VariableCopies* copies);

}  // namespace culprit
