// Code without unwind information calls CUDA with any value in the registers that a function keeps: small numbers,
// both ends of every mapping, places around the stack pointer, memory that another thread takes away.
#include <pthread.h>

#include <initializer_list>

#include "tests/guest/programs/no_unwind_information.h"
#include "tests/guest/programs/painted.h"

GUEST_CALLS_WITHOUT_UNWIND_INFORMATION;

namespace {

constexpr size_t kPage = 4096;
guest::CallsWithoutUnwindInformation calls;
CUdeviceptr memory;

void pair_with(uint64_t value) {
  CHECKED(calls.with_rbp(value, reinterpret_cast<void*>(&cuMemAlloc_v2), reinterpret_cast<uint64_t>(&memory), 512));
  CHECKED(calls.with_rbp(value, reinterpret_cast<void*>(&cuMemFree_v2), memory, 0));
}

// Both ends of the mappings, as /proc/self/maps has them.
size_t read_boundaries(uint64_t* all, size_t room) {
  static char text[256 * 1024];
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  HOLDS(file >= 0);
  size_t bytes = 0;
  for (ssize_t got; (got = read(file, text + bytes, sizeof text - 1 - bytes)) > 0;) bytes += static_cast<size_t>(got);
  close(file);
  text[bytes] = '\0';
  size_t count = 0;
  for (char* line = text; line != nullptr && *line != '\0' && count + 2 <= room;) {
    char* after = nullptr;
    all[count++] = strtoull(line, &after, 16);
    all[count++] = strtoull(after + 1, nullptr, 16);
    line = strchr(line, '\n');
    if (line != nullptr) ++line;
  }
  return count;
}

// A stack below pages of which one thread takes the right to be read away, and gives it back, all the time.
char* neighbour;
bool stop;
void* take_away(void*) {
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    mprotect(neighbour, kPage, PROT_NONE);
    mprotect(neighbour, kPage, PROT_READ | PROT_WRITE);
  }
  return nullptr;
}

void call_below_neighbour() {
  const uint64_t above = reinterpret_cast<uint64_t>(neighbour);
  for (int i = 0; i < 3000; ++i) pair_with(above + static_cast<uint64_t>(i % 64) * 8 - 16);
  // At the end of the address space of a file: a read there is a SIGBUS.
  for (uint64_t offset = 0; offset < 64; ++offset) pair_with(above + kPage + offset * 8 - 256);
}

}  // namespace

int main() {
  guest::start_cuda();
  uint64_t seed = 88172645463325252ULL;
  for (const bool copied : {false, true}) {
    calls = guest::calls_without_unwind_information(copied);
    for (uint64_t value = 0; value < 64; ++value) pair_with(value - 32);
    static uint64_t boundaries[1024];
    const size_t count = read_boundaries(boundaries, 1024);
    for (size_t i = 0; i < count; ++i) {
      for (uint64_t offset = 0; offset < 17; ++offset) pair_with(boundaries[i] + offset - 8);
    }
    for (int i = 0; i < 1000; ++i) pair_with(guest::next_random(&seed));
    for (unsigned bit = 12; bit < 64; ++bit) pair_with((1ULL << bit) - 8), pair_with(~0ULL << bit);
    const uint64_t here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
    for (uint64_t offset = 0; offset < 0x4800; offset += 24) pair_with(here + offset - 512);
  }

  const size_t stack_bytes = 16 * kPage;
  void* region = mmap(nullptr, stack_bytes + 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  HOLDS(region != MAP_FAILED);
  neighbour = static_cast<char*>(region) + stack_bytes;
  char path[] = "/tmp/guest.XXXXXX";
  const int file = mkstemp(path);
  HOLDS(file >= 0);
  unlink(path);
  // Two pages of a file without a byte.
  HOLDS(mmap(neighbour + kPage, 2 * kPage, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == neighbour + kPage);
  close(file);
  pthread_t thread;
  HOLDS(pthread_create(&thread, nullptr, take_away, nullptr) == 0);
  guest::run_on(region, stack_bytes, call_below_neighbour);
  __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
  pthread_join(thread, nullptr);
  guest::say("every call returned");
  return 0;
}
