// Allocates 11001 bytes several times on one line, and keeps pointers in the way that the argument names. The ways of
// the first part overwrite a pointer without a free; those of the second part only look like that.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"

constexpr int kTimes = 5;

struct Engine {
  long id = 0;
  void* buffer = nullptr;
};

struct Settings {
  long flags = 0;
  Engine engine;
};

void* g_buffer = nullptr;
void* g_other = nullptr;
char* g_text = nullptr;
Settings g_settings;
Engine* g_engine = nullptr;
std::unique_ptr<Engine> g_owner;
std::map<std::string, void*> g_map;
std::unordered_map<int, Engine> g_table;
std::vector<void*> g_vector;
std::list<void*> g_list;
std::set<void*> g_set;
void* g_all[kTimes] = {};
void* g_ring[2] = {};
std::vector<Engine*> g_engines;
struct Node {
  Node* next = nullptr;
  void* buffer = nullptr;
};
Node* g_nodes = nullptr;
thread_local void* t_buffer = nullptr;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void* allocate_there() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

// A parameter that goes out of scope.
SUBJECT_FUNCTION void use(void* memory) { CHECKED(memory == nullptr ? 1 : 0); }

SUBJECT_FUNCTION void load(int) { g_buffer = allocate_here(); }

SUBJECT_FUNCTION void overwrite(const std::string& how) {
  if (how == "global") {
    for (int i = 0; i < kTimes; ++i) load(i);
  }
  if (how == "typed") {
    for (int i = 0; i < kTimes; ++i) g_text = static_cast<char*>(allocate_here());
  }
  if (how == "out-parameter") {
    for (int i = 0; i < kTimes; ++i) CHECKED(cudaMalloc(&g_buffer, 11001));
  }
  // Each begins where the one before it ends.
  if (how == "adjacent") {
    for (int i = 0; i < kTimes; ++i) CHECKED(cudaMalloc(&g_buffer, 1 << 20));
  }
  if (how == "static") {
    static void* last = nullptr;
    for (int i = 0; i < kTimes; ++i) last = allocate_here();
    use(last);
  }
  if (how == "thread-local") {
    for (int i = 0; i < kTimes; ++i) t_buffer = allocate_here();
  }
  if (how == "sometimes-freed") {
    for (int i = 0; i < 2 * kTimes; ++i) {
      if (i % 2 == 1) cudaFree(g_buffer);
      load(i);
    }
  }
  if (how == "member") {
    for (int i = 0; i < kTimes; ++i) g_settings.engine.buffer = allocate_here();
  }
  if (how == "member-in-heap") {
    g_engine = new Engine;
    for (int i = 0; i < kTimes; ++i) g_engine->buffer = allocate_here();
  }
  if (how == "unique") {
    g_owner = std::make_unique<Engine>();
    for (int i = 0; i < kTimes; ++i) g_owner->buffer = allocate_here();
  }
  if (how == "map") {
    for (int i = 0; i < kTimes; ++i) g_map["weights"] = allocate_here();
  }
  if (how == "hash") {
    for (int i = 0; i < kTimes; ++i) g_table[7].buffer = allocate_here();
  }
}

SUBJECT_FUNCTION void keep(const std::string& how) {
  if (how == "vector") {
    for (int i = 0; i < kTimes; ++i) g_vector.push_back(allocate_here());
    g_vector.erase(g_vector.begin(), g_vector.end() - 1);
    g_vector.shrink_to_fit();
  }
  if (how == "array") {
    for (int i = 0; i < kTimes; ++i) g_all[i] = allocate_here();
    for (int i = 0; i + 1 < kTimes; ++i) g_all[i] = nullptr;
  }
  if (how == "list") {
    for (int i = 0; i < kTimes; ++i) g_list.push_back(allocate_here());
    g_list.erase(g_list.begin(), std::prev(g_list.end()));
  }
  if (how == "set") {
    for (int i = 0; i < kTimes; ++i) g_set.insert(allocate_here());
    g_set.erase(g_set.begin(), std::prev(g_set.end()));
  }
  if (how == "engines") {
    for (int i = 0; i < kTimes; ++i) {
      g_engines.push_back(new Engine);
      g_engines.back()->buffer = allocate_here();
    }
    for (int i = 0; i + 1 < kTimes; ++i) delete g_engines[i];
    g_engines.erase(g_engines.begin(), g_engines.end() - 1);
  }
  if (how == "nodes") {
    for (int i = 0; i < kTimes; ++i) {
      Node* node = new Node;
      node->next = g_nodes;
      node->buffer = allocate_here();
      g_nodes = node;
    }
    for (Node* node = g_nodes; node->next != nullptr;) {
      Node* gone = node;
      node = g_nodes = node->next;
      delete gone;
    }
  }
  if (how == "other-line") {
    for (int i = 0; i < kTimes; ++i) use(allocate_here());
    g_buffer = allocate_there();
  }
  if (how == "other-caller") {
    for (int i = 0; i < kTimes; ++i) use(allocate_here());
    g_buffer = allocate_here();
  }
  if (how == "first") {
    for (int i = 0; i < kTimes; ++i) {
      void* memory = allocate_here();
      if (g_buffer == nullptr) g_buffer = memory;
    }
  }
  if (how == "ring") {
    for (int i = 0; i < kTimes; ++i) g_ring[i % 2] = allocate_here();
  }
  if (how == "freed-ring") {
    for (int i = 0; i < kTimes; ++i) {
      cudaFree(g_ring[i % 2]);
      g_ring[i % 2] = allocate_here();
    }
  }
  if (how == "swap") {
    for (int i = 0; i < kTimes; ++i) {
      void* memory = allocate_here();
      std::swap(g_buffer, memory);
      std::swap(g_other, memory);
      use(&memory);
    }
  }
  if (how == "freed-swap") {
    for (int i = 0; i < kTimes; ++i) {
      void* memory = allocate_here();
      std::swap(g_buffer, memory);
      cudaFree(memory);
    }
  }
  if (how == "middle") {
    for (int i = 0; i < kTimes; ++i) g_buffer = static_cast<char*>(allocate_here()) + 512;
  }
  if (how == "thrown") {
    for (int i = 0; i < kTimes; ++i) {
      try {
        void* memory = allocate_here();
        if (i + 1 < kTimes) throw std::runtime_error("no");
        g_buffer = memory;
      } catch (const std::exception&) {
      }
    }
  }
  if (how == "threads") {
    for (int i = 0; i < kTimes; ++i) {
      std::thread([i] {
        void* memory = allocate_here();
        if (i + 1 == kTimes) g_buffer = memory;
      }).join();
    }
  }
}

// Ends the program while the functions below run: without it their frames are gone at exit.
[[noreturn]] SUBJECT_FUNCTION void leave() {
  clear_stack();
  std::exit(0);
}

// A compiler does not unroll a loop with this limit, which would give each round a stack of its own.
volatile int g_times = kTimes;

SUBJECT_FUNCTION void hold(void* memory) {
  void* volatile held = memory;
  leave();
  use(held);
}

SUBJECT_FUNCTION void overwrite_local() {
  void* buffer = nullptr;
  for (int i = 0; i < g_times; ++i) CHECKED(cudaMalloc(&buffer, 11001));
  leave();
}

SUBJECT_FUNCTION void overwrite_returned() {
  void* volatile returned = nullptr;
  for (int i = 0; i < g_times; ++i) returned = allocate_here();
  leave();
  use(returned);
}

SUBJECT_FUNCTION void overwrite_local_member() {
  Settings settings;
  for (int i = 0; i < g_times; ++i) CHECKED(cudaMalloc(&settings.engine.buffer, 11001));
  leave();
}

SUBJECT_FUNCTION void overwrite_in_block(bool wanted) {
  if (wanted) {
    void* inner = nullptr;
    for (int i = 0; i < g_times; ++i) CHECKED(cudaMalloc(&inner, 11001));
    leave();
  }
}

SUBJECT_FUNCTION void overwrite_out_of_callee() {
  void* text = nullptr;
  const auto load = [&text] { CHECKED(cudaMalloc(&text, 11001)); };
  for (int i = 0; i < g_times; ++i) load();
  leave();
}

SUBJECT_FUNCTION void keep_pushed() {
  void* pushed = nullptr;
  for (int i = 0; i < g_times; ++i) {
    CHECKED(cudaMalloc(&pushed, 11001));
    g_vector.push_back(pushed);
  }
  for (int i = 0; i + 1 < g_times; ++i) g_vector[i] = nullptr;
  leave();
}

SUBJECT_FUNCTION void keep_in_local_array() {
  void* all[kTimes] = {};
  for (int i = 0; i < g_times; ++i) CHECKED(cudaMalloc(&all[i], 11001));
  for (int i = 0; i + 1 < g_times; ++i) all[i] = nullptr;
  leave();
  use(all[0]);
}

SUBJECT_FUNCTION void keep_in_callee() {
  for (int i = 0; i < g_times; ++i) {
    void* passed = allocate_here();
    if (i + 1 == g_times) hold(passed);
  }
}

SUBJECT_FUNCTION void keep_in_parameter(void* parameter) {
  for (int i = 0; i < g_times; ++i) CHECKED(cudaMalloc(&parameter, 11001));
  leave();
}

SUBJECT_FUNCTION void run_local(const std::string& how) {
  if (how == "local") overwrite_local();
  if (how == "local-returned") overwrite_returned();
  if (how == "local-member") overwrite_local_member();
  if (how == "local-in-block") overwrite_in_block(true);
  if (how == "local-by-lambda") overwrite_out_of_callee();
  if (how == "local-pushed") keep_pushed();
  if (how == "local-array") keep_in_local_array();
  if (how == "local-in-callee") keep_in_callee();
  if (how == "local-parameter") keep_in_parameter(nullptr);
}

int main(int, char** argv) {
  overwrite(argv[1]);
  keep(argv[1]);
  run_local(argv[1]);
  clear_stack();
  return 0;
}
