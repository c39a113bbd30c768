// Leaves one allocation of 11001 bytes, or as many as the mode needs, and keeps the pointer in the place given by the
// argument.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

struct Tile {
  long id;
  void* memory;
};
struct Engine {
  char name[24];
  Tile tile;
  std::unique_ptr<Tile> on_heap;
};
struct Owner {
  void* memory = nullptr;
  ~Owner() { cudaFree(memory); }
};

void* g_pointer = nullptr;
static void* g_array[64];
static Engine g_engine;
static std::vector<void*> g_vector;
static Owner g_owner;
char* g_middle = nullptr;
static cudaArray_t g_image = nullptr;
thread_local void* t_pointer = nullptr;
// As much as the search has to read in half a second, and as many pointers: see the mode "many".
static void* g_table[200 * 1024 * 1024 / sizeof(void*)];

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void** cache() {
  static void* cached = nullptr;
  return &cached;
}

SUBJECT_FUNCTION void keep_in_plugin(const char* path, const char* function) {
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  reinterpret_cast<void (*)(void*)>(dlsym(plugin, function))(allocate_here());
}

SUBJECT_FUNCTION void allocate_array() {
  const cudaChannelFormatDesc bytes = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
  CHECKED(cudaMallocArray(&g_image, &bytes, 256, 16));
}

int main(int argc, char** argv) {
  const std::string how = argv[1];
  if (how == "global" || how == "quick_exit") g_pointer = allocate_here();
  if (how == "static") *cache() = allocate_here();
  if (how == "member") g_engine.tile.memory = allocate_here();
  if (how == "heap") {
    g_vector.push_back(allocate_here());
    g_engine.on_heap = std::make_unique<Tile>();
    g_engine.on_heap->memory = allocate_here();
  }
  if (how == "destructor") g_owner.memory = allocate_here();
  if (how == "forgotten") g_pointer = allocate_here(), g_pointer = nullptr;
  if (how == "middle") g_middle = static_cast<char*>(allocate_here()) + 8;
  if (how == "thread-local") t_pointer = allocate_here();
  if (how == "other-thread") std::thread([] { t_pointer = allocate_here(); }).join();
  if (how == "end") g_middle = static_cast<char*>(allocate_here()) + 11001;
  if (how == "both") g_pointer = allocate_here(), g_middle = static_cast<char*>(g_pointer) + 8;
  if (how == "image") allocate_array();
  if (how == "plugin") keep_in_plugin(argv[2], argv[3]);
  if (how == "fork") {
    for (void*& pointer : g_array) pointer = allocate_here();
    const pid_t child = fork();
    if (child == 0) return 0;
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
  }
  if (how == "many") {
    const unsigned count = strtoul(argv[2], nullptr, 10);
    for (unsigned i = 0; i < sizeof(g_table) / sizeof(g_table[0]); ++i) {
      g_table[i] = reinterpret_cast<void*>(0x1234567ul + i * 4096);
    }
    for (unsigned i = 0; i < count; ++i) CHECKED(cudaMalloc(&g_table[i * 17], 256));
  }
  if (how == "_exit") {
    g_pointer = allocate_here();
    _exit(0);
  }
  if (how == "quick_exit") quick_exit(0);
  return argc > 100;
}
