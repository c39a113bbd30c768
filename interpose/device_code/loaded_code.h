// Which device code is loaded, and the names of its variables, for a search that needs to read them.
//
// nvcc puts code into a read-only part of the program's file: only its address is kept, and it is read by the
// search. An image elsewhere (made while the program runs, or read from a file) may be gone by then: its names are read
// when it is loaded.
//
// Thread-safe; functions run on the tracker's own stack unless they say otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/device_code/code_reader.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

// The code that a call loads: an image in memory, or a file.
struct CodeSource {
  const void* image;
  const char* path;
};

// All zeros: no code.
class LoadedCode {
 public:
  // A module or a library was loaded. `reads_now`: whether names may be read at once where they have to be.
  void add(std::uint64_t handle, const CodeSource& source, bool reads_now);
  // It was unloaded. On any stack.
  void remove(std::uint64_t handle);
  // A kernel or a variable of a library was asked for: each context loads a library's code then. On any stack.
  void note_use(std::uint64_t handle);

  // A kernel was looked up. On any stack.
  void note_kernel(std::uint64_t handle);
  // Code ended: the memory of a kernel may be the program's now. On any stack.
  void forget_kernels();
  // Calls visit(handle) for each kernel that was looked up since.
  template <typename Visit>
  void for_each_kernel(Visit visit) const {
    for (const std::atomic<std::uint64_t>& place : kernels_) {
      if (const std::uint64_t handle = place.load(std::memory_order_relaxed)) visit(handle);
    }
  }

  enum class Known {
    kAll,      // the names of all variables in which a program's pointers may be
    kNotUsed,  // none exists yet
    kNotAll,
  };
  // Adds the names of the code with this handle. `architectures`: of the GPUs here. `budget`: bytes of images; what is
  // read is subtracted.
  Known names_of(std::uint64_t handle, bool is_library, const Architectures& architectures, std::uint64_t* budget,
                 VariableNames* names);

 private:
  struct Entry {
    std::atomic<std::uint64_t> handle;  // 0: was never used; kRemoved: may be used again
    std::uint64_t image;                // in the program's file; 0: see `list`
    std::uint32_t list;                 // 1 + the place of its names; 0: they are not known
    std::atomic<bool> used;
  };
  // In lists_: the names of images that may be gone.
  struct List {
    std::uint32_t bytes;
    std::uint32_t count;
    std::uint32_t images;
  };
  static constexpr std::uint32_t kMost = 8192;
  static constexpr std::uint32_t kTries = 64;
  static constexpr std::uint64_t kRemoved = ~std::uint64_t{0};
  static constexpr std::uint64_t kTaken = kRemoved - 1;
  static constexpr std::uint32_t kListBytes = 1 << 20;
  static constexpr std::uint64_t kMostImage = 16 << 20;  // of one that is read when it is loaded

  Entry* find(std::uint64_t handle);
  // Takes an entry; the caller stores its handle at last. nullptr: there is none.
  Entry* take_entry(std::uint64_t handle);
  std::uint32_t keep_names(const CodeSource& source);
  std::uint32_t keep_list(const VariableNames& names);

  static constexpr std::uint32_t kMostKernels = 32768;  // only pages that are used take memory

  Entry entries_[kMost];
  std::atomic<std::uint64_t> kernels_[kMostKernels];
  std::atomic<bool> has_kernels_;
  SpinLock lock_;  // of changes of what follows
  char* lists_;
  std::uint32_t list_bytes_;
};

}  // namespace culprit
