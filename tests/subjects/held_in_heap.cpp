// Leaves allocations of 11001 bytes that a global leads to through the heap, in the way that the argument names.
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tests/subjects/check.h"

struct Buffer {
  long id = 0;
  void* memory = nullptr;
};
struct Engine {
  char name[24] = "engine";
  Engine* next = nullptr;
  void* buffer = nullptr;
};
struct Named {
  virtual ~Named() = default;
  std::string name = "a name that is too long for the string itself";
};
struct Counted {
  long count = 1;
  void* memory = nullptr;
};
struct Both : Named, Counted {};
struct Layer {
  virtual ~Layer() = default;
  std::string name;
};
struct Convolution : Layer {
  void* weights = nullptr;
};
struct Observer {
  virtual ~Observer() = default;
  long events = 1;
};
struct Watched : Layer, Observer {
  std::map<std::string, Buffer> by_name;
};
struct Grid {
  long columns = 3;
  Buffer cells[3][2];
};
struct __attribute__((packed)) Packed {
  char kind = 'a';
  void* memory = nullptr;
};
struct View {
  float* first = nullptr;
  std::size_t count = 0;
};
// An allocator that is not malloc: 64 KiB of a mapping, one object behind the other.
void* from_arena(std::size_t bytes) {
  static char* next =
      static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  void* memory = next;
  next += (bytes + 15) / 16 * 16;
  return memory;
}
template <typename T>
struct ArenaAllocator {
  using value_type = T;
  ArenaAllocator() = default;
  template <typename Other>
  ArenaAllocator(const ArenaAllocator<Other>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(from_arena(count * sizeof(T))); }
  void deallocate(T*, std::size_t) {}
  bool operator==(const ArenaAllocator&) const { return true; }
  bool operator!=(const ArenaAllocator&) const { return false; }
};
struct Opaque;
// As in CCCL 3 (thrust/detail/vector_base.h, thrust/iterator/iterator_adaptor.h).
namespace thrust {
template <typename Derived, typename Base>
struct iterator_adaptor {
  Base m_iterator = {};
};
template <typename T>
struct device_ptr : iterator_adaptor<device_ptr<T>, T*> {};
namespace detail {
template <typename Pointer>
struct normal_iterator : iterator_adaptor<normal_iterator<Pointer>, Pointer> {};
template <typename T>
struct contiguous_storage {
  void* m_allocator = nullptr;
  normal_iterator<device_ptr<T>> m_begin;
  std::size_t m_size = 0;
};
template <typename T>
struct vector_base {
  contiguous_storage<T> m_storage;
  std::size_t m_size = 0;
};
}  // namespace detail
template <typename T>
struct device_vector : detail::vector_base<T> {};
}  // namespace thrust
struct Model {
  long layers = 2;
  thrust::device_vector<float> weights;
  thrust::detail::vector_base<int> tokens;  // of thrust::universal_vector
};
// As in RMM 25 (rmm/device_buffer.hpp, rmm/device_uvector.hpp).
namespace rmm {
struct device_buffer {
  void* _data = nullptr;
  std::size_t _size = 0;
  std::size_t _capacity = 0;
  void* _stream = nullptr;
};
template <typename T>
struct device_uvector {
  device_buffer _storage;
};
}  // namespace rmm
struct device_buffer {
  void* data = nullptr;
};
struct Keeper {
  std::vector<Buffer> buffers;
  std::map<std::string, void*> by_name;
};
struct Node {
  Node* left = nullptr;
  Node* right = nullptr;
  void* memory = nullptr;
};

// The lowest bit of the pointer is a flag.
struct Tagged {
  union {
    std::uintptr_t bits;
    Engine* engine;
  };
};

void leave_memory(float*) {}

Model* g_model = nullptr;
std::unique_ptr<float, void (*)(float*)> g_deleter(nullptr, leave_memory);
Engine* g_engine = nullptr;
Tagged* g_tagged = nullptr;
std::vector<void*> g_vector;
std::vector<Buffer> g_buffers;
std::vector<std::unique_ptr<Engine>> g_engines;
std::unique_ptr<Buffer> g_unique;
std::shared_ptr<Buffer> g_shared;
std::map<std::string, void*> g_map;
std::map<int, std::shared_ptr<Engine>> g_cache;
std::unordered_map<std::string, void*> g_hash;
std::unordered_map<long, std::unique_ptr<Buffer>> g_owners;
std::set<void*> g_set;
std::list<void*> g_list;
std::forward_list<Buffer> g_forward;
std::deque<void*> g_deque;
std::array<std::optional<std::unique_ptr<Buffer>>, 4> g_array;
std::variant<int, std::unique_ptr<Buffer>> g_variant;
Counted* g_base = nullptr;
Opaque* g_opaque = nullptr;
void** g_table = nullptr;
void* g_nothing = nullptr;
Node* g_tree = nullptr;
std::vector<rmm::device_buffer> g_pieces;
std::unique_ptr<rmm::device_uvector<float>> g_columns;
std::unique_ptr<device_buffer> g_own;
std::function<void*()> g_callback;
std::map<std::string, std::function<void*()>> g_handlers;
std::unique_ptr<Layer> g_layer;
std::vector<std::shared_ptr<Layer>> g_layers;
Observer* g_observer = nullptr;
std::map<std::string_view, Buffer> g_views_by_name;
Grid g_grid;
Packed g_packed;
std::vector<View> g_views;
std::vector<Buffer, ArenaAllocator<Buffer>> g_arena_buffers;
std::map<int, void*, std::less<int>, ArenaAllocator<std::pair<const int, void*>>> g_arena_map;
Engine* g_arena_engine = nullptr;
char* g_middle = nullptr;
uintptr_t g_hidden = 0;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

Keeper& keeper() {
  static Keeper instance;
  return instance;
}

// Constructed when it is first called: exit() destroys it before what was constructed earlier.
std::vector<void*>& late_vector() {
  static std::vector<void*> instance;
  return instance;
}
std::map<std::string, Buffer>& late_map() {
  static std::map<std::string, Buffer> instance;
  return instance;
}

thread_local std::vector<void*> t_vector;
thread_local std::map<std::string, Engine*> t_map;

Engine* chain(int length) {
  Engine* first = nullptr;
  for (int i = 0; i < length; ++i) {
    auto* engine = new Engine;
    engine->next = first;
    if (first == nullptr) engine->buffer = allocate_here();
    first = engine;
  }
  return first;
}

SUBJECT_FUNCTION void leave_by_exception() {
  void* pointer = allocate_here();
  auto* copy = new void*[4];
  copy[1] = pointer;
  g_nothing = copy;
  throw std::runtime_error("no more");
}

struct Opaque {
  Engine* engine = nullptr;
};

// A pointer to the end of a block, as a vector and a deque have. The last word of the block is like the header of a
// chunk that has the next one inside, as old headers are.
static void* end_before(void* buffer) {
  for (;;) {
    auto* words = static_cast<uint64_t*>(calloc(64, sizeof(uint64_t)));
    auto* engine = new Engine;
    if (reinterpret_cast<char*>(engine) != reinterpret_cast<char*>(words + 66)) continue;
    engine->buffer = buffer;
    asm volatile("" : : "r"(engine) : "memory");  // it stays, although no code reads it
    words[63] = (sizeof(uint64_t) * 2 + 48) | 1;
    return words + 64;
  }
}

int main(int, char** argv) {
  const std::string how = argv[1];
  keeper();
  if (how == "engine") g_engine = chain(1);
  if (how == "next") g_engine = chain(2);
  if (how == "driver") {
    using Keep = void(void*, int);
    void* library = dlopen(argv[2], RTLD_NOW);
    g_engine = chain(2);
    reinterpret_cast<Keep*>(dlsym(library, "keep_many"))(g_engine->next->buffer, 2000000);
  }
  if (how == "model") {
    g_model = new Model;
    g_model->weights.m_storage.m_begin.m_iterator.m_iterator = static_cast<float*>(allocate_here());
  }
  if (how == "tokens") {
    g_model = new Model;
    g_model->tokens.m_storage.m_begin.m_iterator.m_iterator = static_cast<int*>(allocate_here());
  }
  if (how == "deleter") g_deleter.reset(static_cast<float*>(allocate_here()));
  if (how == "tagged") {
    g_tagged = new Tagged;
    g_tagged->engine = chain(1);
  }
  if (how == "chain") g_engine = chain(1000);
  if (how == "vector") {
    for (int i = 0; i < 3; ++i) g_vector.push_back(nullptr);
    g_vector.push_back(allocate_here());
  }
  if (how == "many") {
    for (int i = 0; i < 20; ++i) g_vector.push_back(allocate_here());
  }
  if (how == "buffers") {
    g_buffers.resize(5);
    g_buffers[2].memory = allocate_here();
  }
  if (how == "engines") {
    for (int i = 0; i < 2; ++i) g_engines.push_back(std::make_unique<Engine>());
    g_engines[1]->buffer = allocate_here();
  }
  if (how == "unique") {
    g_unique = std::make_unique<Buffer>();
    g_unique->memory = allocate_here();
  }
  if (how == "shared") {
    g_shared = std::make_shared<Buffer>();
    g_shared->memory = allocate_here();
  }
  if (how == "map") {
    for (const char* name : {"bias", "gains", "rest"}) g_map[name] = nullptr;
    g_map["weights"] = allocate_here();
  }
  if (how == "cache") {
    for (int i = -3; i < 3; ++i) g_cache[i] = std::make_shared<Engine>();
    g_cache[-2]->buffer = allocate_here();
  }
  if (how == "hash") {
    for (int i = 0; i < 20; ++i) g_hash["layer" + std::to_string(i)] = nullptr;
    g_hash["layer17"] = allocate_here();
  }
  if (how == "owners") {
    g_owners[4096] = std::make_unique<Buffer>();
    g_owners[4096]->memory = allocate_here();
  }
  if (how == "set") g_set.insert(allocate_here());
  if (how == "list") {
    for (int i = 0; i < 9; ++i) g_list.push_back(i == 2 ? allocate_here() : nullptr);
  }
  if (how == "forward") {
    for (int i = 0; i < 9; ++i) g_forward.push_front({i, i == 2 ? allocate_here() : nullptr});
  }
  if (how == "deque") {
    for (int i = 0; i < 500; ++i) g_deque.push_back(i == 250 ? allocate_here() : nullptr);
  }
  if (how == "array") {
    g_array[2] = std::make_unique<Buffer>();
    (*g_array[2])->memory = allocate_here();
  }
  if (how == "variant") {
    g_variant = std::make_unique<Buffer>();
    std::get<1>(g_variant)->memory = allocate_here();
  }
  if (how == "static") {
    keeper().by_name["weights"] = allocate_here();
    keeper().buffers.resize(2);
    keeper().buffers[1].memory = allocate_here();
  }
  if (how == "late") {
    void* pointer = allocate_here();
    late_vector().resize(4);
    late_vector()[2] = pointer;
  }
  if (how == "late-map") {
    void* pointer = allocate_here();
    late_map()["weights"].memory = pointer;
    std::exit(0);
  }
  if (how == "late-freed") {
    // The last handler frees what the search found.
    static void* pointer = allocate_here();
    std::atexit([] { CHECKED(cudaFree(pointer)); });
  }
  if (how == "late-many") {
    g_engine = chain(1);
    for (int i = 0; i < 5000; ++i) std::atexit([] {});
  }
  if (how == "late-quick") {
    late_map()["weights"].memory = allocate_here();
    std::quick_exit(0);
  }
  if (how == "thread-local") t_vector.push_back(allocate_here());
  if (how == "thread-local-early") {
    t_map["before"] = nullptr;
    t_map["weights"] = chain(1);
  }
  if (how == "thread-local-exit") {
    void* pointer = allocate_here();
    t_vector.resize(7);
    t_vector[5] = pointer;
    late_vector().resize(4);
    std::exit(0);
  }
  if (how == "thread-local-ended") {
    // The main thread ends, with its objects, and the process goes on.
    t_vector.push_back(allocate_here());
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::exit(0);
    }).detach();
    pthread_exit(nullptr);
  }
  if (how == "derived") {
    auto layer = std::make_unique<Convolution>();
    layer->weights = allocate_here();
    g_layer = std::move(layer);
  }
  if (how == "layers") {
    auto layer = std::make_shared<Convolution>();
    layer->weights = allocate_here();
    g_layers.resize(3);
    g_layers[1] = std::move(layer);
  }
  if (how == "second-base") {
    auto* watched = new Watched;
    watched->by_name["a key that is too long for the string itself"].memory = allocate_here();
    g_observer = watched;
  }
  if (how == "view-key") g_views_by_name["a literal"].memory = allocate_here();
  if (how == "grid") g_grid.cells[2][1].memory = allocate_here();
  if (how == "packed") g_packed.memory = allocate_here();
  if (how == "views") {
    g_views.resize(4);
    g_views[2] = {static_cast<float*>(allocate_here()) + 100, 5};
  }
  if (how == "arena-buffers") {
    g_arena_buffers.resize(500);
    g_arena_buffers[333].memory = allocate_here();
  }
  if (how == "arena-map") {
    for (int i = 0; i < 9; ++i) g_arena_map[i] = nullptr;
    g_arena_map[7] = allocate_here();
  }
  if (how == "arena-engine") {
    g_arena_engine = new (from_arena(sizeof(Engine))) Engine;
    g_arena_engine->next = new (from_arena(sizeof(Engine))) Engine;
    g_arena_engine->next->buffer = allocate_here();
  }
  if (how == "base") {
    auto* both = new Both;
    both->memory = allocate_here();
    g_base = both;
  }
  if (how == "opaque") {
    g_opaque = new Opaque;
    g_opaque->engine = chain(1);
  }
  if (how == "table") {
    g_table = new void*[100000]();
    g_table[99999] = allocate_here();
  }
  if (how == "untyped") {
    auto* engine = chain(1);
    g_nothing = engine;
  }
  if (how == "function") {
    void* buffer = allocate_here();
    const long more[4] = {1, 2, 3, 4};
    g_callback = [more, buffer] { return more[0] == 1 ? buffer : nullptr; };
  }
  if (how == "functions") {
    auto owner = std::make_shared<Buffer>();
    owner->memory = allocate_here();
    g_handlers["resize"] = [owner] { return owner->memory; };
  }
  if (how == "captured") {
    auto* owner = new Buffer;
    owner->memory = allocate_here();
    g_callback = [owner] { return owner->memory; };
  }
  if (how == "captured-second") {
    auto* owner = new Buffer;
    owner->memory = allocate_here();
    const long number = 3;
    g_handlers["second"] = [number, owner] { return number == 3 ? owner->memory : nullptr; };
  }
  if (how == "small-function") {
    void* buffer = allocate_here();
    g_handlers["draw"] = [buffer] { return buffer; };
  }
  if (how == "rmm") {
    g_pieces.resize(3);
    g_pieces[1]._data = allocate_here();
  }
  if (how == "rmm-vector") {
    g_columns = std::make_unique<rmm::device_uvector<float>>();
    g_columns->_storage._data = allocate_here();
  }
  if (how == "own-buffer") {
    g_own = std::make_unique<device_buffer>();
    g_own->data = allocate_here();
  }
  if (how == "tree") {
    Node* at = g_tree = new Node;
    for (int i = 0; i < 30; ++i) at = (i % 3 == 0 ? at->left : at->right) = new Node;
    at->memory = allocate_here();
  }
  if (how == "dangling") {
    // Of a size that the driver does not ask malloc() for.
    g_table = new void*[123]();
    g_table[45] = allocate_here();
    delete[] g_table;
  }
  if (how == "room") {
    // Memory that had the pointer before, as the room of a vector.
    void** before = new void*[200];
    before[150] = allocate_here();
    delete[] before;
    g_vector.reserve(200);
    g_vector.push_back(nullptr);
  }
  if (how == "malloc-arena") {
    g_engine = new (static_cast<char*>(calloc(1, 8192)) + 5000) Engine;
    g_engine->buffer = allocate_here();
  }
  if (how == "old-header") g_nothing = end_before(allocate_here());
  if (how == "hidden") {
    auto* engine = chain(1);
    g_hidden = reinterpret_cast<uintptr_t>(engine) ^ 0x5555;
  }
  if (how == "exception") {
    try {
      leave_by_exception();
    } catch (const std::runtime_error&) {
    }
  }
  return 0;
}
