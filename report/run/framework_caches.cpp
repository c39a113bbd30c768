#include "report/run/framework_caches.h"

#include <cstdlib>

namespace culprit::report {
namespace {

struct Switch {
  const char* framework;
  const char* variable;
  const char* value;
};

// Sources: PyTorch, "CUDA semantics", Memory management; JAX, "GPU memory allocation"; TensorFlow, "Use a GPU" (its
// caching allocator gives way to cudaMallocAsync, one call for each tensor). CuPy, RMM and ONNX Runtime choose their
// allocator in the program and have no such variable.
constexpr Switch kSwitches[] = {
    {"PyTorch", "PYTORCH_NO_CUDA_MEMORY_CACHING", "1"},
    {"JAX", "XLA_PYTHON_CLIENT_ALLOCATOR", "platform"},
    {"TensorFlow", "TF_GPU_ALLOCATOR", "cuda_malloc_async"},
};

}  // namespace

std::vector<std::pair<std::string, std::string>> framework_cache_switches() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const Switch& one : kSwitches) {
    if (std::getenv(one.variable) == nullptr) variables.emplace_back(one.variable, one.value);
  }
  return variables;
}

std::string framework_cache_help() {
  std::string text = "Show each tensor by itself: switch the caching allocators off (";
  bool first = true;
  for (const Switch& one : kSwitches) {
    text += (first ? "" : ", ") + std::string(one.framework) + ": " + one.variable + "=" + one.value;
    first = false;
  }
  return text +
         "; variables that are set already stay). CuPy, RMM and ONNX Runtime are switched only inside the program";
}

}  // namespace culprit::report
