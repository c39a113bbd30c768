// Memory filled with known bytes: a stack that is measured, or a guard next to a stack.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include "tests/guest/programs/guest.h"

namespace guest {

constexpr unsigned char kPaint = 0xA5;

class Painted {
 public:
  explicit Painted(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(memory != MAP_FAILED);
    memory_ = static_cast<unsigned char*>(memory);
    paint();
  }
  ~Painted() { munmap(memory_, bytes_); }
  Painted(const Painted&) = delete;
  Painted& operator=(const Painted&) = delete;

  unsigned char* memory() const { return memory_; }
  size_t bytes() const { return bytes_; }
  void paint() { memset(memory_, kPaint, bytes_); }
  // The lowest byte with another value; the end when there is none.
  unsigned char* lowest_touched() const {
    unsigned char* at = memory_;
    while (at != memory_ + bytes_ && *at == kPaint) ++at;
    return at;
  }

 private:
  unsigned char* memory_;
  size_t bytes_;
};

// A stack of `bytes` with other memory directly below it, like the stacks of a pool of coroutines.
class StackWithNeighbour {
 public:
  explicit StackWithNeighbour(size_t bytes) : bytes_(bytes), all_(kNeighbour + bytes) {}
  void* stack() const { return all_.memory() + kNeighbour; }
  size_t bytes() const { return bytes_; }
  bool neighbour_is_whole() const { return all_.lowest_touched() >= all_.memory() + kNeighbour; }

 private:
  static constexpr size_t kNeighbour = 128 * 1024;
  size_t bytes_;
  Painted all_;
};

// Runs `function` on a stack of its own and returns.
inline void run_on(void* stack, size_t bytes, void (*function)()) {
  ucontext_t here;
  ucontext_t there;
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = bytes;
  there.uc_link = &here;
  makecontext(&there, function, 0);
  HOLDS(swapcontext(&here, &there) == 0);
}

}  // namespace guest
