// A library that keeps blocks of a framework's cache, and objects of an interpreter, in C++ alone: behind its
// variables, and behind an object whose address it returns.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace {

struct DataPtr {  // c10/core/Allocator.h, with libstdc++
  void* data = nullptr;
  void (*deleter)(void*) = nullptr;
  void* context = nullptr;
};

struct Storage {
  virtual ~Storage() = default;
  std::uint64_t counts = 1;
  DataPtr data;
};

struct Tensor {
  virtual ~Tensor() = default;
  std::uint64_t counts = 1;
  Storage* storage = new Storage;
};

struct Engine {
  std::uint64_t numbers[40] = {};
  std::vector<Tensor*> tensors;
  std::vector<void*> callbacks;
};

void free_nothing(void*) {}

void own(DataPtr* pointer, void* memory) { *pointer = {memory, free_nothing, memory}; }

Tensor* tensor_of(void* memory) {
  auto* tensor = new Tensor;
  own(&tensor->storage->data, memory);
  return tensor;
}

}  // namespace

std::map<std::string, Tensor*> cached;
DataPtr direct;
void* scratch;
thread_local Tensor* last_result;
namespace engines {
Engine* current;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED void keep_in_map(const char* name, void* memory) { cached[name] = tensor_of(memory); }
EXPORTED void keep_direct(void* memory) { own(&direct, memory); }
EXPORTED void keep_raw(void* memory) { scratch = memory; }
EXPORTED void keep_in_thread(void* memory) { last_result = tensor_of(memory); }
EXPORTED void keep_in_engine(void* memory, void* callback) {
  if (engines::current == nullptr) engines::current = new Engine;
  if (memory != nullptr) engines::current->tensors.push_back(tensor_of(memory));
  if (callback != nullptr) engines::current->callbacks.push_back(callback);
}
EXPORTED void* make_tensor(void* memory) { return tensor_of(memory); }
EXPORTED void forget(void* tensor) { delete static_cast<Tensor*>(tensor); }
EXPORTED void* last_of_thread() { return last_result; }
