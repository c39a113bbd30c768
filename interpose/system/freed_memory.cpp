#include "interpose/system/freed_memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "interpose/system/clock.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

constexpr std::uint32_t kMost = 4096;
constexpr std::uint64_t kPart = 2 << 20;  // a tenth of a millisecond

struct Freed {
  std::atomic<unsigned char*> address;  // stored last; nullptr = not yet
  std::uint64_t bytes;
  std::uint64_t used;
};
Freed freed[kMost];
std::atomic<std::uint32_t> freed_count;
std::atomic<bool> frees_later;
std::atomic<int> process_of_freed;

}  // namespace

FreesLater::FreesLater() {
  const int pid = static_cast<int>(getpid());
  if (process_of_freed.exchange(pid) != pid) freed_count.store(0);
  frees_later.store(true);
}

FreesLater::~FreesLater() { frees_later.store(false); }

bool free_later(void* address, std::uint64_t bytes, std::uint64_t used) {
  if (!frees_later.load()) return false;
  const std::uint32_t at = freed_count.fetch_add(1);
  if (at >= kMost) {
    freed_count.fetch_sub(1);
    return false;
  }
  freed[at].bytes = bytes;
  freed[at].used = used;
  freed[at].address.store(static_cast<unsigned char*>(address), std::memory_order_release);
  return true;
}

bool unmap_freed(std::uint64_t until) {
  if (process_of_freed.load() != static_cast<int>(getpid())) return true;
  while (freed_count.load() > 0) {
    Freed& last = freed[freed_count.load() - 1];
    unsigned char* address = last.address.load(std::memory_order_acquire);
    if (address == nullptr) return false;  // another thread is about to store it
    // A rest without pages goes at once with the last part.
    const std::uint64_t part = last.used > kPart ? kPart : last.bytes;
    os.unmap(address, part);
    last.bytes -= part;
    last.used -= std::min(part, last.used);
    last.address.store(last.bytes == 0 ? nullptr : address + part, std::memory_order_release);
    if (last.bytes == 0) freed_count.fetch_sub(1);
    if (clock_ns(CLOCK_MONOTONIC) >= until) break;
  }
  return freed_count.load() == 0;
}

}  // namespace culprit
