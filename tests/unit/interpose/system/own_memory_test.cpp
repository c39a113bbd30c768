#include "interpose/system/own_memory.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/dump/dump_writer.h"
#include "interpose/system/freed_memory.h"
#include "interpose/system/os.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

std::uint64_t address_limit = 0;
std::uint64_t limited_addresses(int resource) { return resource == RLIMIT_AS ? address_limit : ~std::uint64_t{0}; }

// As after mlockall(MCL_FUTURE) with a small RLIMIT_MEMLOCK.
OsCalls real_calls;
void* map_a_page_at_most(void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset,
                         int* error) {
  if (bytes <= 4096) return real_calls.map(address, bytes, protection, flags, fd, offset, error);
  *error = EAGAIN;
  return nullptr;
}

[[maybe_unused]] alignas(DumpWriter) char zeroed_dump[sizeof(DumpWriter)];

int unlocked = 0;
void count_unlocked(void*, std::uint64_t) { ++unlocked; }

}  // namespace

TEST_CASE("private memory stays under a sixteenth of a limited address space") {
  RealOs restore;
  int error = 0;
  void* before = map_private(1 << 20, &error);
  REQUIRE(before != nullptr);
  address_limit = 1ULL << 30;
  os.limit = limited_addresses;
  CHECK(map_private(65ULL << 20, &error) == nullptr);
  CHECK(error == ENOMEM);
  // After its release it can be reserved again.
  for (int i = 0; i < 10; ++i) {
    auto* memory = static_cast<char*>(map_private(10ULL << 20, &error));
    REQUIRE(memory != nullptr);
    memory[7] = 'x';
    CHECK(enlarge_private(memory, 10ULL << 20, 80ULL << 20) == nullptr);
    auto* larger = static_cast<char*>(enlarge_private(memory, 10ULL << 20, 20ULL << 20));
    REQUIRE(larger != nullptr);
    CHECK(larger[7] == 'x');
    unmap_private(larger, 20ULL << 20);
  }
  unmap_private(before, 1 << 20);
}

#if !defined(CULPRIT_TSAN)  // which allows mappings at few addresses only
TEST_CASE("a range in a limited address space grows in place") {
  RealOs restore;
  address_limit = 1ULL << 40;
  os.limit = limited_addresses;
  int error = 0;
  unsigned char* range = reserve_range(nullptr, 2 << 20, &error);
  REQUIRE(range != nullptr);
  for (std::uint64_t bytes = 2 << 20; bytes < 64 << 20; bytes += 2 << 20)
    REQUIRE(reserve_range(range + bytes, 2 << 20, &error) == range + bytes);
  // An existing mapping is never replaced.
  CHECK(reserve_range(range + (2 << 20), 2 << 20, &error) == nullptr);
  CHECK(error == EEXIST);
  give_back_range(range, 64 << 20, 64 << 20);
}

TEST_CASE("a dump in a limited address space has all its records in one range") {
  TemporaryFolder folder;
  RealOs restore;
  address_limit = 1ULL << 30;
  os.limit = limited_addresses;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  std::uint64_t count = 0;
  while (dump->allocate_records(format::ChunkType::kAllocations, 32, nullptr) != 0) ++count;
  CHECK(dump->header()->stop_reason == format::StopReason::kNoAddresses);
  CHECK(dump->header()->file_bytes > 16 << 20);
  CHECK(dump->header()->file_bytes <= 64 << 20);
  CHECK(count > 4000);
  dump->close();
}
#endif

TEST_CASE("where a page is all that may be locked, everything is mapped and unlocked") {
  TemporaryFolder folder;
  RealOs restore;
  real_calls = os;
  os.map = map_a_page_at_most;
  os.unlock = count_unlocked;
  unlocked = 0;
  int error = 0;
  auto* memory = static_cast<char*>(map_private(1 << 20, &error));
  REQUIRE(memory != nullptr);
  memory[(1 << 20) - 1] = 1;
  unmap_private(memory, 1 << 20);
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  for (int i = 0; i < 1000; ++i) REQUIRE(dump->allocate_records(format::ChunkType::kAllocations, 32, nullptr) != 0);
  CHECK(unlocked > 3);
  dump->close();
}

// In a child, whose limits affect no other test: the kernel's own answer. Sanitizers make mlockall() do nothing.
#if !defined(CULPRIT_ASAN) && !defined(CULPRIT_TSAN)
TEST_CASE("a process that locks its mappings may lock as much with a dump as without") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);
    // A thread keeps its capabilities until it executes a program, so the effective ones are dropped explicitly.
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {};
    if (syscall(SYS_capget, &header, data) != 0) _exit(10);
    data[0].effective &= ~(1U << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, data) != 0) _exit(11);
    const struct rlimit limit = {256 << 10, 256 << 10};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || mlockall(MCL_FUTURE) != 0) _exit(12);
    if (mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) _exit(13);
    DumpWriter* dump = static_cast<DumpWriter*>(static_cast<void*>(zeroed_dump));
    if (dump->start(path.c_str()) != 0) _exit(14);
    for (int i = 0; i < 1000; ++i) {
      if (dump->allocate_records(format::ChunkType::kAllocations, 32, nullptr) == 0) _exit(15);
    }
    int error = 0;
    if (map_private(8 << 20, &error) == nullptr) _exit(16);
    if (mmap(nullptr, 128 << 10, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) _exit(17);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

namespace {

int unmapped = 0;
void count_unmapped(void* address, std::uint64_t bytes) {
  ++unmapped;
  real_calls.unmap(address, bytes);
}

// Whether something is mapped there: mincore() fails otherwise.
bool is_mapped(void* address) {
  unsigned char present = 0;
  return mincore(address, 1, &present) == 0;
}

}  // namespace

TEST_CASE("freed memory is unmapped in parts") {
  RealOs restore;
  real_calls = os;
  os.unmap = count_unmapped;
  constexpr std::uint64_t kBytes = 9 << 20;
  int error = 0;
  void* large = map_private(kBytes, &error);
  void* small = map_private(4096, &error);
  REQUIRE(large != nullptr);
  REQUIRE(small != nullptr);
  unmapped = 0;
  {
    const FreesLater later;
    unmap_private(large, kBytes);
    unmap_private(small, 4096);
  }
  CHECK(unmapped == 0);
  CHECK(is_mapped(large));
  // Without time one part at least, with it all.
  CHECK_FALSE(unmap_freed(0));
  CHECK(unmapped == 1);
  CHECK_FALSE(is_mapped(small));
  CHECK_FALSE(unmap_freed(0));
  CHECK_FALSE(is_mapped(large));
  CHECK(is_mapped(static_cast<char*>(large) + kBytes - 4096));
  CHECK(unmap_freed(~std::uint64_t{0}));
  CHECK_FALSE(is_mapped(static_cast<char*>(large) + kBytes - 4096));
  CHECK(unmapped == 6);
  CHECK(unmap_freed(~std::uint64_t{0}));

  // At once as before.
  void* other = map_private(4096, &error);
  unmap_private(other, 4096);
  CHECK(unmapped == 7);
}

TEST_CASE("a part of a range without pages is unmapped at once") {
  RealOs restore;
  real_calls = os;
  os.unmap = count_unmapped;
  int error = 0;
  unsigned char* range = reserve_range(nullptr, 256 << 20, &error);
  REQUIRE(range != nullptr);
  unmapped = 0;
  {
    const FreesLater later;
    give_back_range(range, 256 << 20, 3 << 20);
  }
  CHECK(unmap_freed(~std::uint64_t{0}));
  CHECK(unmapped == 2);
}

TEST_CASE("a fork child leaves its parent's freed memory mapped") {
  int error = 0;
  void* memory = map_private(4096, &error);
  REQUIRE(memory != nullptr);
  {
    const FreesLater later;
    unmap_private(memory, 4096);
  }
  const pid_t child = fork();
  if (child == 0) _exit(unmap_freed(~std::uint64_t{0}) && is_mapped(memory) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(unmap_freed(~std::uint64_t{0}));
}

TEST_CASE("a word is probed for writing without a change") {
  void* page = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto* words = static_cast<std::uint32_t*>(page);
  const auto address = reinterpret_cast<std::uint64_t>(page);
  words[3] = 0x12345678;
  CHECK(os.probe_write(address + 12) == 0);
  CHECK(words[3] == 0x12345678);
  REQUIRE(mprotect(page, 4096, PROT_READ) == 0);
  CHECK(os.probe_write(address + 12) == -EFAULT);
  CHECK(os.probe_write(address + 4096) == 0);
  REQUIRE(mprotect(page, 4096, PROT_NONE) == 0);
  CHECK(os.probe_write(address) == -EFAULT);
  munmap(page, 8192);
  CHECK(os.probe_write(address) == -EFAULT);
}
