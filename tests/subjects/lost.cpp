// Loses the last pointer to allocations of 11001 bytes, in the way that the argument names. Tables that hold pointers
// to others have 4096 bytes.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"
#include "tests/subjects/driver_record.h"

struct Owner {
  long id = 0;
  void* memory = nullptr;
};

void* g_buffer = nullptr;
void** g_table = nullptr;
uintptr_t* g_words = nullptr;
uintptr_t g_old_word = 0;
std::vector<void*> g_vector;
std::map<std::string, void*> g_map;
std::unique_ptr<Owner> g_owner;
Owner* volatile g_dangling = nullptr;

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

SUBJECT_FUNCTION void* allocate_managed() {
  void* pointer = nullptr;
  CHECKED(cudaMallocManaged(&pointer, 11001, cudaMemAttachGlobal));
  return pointer;
}

SUBJECT_FUNCTION void* allocate_pinned() {
  void* pointer = nullptr;
  CHECKED(cudaMallocHost(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void* allocate_from_pool() {
  void* pointer = nullptr;
  CHECKED(cudaMallocAsync(&pointer, 11001, nullptr));
  CHECKED(cudaStreamSynchronize(nullptr));
  return pointer;
}

// A word that a search for holders takes for a number.
uintptr_t tagged(void* memory) { return reinterpret_cast<uintptr_t>(memory) | uintptr_t{5} << 48; }

// A parameter that goes out of scope.
SUBJECT_FUNCTION void use(void* memory) { CHECKED(memory == nullptr ? 1 : 0); }

SUBJECT_FUNCTION void store(void* table, int index, void* pointer) {
  CHECKED(cudaMemcpy(static_cast<void**>(table) + index, &pointer, sizeof(pointer), cudaMemcpyHostToDevice));
}

SUBJECT_FUNCTION void lose(const std::string& how) {
  if (how == "large-table") {
    void* table = nullptr;
    CHECKED(cudaMalloc(&table, 300 << 20));
    store(table, 1000, allocate_here());
  }
  if (how == "local") {
    use(allocate_here());
  }
  if (how == "scope") {
    std::vector<void*> several = {allocate_here(), allocate_here()};
  }
  if (how == "overwritten") {
    for (int i = 0; i < 5; ++i) g_buffer = allocate_here();
    cudaFree(g_buffer);
    g_buffer = nullptr;
  }
  if (how == "cleared") {
    for (int i = 0; i < 40; ++i) g_vector.push_back(allocate_here());
    g_vector.clear();
    g_vector.shrink_to_fit();
  }
  if (how == "erased") {
    g_map["weights"] = allocate_here();
    g_map.erase("weights");
  }
  if (how == "deleted") {
    g_owner = std::make_unique<Owner>();
    g_owner->memory = allocate_here();
    g_owner.reset();
  }
  if (how == "dangling") {
    auto* owner = new Owner;
    owner->memory = allocate_here();
    g_dangling = owner;
    delete owner;
  }
  if (how == "large") {
    // Chunks of malloc with mappings of their own, and others that malloc joins to larger ones.
    g_table = new void*[1 << 20]();
    g_table[1 << 19] = allocate_here();
    delete[] g_table;
    g_table = nullptr;
    auto* middle = new void*[1000]();
    middle[500] = allocate_here();
    delete[] middle;
  }
  if (how == "list") {
    std::list<Owner> owners;
    for (int i = 0; i < 20; ++i) owners.push_back({i, allocate_here()});
  }
  if (how == "leaked-owner") {
    auto* owner = new Owner;
    owner->memory = allocate_here();
  }
  if (how == "table") {
    void* volatile table = allocate_table();
    for (int i = 0; i < 3; ++i) store(table, i, allocate_here());
    table = nullptr;
  }
  if (how == "circle") {
    void* one = allocate_table();
    void* other = allocate_table();
    store(one, 7, other);
    store(other, 9, one);
    store(other, 10, allocate_here());
  }
  if (how == "self") {
    void* table = allocate_table();
    store(table, 0, table);
  }
  if (how == "managed") {
    use(allocate_managed());
  }
  if (how == "pinned") {
    use(allocate_pinned());
  }
  if (how == "pool") {
    use(allocate_from_pool());
  }
  if (how == "pinned-table") {
    void** table = nullptr;
    CHECKED(cudaMallocHost(reinterpret_cast<void**>(&table), 4096));
    for (int i = 0; i < 512; ++i) table[i] = nullptr;
    table[17] = allocate_here();
    table = nullptr;
  }
  if (how == "beside-pipe") {
    // Whose content was read, and one that only another process can write to.
    int ends[2] = {};
    CHECKED(pipe(ends));
    void* pointer = allocate_here();
    CHECKED(write(ends[1], &pointer, sizeof(pointer)) == sizeof(pointer) ? 0 : 1);
    CHECKED(read(ends[0], &pointer, sizeof(pointer)) == sizeof(pointer) ? 0 : 1);
    pointer = nullptr;
    int others[2] = {};
    CHECKED(pipe(others));
    CHECKED(write(others[1], "12345678", 8) == 8 ? 0 : 1);
    close(others[1]);
  }
  if (how == "driver-record") g_old_word = tagged(make_driver_record(allocate_here(), true));
  if (how == "range-record") g_old_word = tagged(make_range_record(allocate_here(), true));
  if (how == "segment-record") g_old_word = tagged(make_segment_record(allocate_here(), true));
  if (how == "pool-record") g_old_word = tagged(make_pool_record(allocate_here(), true));
  if (how == "linked-record") g_old_word = tagged(make_linked_record(allocate_here(), true));
  if (how == "inner-record") {
    // Memory that the driver made for itself, and whose record leads to others.
    void* kept = allocate_here();
    auto* record = make_driver_record(reinterpret_cast<void*>(uintptr_t{1} << 46), true);
    g_old_word = tagged(record);
    record[50] = reinterpret_cast<uintptr_t>(kept);
  }
  if (how == "numbers") {
    // Words of a large array whose lower bits lead into the memory, and parts of others that do.
    g_words = static_cast<uintptr_t*>(calloc(1 << 17, sizeof(uintptr_t)));
    const auto address = reinterpret_cast<uintptr_t>(allocate_here());
    g_words[1000] = (address + 5000) | uintptr_t{0x3f54} << 48;
    const uintptr_t word = address | uintptr_t{0xf8a5} << 48;
    memcpy(reinterpret_cast<char*>(g_words) + 16003, &word, sizeof(word));
  }
  if (how == "before") {
    // The memory right before a held address is not held.
    void* first = allocate_here();
    g_buffer = static_cast<char*>(first) + 11001 + 300;
  }
}

// Leaves a pointer everywhere in the stack below main(), where the functions that end the process have their frames.
SUBJECT_FUNCTION void leave_on_stack(void* pointer) {
  void* volatile copies[2048];
  for (void* volatile& copy : copies) copy = pointer;
}

int main(int, char** argv) {
  lose(argv[1]);
  clear_stack();
  if (std::string(argv[1]) == "left-on-stack") leave_on_stack(allocate_here());
  return 0;
}
