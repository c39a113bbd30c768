// Keeps a pointer to an allocation of 11001 bytes, in a place that the argument names, and never frees it.
#include <cuda_runtime_api.h>
#include <obstack.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <alloca.h>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"
#include "tests/subjects/driver_record.h"
#include "tests/subjects/keep_in_kernel.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

struct Node {
  Node* next = nullptr;
  void* memory = nullptr;
};
struct Base {
  virtual ~Base() = default;
  long number = 0;
};
struct Derived : Base, Node {};
#pragma pack(push, 1)
struct Packed {
  char tag = 1;
  void* memory = nullptr;
};
#pragma pack(pop)

void* g_pointer = nullptr;
uintptr_t g_word = 0;
double g_double = 0;
alignas(8) uint32_t g_digits[2];
char* g_bytes = nullptr;
Node* g_node = nullptr;
Packed g_packed;
static void* s_kept[2];
thread_local void* t_pointer = nullptr;
std::function<void()> g_function;
std::string g_string;
std::deque<void*> g_deque;
std::optional<std::variant<int, void*>> g_variant;
struct obstack g_obstack;
ucontext_t g_main, g_other;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void* allocate_table() {
  void* table = nullptr;
  CHECKED(cudaMalloc(&table, 4096));
  return table;
}

SUBJECT_FUNCTION void store(void* table, int index, void* pointer) {
  CHECKED(cudaMemcpy(static_cast<char*>(table) + index, &pointer, sizeof(pointer), cudaMemcpyHostToDevice));
}

std::vector<void*>& late_static() {
  static std::vector<void*> vector;  // constructed after the first call of CUDA, destroyed before other objects
  return vector;
}

std::shared_ptr<Node>& late_shared() {
  static std::shared_ptr<Node> node = std::make_shared<Node>();
  return node;
}

template <typename T>
T* map_file(int protection, const void* content) {
  char path[] = "/tmp/culprit-not-lost-XXXXXX";
  const int fd = mkstemp(path);
  unlink(path);
  if (ftruncate(fd, 65536) != 0 || pwrite(fd, &content, sizeof(content), 4096) != sizeof(content)) abort();
  void* memory = mmap(nullptr, 65536, protection, MAP_SHARED, fd, 0);
  close(fd);
  return static_cast<T*>(memory);
}

void at_exit_with_argument(int, void*) {}

void clear_at_exit(int, void*) { g_pointer = nullptr; }

// As runtimes of other languages keep the number.
SUBJECT_FUNCTION void keep_as_number(const std::string& how) {
  const auto number = [] { return reinterpret_cast<uintptr_t>(allocate_here()); };
  if (how == "number-lisp") g_word = number() << 1;
  if (how == "number-ocaml") g_word = number() << 1 | 1;
  if (how == "number-guile") g_word = number() << 2 | 2;
  if (how == "number-scheme") g_word = number() << 3;
  if (how == "number-erlang") g_word = number() << 4 | 15;
  if (how == "number-lua") g_double = static_cast<double>(number());
  if (how == "number-python") {
    const uintptr_t address = number();
    g_digits[0] = address & 0x3fffffff;
    g_digits[1] = static_cast<uint32_t>(address >> 30);
  }
  if (how == "number-of-chunk") {
    auto* node = new Node;
    node->memory = allocate_here();
    g_word = reinterpret_cast<uintptr_t>(node) << 3;
  }
}

SUBJECT_FUNCTION void keep_in_libc(const std::string& how) {
  if (how == "environ") {
    void* pointer = allocate_here();
    char* text = static_cast<char*>(malloc(64));
    strcpy(text, "KEPT=");
    memcpy(text + 16, &pointer, sizeof(pointer));
    putenv(text);
  }
  if (how == "on_exit") on_exit(at_exit_with_argument, allocate_here());
  if (how == "cleared-at-exit") {
    g_pointer = allocate_here();
    on_exit(clear_at_exit, nullptr);
  }
  if (how == "pthread-key") {
    pthread_key_t key;
    pthread_key_create(&key, nullptr);
    pthread_setspecific(key, allocate_here());
  }
  if (how == "tsearch") {
    static void* root = nullptr;
    tsearch(allocate_here(), &root, [](const void* left, const void* right) { return left < right ? -1 : 1; });
  }
  if (how == "hsearch") {
    hcreate(16);
    hsearch({const_cast<char*>("weights"), allocate_here()}, ENTER);
  }
  if (how == "cookie") {
    cookie_io_functions_t functions = {};
    static FILE* file = fopencookie(allocate_here(), "r", functions);
    if (file == nullptr) abort();
  }
  if (how == "obstack") {
    obstack_init(&g_obstack);
    void* pointer = allocate_here();
    obstack_copy(&g_obstack, &pointer, sizeof(pointer));
  }
}

SUBJECT_FUNCTION void keep_in_memory(const std::string& how) {
  if (how == "mmap") {
    auto* memory =
        static_cast<void**>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memory[12345] = allocate_here();
  }
  if (how == "protected") {
    auto* memory =
        static_cast<void**>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memory[12345] = allocate_here();
    mprotect(memory, 1 << 20, PROT_READ);
  }
  if (how == "no-access") {
    auto* memory =
        static_cast<void**>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memory[12345] = allocate_here();
    mprotect(memory, 1 << 20, PROT_NONE);
  }
  if (how == "secret") {
    // Memory that the kernel itself cannot read. The argument "secret" needs Linux 5.14 and secretmem.enable.
    const int secret = static_cast<int>(syscall(SYS_memfd_secret, 0));
    if (secret < 0 || ftruncate(secret, 4096) != 0) exit(77);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, secret, 0);
    if (memory == MAP_FAILED) exit(77);
    close(secret);
    *static_cast<void**>(memory) = allocate_here();
  }
  if (how == "shared") {
    auto* memory =
        static_cast<void**>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    memory[99] = allocate_here();
  }
  if (how == "shm") {
    const int id = shmget(IPC_PRIVATE, 1 << 16, IPC_CREAT | 0600);
    auto* memory = static_cast<void**>(shmat(id, nullptr, 0));
    shmctl(id, IPC_RMID, nullptr);
    memory[99] = allocate_here();
  }
  if (how == "file") {
    void** memory = map_file<void*>(PROT_READ | PROT_WRITE, nullptr);
    memory[99] = allocate_here();
  }
  if (how == "read-only-file") map_file<void*>(PROT_READ, allocate_here());
  if (how == "page-border") {
    auto* memory =
        static_cast<char*>(mmap(nullptr, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(memory, 1, 8 << 20);
    void* pointer = allocate_here();
    memcpy(memory + (4 << 20) - 3, &pointer, sizeof(pointer));
  }
  if (how == "heap-border") {
    // Where the heap of a thread might begin, and none does.
    constexpr std::uintptr_t kHeap = 64 << 20;
    auto* memory = static_cast<char*>(
        mmap(nullptr, 2 * kHeap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    char* border = memory + (kHeap - reinterpret_cast<std::uintptr_t>(memory) % kHeap);
    void* pointer = allocate_here();
    memcpy(border - 3, &pointer, sizeof(pointer));
  }
  if (how == "mapping-border") {
    auto* memory =
        static_cast<char*>(mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void* pointer = allocate_here();
    memcpy(memory + (1 << 15) - 3, &pointer, sizeof(pointer));
    mprotect(memory + (1 << 15), 1 << 15, PROT_READ);
  }
  if (how == "pinned") {
    void** memory = nullptr;
    CHECKED(cudaMallocHost(reinterpret_cast<void**>(&memory), 4096));
    s_kept[0] = memory;
    memory[100] = allocate_here();
  }
  if (how == "managed") {
    void** memory = nullptr;
    CHECKED(cudaMallocManaged(reinterpret_cast<void**>(&memory), 4096, cudaMemAttachGlobal));
    s_kept[0] = memory;
    memory[100] = allocate_here();
  }
  if (how == "registered") {
    void** memory =
        static_cast<void**>(mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECKED(cudaHostRegister(memory, 1 << 16, 0));
    memory[100] = allocate_here();
  }
  if (how == "device") {
    s_kept[0] = allocate_table();
    store(s_kept[0], 800, allocate_here());
  }
  if (how == "device-unaligned") {
    s_kept[0] = allocate_table();
    store(s_kept[0], 4085, allocate_here());
  }
  if (how == "device-large") {
    void* table = nullptr;
    CHECKED(cudaMalloc(&table, 40 << 20));
    s_kept[0] = table;
    store(table, (1 << 20) - 4, allocate_here());
  }
  if (how == "device-weights") {
    // More than is copied. The second one is reached by the first one alone.
    void* weights[2] = {};
    for (void*& one : weights) CHECKED(cudaMalloc(&one, 70 << 20));
    s_kept[0] = weights[0];
    store(weights[0], (70 << 20) - 8, weights[1]);
    store(weights[1], (69 << 20) + 3, allocate_here());
    auto* node = new Node;
    node->memory = allocate_here();
    store(weights[1], 64, node);
  }
  if (how == "device-chain") {
    s_kept[0] = allocate_table();
    void* second = allocate_table();
    void* third = allocate_table();
    store(s_kept[0], 8, second);
    store(second, 16, third);
    store(third, 24, allocate_here());
  }
  if (how == "heap-of-device") {
    // Device memory with a pointer to the heap of the process.
    auto* node = new Node;
    node->memory = allocate_here();
    s_kept[0] = allocate_table();
    store(s_kept[0], 8, node);
  }
  if (how == "pool") {
    void* table = nullptr;
    CHECKED(cudaMallocAsync(&table, 4096, nullptr));
    CHECKED(cudaStreamSynchronize(nullptr));
    s_kept[0] = table;
    store(table, 8, allocate_here());
  }
}

SUBJECT_FUNCTION void keep_in_words(const std::string& how) {
  if (how == "global") g_pointer = allocate_here();
  if (how == "static") s_kept[1] = allocate_here();
  if (how == "middle") g_bytes = static_cast<char*>(allocate_here()) + 5000;
  if (how == "end") g_bytes = static_cast<char*>(allocate_here()) + 11001;
  if (how == "one-based") g_bytes = static_cast<char*>(allocate_here()) - sizeof(double);
  if (how == "tagged") g_word = reinterpret_cast<uintptr_t>(allocate_here()) | uintptr_t{0xabcd} << 48;
  if (how == "tagged-in-large") {
    auto* words = static_cast<uintptr_t*>(calloc(1 << 17, sizeof(uintptr_t)));
    words[1000] = reinterpret_cast<uintptr_t>(allocate_here()) | uintptr_t{0x3f54} << 48 | 5;
    g_bytes = reinterpret_cast<char*>(words);
  }
  if (how == "tagged-middle") {
    g_node = new Node;
    g_node->memory = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(allocate_here()) + 500) | uintptr_t{3} << 48);
  }
  if (how == "tagged-packed") {
    g_packed.memory = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(allocate_here()) | uintptr_t{0xabcd} << 48);
  }
  if (how == "like-driver-record") {
    g_word = reinterpret_cast<uintptr_t>(make_driver_record(allocate_here(), false)) | uintptr_t{5} << 48;
  }
  if (how == "like-range-record") {
    g_word = reinterpret_cast<uintptr_t>(make_range_record(allocate_here(), false)) | uintptr_t{5} << 48;
  }
  if (how == "like-segment-record") {
    g_word = reinterpret_cast<uintptr_t>(make_segment_record(allocate_here(), false)) | uintptr_t{5} << 48;
  }
  if (how == "like-pool-record") {
    g_word = reinterpret_cast<uintptr_t>(make_pool_record(allocate_here(), false)) | uintptr_t{5} << 48;
  }
  if (how == "like-linked-record") {
    g_word = reinterpret_cast<uintptr_t>(make_linked_record(allocate_here(), false)) | uintptr_t{5} << 48;
  }
  keep_as_number(how);
  if (how == "low-tag") g_word = reinterpret_cast<uintptr_t>(allocate_here()) | 7;
  if (how == "packed") g_packed.memory = allocate_here();
  if (how == "thread-local") t_pointer = allocate_here();
  if (how == "heap") {
    g_node = new Node;
    g_node->memory = allocate_here();
  }
  if (how == "far-inside") {
    auto* many = static_cast<Node*>(calloc(4000, sizeof(Node)));
    many[1].memory = allocate_here();
    g_node = many + 3999;
  }
  if (how == "end-of-chunk") {
    auto* many = static_cast<char*>(malloc(1000));
    void* pointer = allocate_here();
    memcpy(many + 500, &pointer, sizeof(pointer));
    g_bytes = many + 1000;
  }
  if (how == "end-of-large-chunk") {
    const size_t bytes = (1 << 20) - 16;
    auto* many = static_cast<char*>(malloc(bytes));
    void* pointer = allocate_here();
    memcpy(many + 500, &pointer, sizeof(pointer));
    g_bytes = many + bytes;
  }
  if (how == "tagged-chunk") {
    auto* node = new Node;
    node->memory = allocate_here();
    g_word = reinterpret_cast<uintptr_t>(node) | uintptr_t{0x8000} << 48 | 3;
  }
  if (how == "base") {
    auto* derived = new Derived;
    derived->memory = allocate_here();
    g_node = derived;
  }
  if (how == "list") {
    for (int i = 0; i < 3000; ++i) {
      auto* node = new Node;
      node->next = g_node;
      if (i == 0) node->memory = allocate_here();
      g_node = node;
    }
  }
  if (how == "string") {
    void* pointer = allocate_here();
    g_string.assign(reinterpret_cast<char*>(&pointer), sizeof(pointer));
  }
  if (how == "long-string") {
    void* pointer = allocate_here();
    g_string = "an odd number of letters, then: ";
    g_string.append(reinterpret_cast<char*>(&pointer), sizeof(pointer));
  }
  if (how == "deque") {
    for (int i = 0; i < 2000; ++i) g_deque.push_back(i == 1000 ? allocate_here() : nullptr);
  }
  if (how == "variant") g_variant = std::variant<int, void*>(allocate_here());
  if (how == "function") {
    auto owner = std::make_shared<std::unique_ptr<Node>>(std::make_unique<Node>());
    (*owner)->memory = allocate_here();
    g_function = [owner] { (void)owner; };
  }
  if (how == "late-static") late_static().push_back(allocate_here());
  if (how == "late-shared") late_shared()->memory = allocate_here();
  if (how == "arena") {
    // An allocator inside a large chunk of malloc, whose objects refer to one another by pointers into it.
    auto* arena = static_cast<char*>(malloc(4 << 20));
    s_kept[0] = arena;
    auto* node = new (arena + 3000000) Node;
    node->next = new (arena + 200) Node;
    node->next->memory = allocate_here();
  }
  if (how == "thread-heap") {
    std::thread([] {
      g_node = new Node;
      for (int i = 0; i < 100; ++i) {
        auto* node = new Node;
        node->next = g_node;
        g_node = node;
      }
      g_node->next->next->memory = allocate_here();
    }).join();
  }
  if (how == "epoll") {
    auto* node = new Node;
    node->memory = allocate_here();
    const int epoll = epoll_create1(0);
    int ends[2];
    if (pipe(ends) != 0) abort();
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = node;
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
  }
}

void* g_other_stack = nullptr;

void run_on_other_stack() {
  void* volatile local = allocate_here();
  clear_stack();
  swapcontext(&g_other, &g_main);
  if (local == nullptr) abort();
}

SUBJECT_FUNCTION void leave_context(bool mapped) {
  constexpr size_t kBytes = 256 << 10;
  char* stack =
      mapped ? static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
             : static_cast<char*>(malloc(kBytes));
  getcontext(&g_other);
  g_other.uc_stack.ss_sp = stack;
  g_other.uc_stack.ss_size = kBytes;
  g_other.uc_link = &g_main;
  makecontext(&g_other, run_on_other_stack, 0);
  swapcontext(&g_main, &g_other);
}

// Ends the process with the pointer in a register that functions preserve, or on the stack.
SUBJECT_FUNCTION void exit_with_local(const std::string& how) {
  void* pointer = allocate_here();
  clear_stack();
  if (how == "local-at-exit") exit(0);
  if (how == "alloca-at-exit") {
    auto** room = static_cast<void**>(alloca(4096));
    room[100] = pointer;
    asm volatile("" : : "r"(room) : "memory");
    pointer = nullptr;
    exit(0);
  }
  asm volatile("" : "+r"(pointer));
  if (pointer == nullptr) abort();
}

int main(int, char** argv) {
  const std::string how = argv[1];
  void** in_main = static_cast<void**>(alloca(1024));
  memset(in_main, 0, 1024);
  if (how == "main-frame") in_main[50] = allocate_here();
  keep_in_libc(how);
  keep_in_memory(how);
  keep_in_kernel(how, allocate_here);
  keep_in_words(how);
  if (how == "context-mapped") leave_context(true);
  if (how == "context-malloc") leave_context(false);
  if (how == "local-at-exit" || how == "alloca-at-exit") exit_with_local(how);
  clear_stack();
  if (how == "thread") {
    std::thread([] {
      void* volatile local = allocate_here();
      (void)local;
      pause();
    }).detach();
    usleep(100000);
  }
  asm volatile("" : : "r"(in_main) : "memory");
  if (how == "main-frame") exit(0);
  return 0;
}
