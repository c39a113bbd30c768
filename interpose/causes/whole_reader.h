// Reads ranges of this process's memory in whole, byte by byte: a pointer may lie at any address. Unlike
// read_written_memory() it says when a page that has data could not be read.
#pragma once

#include <cstdint>

#include "interpose/causes/root_ranges.h"

namespace culprit {

enum class WholeRead { kDone, kUnreadable, kGivenUp };

// Private memory of its own, never malloc. Not thread-safe.
class WholeReader {
 public:
  // Receives a copy of the `bytes` bytes at `address`. Each pointer in the range is whole in one of the copies.
  using Visit = void (*)(void* context, const unsigned char* copy, std::uint64_t bytes, std::uint64_t address);

  // False without memory.
  bool open(std::uint64_t most_bytes, std::uint64_t deadline_ns, Visit visit, void* context);
  void close();

  // Pages of private memory that were never written are left out, if the kernel reports them.
  WholeRead read(const RootRange& range);

  std::uint64_t bytes_read() const { return bytes_; }

 private:
  static constexpr std::uint64_t kBlock = 256 << 10;
  static constexpr std::uint64_t kPagesAtOnce = 4096;
  static constexpr std::uint64_t kPage = 4096;

  bool has_page(std::uint64_t address);
  WholeRead read_private(const RootRange& range);
  WholeRead read_plainly(std::uint64_t begin, std::uint64_t end, bool must);

  std::uint64_t most_bytes_ = 0;
  std::uint64_t deadline_ns_ = 0;
  Visit visit_ = nullptr;
  void* context_ = nullptr;
  unsigned char* block_ = nullptr;
  std::uint64_t* pages_ = nullptr;
  int pagemap_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace culprit
