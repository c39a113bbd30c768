#include "interpose/system/own_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "interpose/base/own_module.h"
#include "interpose/system/freed_memory.h"
#include "interpose/system/os.h"
#include "interpose/system/own_files.h"
#include "interpose/system/own_ranges.h"
#include "interpose/system/restrictions.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace culprit {
namespace {

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLookEvery = 64 << 10;
constexpr int kPopulateWrite = 23;         // MADV_POPULATE_WRITE of Linux 5.14
constexpr std::uint64_t kShare = 16;       // of the limit, for all our mappings
constexpr std::uint64_t kPieceShare = 64;  // of the rest, for one piece of the dump's range

// Bytes mapped through this file by the process with the pid `holder` (a fork child starts at 0): private memory, and
// the dump's range as far as it was reserved under a limit. If a program sets its limit later, earlier mappings count
// too.
std::atomic<std::uint64_t> held_private;
std::atomic<std::uint64_t> held_range;
std::atomic<int> holder;
std::atomic<std::uint64_t> mapped_since_look;
std::atomic<bool> refused_locked;  // a mapping failed because of RLIMIT_MEMLOCK

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void begin_anew_in_child() {
  const int pid = static_cast<int>(getpid());
  const int before = holder.exchange(pid, std::memory_order_relaxed);
  if (before == pid) return;
  held_private.store(0, std::memory_order_relaxed);
  held_range.store(0, std::memory_order_relaxed);
  if (before != 0) forget_all_own_ranges();
}

// Whether `held` is within our share of the limit of `resource`.
bool in_share(std::uint64_t held, int resource) {
  const std::uint64_t limit = os.limit(resource);
  return limit == kNoLimit || held <= limit / kShare;
}

void give_private(std::uint64_t bytes) { held_private.fetch_sub(round_up(bytes), std::memory_order_relaxed); }

bool take_private(std::uint64_t bytes) {
  begin_anew_in_child();
  const std::uint64_t held = held_private.fetch_add(round_up(bytes), std::memory_order_relaxed) + round_up(bytes);
  if (in_share(held, RLIMIT_DATA) && in_share(held + held_range.load(std::memory_order_relaxed), RLIMIT_AS))
    return true;
  give_private(bytes);
  return false;
}

bool take_range(std::uint64_t bytes) {
  begin_anew_in_child();
  if (os.limit(RLIMIT_AS) == kNoLimit) return true;
  const std::uint64_t held = held_range.load(std::memory_order_relaxed) + bytes;
  if (!in_share(held + held_private.load(std::memory_order_relaxed), RLIMIT_AS)) return false;
  held_range.store(held, std::memory_order_relaxed);
  return true;
}

struct Mapping {
  void* address;
  std::uint64_t bytes;
  int protection;
  int flags;
  int fd;
  std::uint64_t offset;
};

// See "Locked memory" in own_memory.h. `where`: the final address, nullptr for any.
void* map_unlocked(const Mapping& wanted, int* error) {
  const bool replaces =
      (wanted.flags & MAP_FIXED) != 0;  // in our own range: the page must not be enlarged over the rest of it
  void* page = os.map(replaces ? nullptr : wanted.address, kPage, wanted.protection, wanted.flags & ~MAP_FIXED,
                      wanted.fd, wanted.offset, error);
  if (page == nullptr) return nullptr;
  os.unlock(page, kPage);
  if (wanted.bytes <= kPage && !replaces) return page;
  void* whole = os.remap(page, kPage, wanted.bytes, replaces ? wanted.address : nullptr,
                         (wanted.flags & MAP_FIXED_NOREPLACE) != 0, error);
  if (whole == nullptr) os.unmap(page, kPage);
  return whole;
}

// Checked again whenever this many bytes were mapped: a check takes 15 us, too long for each small table.
bool memory_locked_now(std::uint64_t bytes) {
  if (!memory_locked() && mapped_since_look.fetch_add(bytes, std::memory_order_relaxed) + bytes >= kLookEvery) {
    mapped_since_look.store(0, std::memory_order_relaxed);
    look_at_restrictions();
  }
  return memory_locked();
}

void* map(const Mapping& wanted, int* error) {
  void* mapped = nullptr;
  if (!memory_locked_now(wanted.bytes) && !refused_locked.load(std::memory_order_relaxed)) {
    mapped = os.map(wanted.address, wanted.bytes, wanted.protection, wanted.flags, wanted.fd, wanted.offset, error);
    if (mapped != nullptr || *error != EAGAIN) return mapped;
    refused_locked.store(true, std::memory_order_relaxed);
  }
  *error = 0;
  return map_unlocked(wanted, error);
}

// An address in the middle of the address space, away from growing mappings: the kernel places mappings downwards from
// the stack, and the heap grows upwards from the program. Sanitizers keep their shadow memory below and above. The
// offset is as random as our own load address.
unsigned char* place_with_room() {
  const std::uint64_t random = reinterpret_cast<std::uint64_t>(__ehdr_start) & 0xfffffff000;
  return reinterpret_cast<unsigned char*>(0x200000000000 + random);
}

// Pages of the process's address space, the first number of /proc/*/statm.
std::uint64_t address_space_in_use() {
  char text[128];
  if (read_own_file("statm", text, sizeof(text)) == 0) return 0;
  return std::strtoull(text, nullptr, 10) * kPage;
}

}  // namespace

void keep_own_ranges_in_copy() { holder.store(static_cast<int>(getpid()), std::memory_order_relaxed); }

void* map_private(std::uint64_t bytes, int* error) {
  if (!take_private(bytes)) {
    *error = ENOMEM;
    return nullptr;
  }
  void* memory = map({nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, error);
  if (memory == nullptr) {
    give_private(bytes);
  } else {
    note_own_range(memory, bytes);
  }
  return memory;
}

// Copies instead of mremap(2), which a seccomp filter may forbid.
void* enlarge_private(void* memory, std::uint64_t old_bytes, std::uint64_t bytes) {
  int error = 0;
  void* larger = map_private(bytes, &error);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, memory, old_bytes);
  unmap_private(memory, old_bytes);
  return larger;
}

void unmap_private(void* memory, std::uint64_t bytes) {
  forget_own_range(memory);
  if (!free_later(memory, bytes, bytes)) os.unmap(memory, bytes);
  give_private(bytes);
}

bool memory_is_limited() { return os.limit(RLIMIT_AS) != kNoLimit || os.limit(RLIMIT_DATA) != kNoLimit; }

int map_in_range(void* address, std::uint64_t bytes, int fd, std::uint64_t offset) {
  const int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  int error = 0;
  if (map({address, bytes, PROT_READ | PROT_WRITE, flags, fd, offset}, &error) == nullptr) return error;
  return 0;
}

int continue_mapping(unsigned char* address, std::uint64_t bytes) {
  // Maps the page below a second time, together with the next part of the file, and moves that part to its place. The
  // new mapping is unlocked like the present one.
  int error = 0;
  auto* twice = static_cast<unsigned char*>(os.remap(address - kPage, 0, kPage + bytes, nullptr, false, &error));
  if (twice == nullptr) return error;
  const bool moved = os.remap(twice + kPage, bytes, bytes, address, false, &error) != nullptr;
  os.unmap(twice, moved ? kPage : kPage + bytes);
  if (!moved) return error;
  const int filled = os.advise(address, bytes, kPopulateWrite);
  return filled == -EFAULT || filled == -ENOSPC ? ENOSPC : 0;
}

unsigned char* reserve_range(unsigned char* address, std::uint64_t bytes, int* error) {
  *error = ENOMEM;
  if (!take_range(bytes)) return nullptr;
  // Without a limit the range is as large as the largest dump, and the kernel chooses its address.
  unsigned char* wanted = address;
  if (address == nullptr && os.limit(RLIMIT_AS) != kNoLimit) wanted = place_with_room();
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* mapped = map({wanted, bytes, PROT_NONE, flags, -1, 0}, error);
  // A kernel without MAP_FIXED_NOREPLACE (before 4.17) takes the address as a hint.
  if (mapped != nullptr && address != nullptr && mapped != address) {
    os.unmap(mapped, bytes);
    mapped = nullptr;
    *error = EEXIST;
  }
  if (mapped == nullptr) {
    if (os.limit(RLIMIT_AS) != kNoLimit) held_range.fetch_sub(bytes, std::memory_order_relaxed);
    return nullptr;
  }
  note_own_range(mapped, bytes);
  return static_cast<unsigned char*>(mapped);
}

void give_back_range(unsigned char* address, std::uint64_t bytes, std::uint64_t used) {
  forget_own_ranges_in(address, bytes);
  if (!free_later(address, bytes, used)) os.unmap(address, bytes);
  held_range.store(0, std::memory_order_relaxed);
}

std::uint64_t range_piece(std::uint64_t least, std::uint64_t most) {
  const std::uint64_t limit = os.limit(RLIMIT_AS);
  if (limit == kNoLimit) return most;
  const std::uint64_t used = address_space_in_use();
  const std::uint64_t piece = round_up((limit > used ? limit - used : 0) / kPieceShare);
  return piece < least ? least : piece < most ? piece : most;
}

}  // namespace culprit
