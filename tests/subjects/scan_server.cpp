// A program that runs on, with several threads, while `culprit scan` looks at it. The argument names what becomes of
// its allocations of 11001 bytes. Prints "ready", and ends at the end of stdin.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"

constexpr int kTimes = 5;

std::map<int, void*> g_map;
void* g_slot = nullptr;
std::atomic<int> g_ready = {0};
std::atomic<bool> g_end = {false};
thread_local void* t_kept = nullptr;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void lose_one() {
  void* volatile pointer = allocate_here();
  pointer = nullptr;
}

SUBJECT_FUNCTION void wait_for_end() {
  ++g_ready;
  while (!g_end.load()) usleep(1000);
}

// The pointer is in a register alone, or in none.
SUBJECT_FUNCTION void wait_with_register(bool vector, bool keep) {
  g_slot = allocate_here();
  clear_stack();
  if (!keep) g_slot = nullptr;
  // pause(2), again and again.
  if (vector) {
    asm volatile(
        "movq (%0), %%xmm15\n\tmovq $0, (%0)\n\tlock incl (%1)\n\txor %%eax, %%eax\n\t"
        "1: mov $34, %%eax\n\tsyscall\n\tjmp 1b"
        :
        : "r"(&g_slot), "r"(&g_ready)
        : "rax", "rcx", "r11", "xmm15", "memory");
  } else {
    asm volatile(
        "mov (%0), %%r12\n\tmovq $0, (%0)\n\tlock incl (%1)\n\t"
        "1: mov $34, %%eax\n\tsyscall\n\tjmp 1b"
        :
        : "r"(&g_slot), "r"(&g_ready)
        : "rax", "rcx", "r11", "r12", "memory");
  }
}

// A pointer that is on the move all the time, from one chunk of the heap to the next.
SUBJECT_FUNCTION void move_all_the_time(void* pointer) {
  auto** place = static_cast<void**>(std::malloc(sizeof(void*)));
  *place = pointer;
  pointer = nullptr;
  ++g_ready;
  for (std::size_t i = 0; !g_end.load(); ++i) {
    auto** next = static_cast<void**>(std::malloc(sizeof(void*) + i % 500));
    *next = *place;
    *place = nullptr;
    std::free(place);
    place = next;
    for (volatile int work = 0; work < 2000; work = work + 1) {
    }
  }
  CHECKED(cudaFree(*place));
}

// Overwrites what it has, in a variable of its own.
SUBJECT_FUNCTION void serve_local() {
  void* buffer = nullptr;
  for (int i = 0; i < kTimes; ++i) CHECKED(cudaMalloc(&buffer, 11001));
  clear_stack();
  wait_for_end();
  CHECKED(cudaFree(buffer));
}

SUBJECT_FUNCTION void* start_routine(void* how) {
  const std::string name = static_cast<const char*>(how);
  if (name == "register" || name == "no-register") wait_with_register(false, name == "register");
  if (name == "vector" || name == "no-vector") wait_with_register(true, name == "vector");
  if (name == "lose") {
    for (int i = 0; i < kTimes; ++i) lose_one();
    clear_stack();
    wait_for_end();
  }
  if (name == "stack") {
    void* volatile kept = allocate_here();
    clear_stack();
    wait_for_end();
    CHECKED(kept == nullptr ? 1 : 0);
  }
  if (name == "thread-local") {
    t_kept = allocate_here();
    clear_stack();
    wait_for_end();
  }
  if (name == "local") serve_local();
  if (name == "global") {
    for (int i = 0; i < kTimes; ++i) g_slot = allocate_here();
    clear_stack();
    wait_for_end();
  }
  if (name == "moving") move_all_the_time(allocate_here());
  if (name == "idle") wait_for_end();
  return nullptr;
}

SUBJECT_FUNCTION void start(const char* how) {
  const int before = g_ready.load();
  pthread_t thread;
  CHECKED(pthread_create(&thread, nullptr, start_routine, const_cast<char*>(how)));
  CHECKED(pthread_detach(thread));
  while (g_ready.load() == before) usleep(1000);
}

SUBJECT_FUNCTION void keep_all() {
  for (int i = 0; i < kTimes; ++i) g_map[i] = allocate_here();
}

// In memory that no child of the process has.
SUBJECT_FUNCTION void keep_out_of_children() {
  void* memory = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECKED(memory == MAP_FAILED ? 1 : 0);
  CHECKED(madvise(memory, 1 << 16, MADV_DONTFORK));
  *static_cast<void**>(memory) = allocate_here();
}

SUBJECT_FUNCTION void keep_on_device() {
  void* table = nullptr;
  CHECKED(cudaMalloc(&table, 4096));
  void* pointer = allocate_here();
  CHECKED(cudaMemcpy(static_cast<void**>(table) + 3, &pointer, sizeof(pointer), cudaMemcpyHostToDevice));
  g_slot = table;
}

SUBJECT_FUNCTION void store(void* table, std::size_t offset, std::uintptr_t word) {
  CHECKED(cudaMemcpy(static_cast<char*>(table) + offset, &word, sizeof(word), cudaMemcpyHostToDevice));
}

SUBJECT_FUNCTION std::uintptr_t allocate_word() { return reinterpret_cast<std::uintptr_t>(allocate_here()); }

// In more memory of the device than is copied: seven are kept there, and three are lost.
SUBJECT_FUNCTION void keep_among_weights() {
  constexpr std::uintptr_t kTag = 0x3f54;
  void* weights = nullptr;
  CHECKED(cudaMalloc(&weights, 80 << 20));
  g_slot = weights;
  store(weights, (40 << 20) - 8, allocate_word());
  store(weights, (50 << 20) + 3, allocate_word());
  store(weights, 60 << 20, allocate_word() | kTag << 48);
  auto** node = new void*[2]();
  node[1] = allocate_here();
  store(weights, 16, reinterpret_cast<std::uintptr_t>(node));
  void* second = nullptr;
  CHECKED(cudaMalloc(&second, 20 << 20));
  store(weights, (80 << 20) - 8, reinterpret_cast<std::uintptr_t>(second));
  store(second, (20 << 20) - 15, allocate_word());
  void* small = nullptr;
  CHECKED(cudaMalloc(&small, 4096));
  store(second, 24, reinterpret_cast<std::uintptr_t>(small));
  store(small, 4096 - 8 - 5, (allocate_word() + 500) | kTag << 48);
  // Far more than is copied, and pinned.
  void* pinned = nullptr;
  CHECKED(cudaMallocHost(&pinned, 70 << 20));
  store(weights, 32, reinterpret_cast<std::uintptr_t>(pinned));
  memset(pinned, 0, 70 << 20);
  static_cast<void**>(pinned)[8'000'000] = allocate_here();
  lose_one();
  lose_one();
  store(weights, 70 << 20, (allocate_word() + 5000) | kTag << 48);  // a number
  node = nullptr;
}

// Each leads to the next one.
SUBJECT_FUNCTION void keep_chain_on_device() {
  constexpr int kNodes = 1000;
  constexpr std::size_t kNodeBytes = 512;
  void* before = nullptr;
  for (int i = 0; i < kNodes; ++i) {
    void* node = nullptr;
    CHECKED(cudaMalloc(&node, kNodeBytes));
    store(node, 8, reinterpret_cast<std::uintptr_t>(before));
    before = node;
  }
  g_slot = before;
  lose_one();
}

SUBJECT_FUNCTION void keep_in_pinned() {
  void* table = nullptr;
  CHECKED(cudaMallocHost(&table, 4096));
  static_cast<void**>(table)[3] = allocate_here();
  g_slot = table;
}

// Overwrites what the calls above have left in registers and in the driver's memory.
SUBJECT_FUNCTION void use_another() {
  void* other = nullptr;
  const void* nothing = nullptr;
  CHECKED(cudaMalloc(&other, 4096));
  CHECKED(cudaMemcpy(other, &nothing, sizeof(nothing), cudaMemcpyHostToDevice));
  CHECKED(cudaFree(other));
}

int main(int, char** argv) {
  const std::string how = argv[1];
  CHECKED(cudaFree(nullptr));
  if (how == "loses") {
    keep_all();
    for (const char* one : {"idle", "lose", "stack"}) start(one);
  } else if (how == "keeps") {
    keep_all();
    for (const char* one : {"idle", "thread-local", "stack"}) start(one);
  } else if (how == "moving") {
    for (int i = 0; i < 3; ++i) start("moving");
  } else if (how == "dontfork") {
    keep_out_of_children();
  } else if (how == "device") {
    keep_on_device();
  } else if (how == "chain-on-device") {
    keep_chain_on_device();
    use_another();
  } else if (how == "weights") {
    keep_among_weights();
    use_another();
  } else if (how == "pinned") {
    keep_in_pinned();
  } else if (how == "lost-on-device") {
    keep_on_device();
    g_slot = nullptr;
    use_another();
  } else if (how == "large") {
    keep_all();
    static std::vector<char> large(256 << 20, 'x');
    CHECKED(large[1 << 20] == 'x' ? 0 : 1);
  } else if (how != "nothing") {
    start(argv[1]);
  }
  clear_stack();
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  g_end = true;
  usleep(50000);
  _exit(0);
}
