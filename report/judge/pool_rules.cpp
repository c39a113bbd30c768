#include "report/judge/pool_rules.h"

#include <fnmatch.h>

#include <cstring>
#include <iterator>

#include "report/model/frames.h"
#include "report/model/pool.h"
#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

constexpr char kSwitchedOff[] = "culprit run --no-framework-caches shows each tensor by itself";

constexpr Pool kPyTorch = {"PyTorch caching allocator", kSwitchedOff};
constexpr Pool kPyTorchHost = {"PyTorch pinned memory cache", nullptr};
constexpr Pool kCuPy = {"CuPy memory pool", "cupy.cuda.set_allocator(None) in the program shows each array by itself"};
constexpr Pool kCuPyHost = {"CuPy pinned memory pool", nullptr};
constexpr Pool kPyCuda = {"PyCUDA memory pool", "free_held() of the pool releases the unused memory"};
constexpr Pool kRmm = {"RMM pool", "rmm::mr::cuda_memory_resource in the program shows each buffer by itself"};
constexpr Pool kTensorFlow = {"TensorFlow BFC allocator", kSwitchedOff};
constexpr Pool kXla = {"XLA BFC allocator", kSwitchedOff};
constexpr Pool kOnnxRuntime = {"ONNX Runtime arena", nullptr};

struct Rule {
  const Pool* pool;
  const char* module;    // pattern for the base name of the frame's module, for its path if it has a '/'; nullptr: any
  const char* function;  // pattern for the frame's function
  // For a stripped library: the number of consecutive nameless frames of that module that count as a match; 0: never.
  std::size_t nameless;
  // `function` is the last exported name before the nameless frame: the library was stripped, and its source file
  // exports this function.
  bool behind = false;
};

// Seen on an H200 with PyTorch 2.11, CuPy 14.2 and JAX 0.11. With PYTORCH_NO_CUDA_MEMORY_CACHING=1 tensors pass through
// NativeCachingAllocator::allocate only; with the cache through DeviceCachingAllocator and 4 to 6 frames of the
// library. Without CuPy's pool, _malloc still makes its Memory, but without a SingleDeviceMemoryPool. XLA's "platform"
// allocator bypasses the BFCAllocator. PyCUDA's pools are the only content of src/wrapper/mempool.cpp: built from
// PyPI's source (2026.1), its classes are inlined into device_pool_allocate or host_pool_allocate; Debian's build
// (2022.2.2) is stripped. The first rule that matches a frame wins, from the call outward.
// clang-format off
constexpr Rule kRules[] = {
    {&kPyTorch,     "libc10_cuda*.so*",               "c10::cuda::CUDACachingAllocator::*DeviceCachingAllocator::*", 3},
    {&kPyTorchHost, "libtorch_cuda*.so*",             "at::*CachingHostAllocator*", 0},
    {&kPyTorchHost, "libtorch_cuda*.so*",             "at::*CUDAHostAllocator*", 0},
    {&kCuPy,        "*/cupy/cuda/memory.*",           "*SingleDeviceMemoryPool*", 0},
    {&kCuPyHost,    "*/cupy/cuda/pinned_memory.*",    "*PinnedMemoryPool*", 0},
    {&kPyCuda,      "*/pycuda/_driver.*",             "pycuda*::memory_pool<*", 0},
    {&kPyCuda,      "*/pycuda/_driver.*",             "*::*_pool_allocate", 0},
    {&kPyCuda,      "*/pycuda/_driver.*",             "pycuda_expose_tools", 0, true},
    {&kRmm,         nullptr,                          "rmm::*mr::*pool_memory_resource*", 0},
    {&kRmm,         nullptr,                          "rmm::*mr::*arena_memory_resource*", 0},
    {&kRmm,         nullptr,                          "rmm::*mr::detail::arena::*", 0},
    {&kRmm,         nullptr,                          "rmm::*mr::*fixed_size_memory_resource*", 0},
    {&kTensorFlow,  "libtensorflow*.so*",             "tsl::BFCAllocator::*", 0},
    {&kTensorFlow,  nullptr,                          "tensorflow::BFCAllocator::*", 0},
    {&kXla,         nullptr,                          "tsl::BFCAllocator::*", 0},
    {&kOnnxRuntime, nullptr,                          "onnxruntime::BFCArena::*", 0},
};
// clang-format on

bool matches(const char* pattern, const std::string& text) {
  // Fast rejections: most texts differ from most patterns in the first letter, or in one of the next.
  const char first = pattern[0];
  if (first != '*' && first != '?' && first != '[' && first != '\\' && (text.empty() || text[0] != first)) return false;
  const std::size_t plain = std::strcspn(pattern, "*?[\\");
  return text.compare(0, plain, pattern, plain) == 0 && ::fnmatch(pattern, text.c_str(), 0) == 0;
}

bool is_for_module(const Rule& rule, const Module* module) {
  if (rule.module == nullptr) return true;
  if (module == nullptr) return false;
  return matches(rule.module, std::strchr(rule.module, '/') != nullptr ? module->path : module->name);
}

bool is_named(const Frame& frame) { return !frame.approximate && !frame.function.empty(); }

// For a frame in a module that the rule is for.
bool fits_function(const Rule& rule, const Frame& frame) {
  const bool candidate = rule.behind ? frame.approximate : is_named(frame);
  return candidate && matches(rule.function, frame.function);
}

}  // namespace

const Pool* pool_by_name(const std::string& name) {
  for (const Rule& rule : kRules) {
    if (name == rule.pool->name) return rule.pool;
  }
  return nullptr;
}

void PoolRules::examine(const std::deque<Frame>& frames) {
  for (; examined_ < frames.size(); ++examined_) {
    const Frame& frame = frames[examined_];
    const auto [rules, added] = rules_of_module_.try_emplace(frame.module);
    for (std::size_t i = 0; added && i < std::size(kRules); ++i) {
      if (is_for_module(kRules[i], frame.module)) rules->second.push_back(i);
    }
    Known known;
    for (const std::size_t i : rules->second) {
      const int number = static_cast<int>(i);
      if (known.named < 0 && fits_function(kRules[i], frame)) known.named = number;
      const bool nameless = kRules[i].nameless != 0 && !is_named(frame);
      if (known.nameless < 0 && nameless) known.nameless = number;
    }
    if (known.named >= 0 || known.nameless >= 0) frames_.emplace(&frame, known);
  }
}

const Pool* PoolRules::owning_pool(const ResolvedStack& stack) const {
  if (frames_.empty()) return nullptr;
  std::size_t nameless = 0;  // consecutive nameless frames that one rule matches
  int rule_of_nameless = -1;
  for (const Frame* frame : stack.frames) {
    const auto at = frames_.find(frame);
    const Known known = at != frames_.end() ? at->second : Known();
    if (known.named >= 0) return kRules[known.named].pool;
    nameless = known.nameless >= 0 && known.nameless == rule_of_nameless ? nameless + 1 : 1;
    rule_of_nameless = known.nameless;
    if (rule_of_nameless >= 0 && nameless >= kRules[rule_of_nameless].nameless) return kRules[rule_of_nameless].pool;
  }
  return nullptr;
}

const Frame* user_of_pool(const ResolvedStack& stack, const Pool& pool) {
  const std::vector<const Frame*>& frames = stack.frames;
  std::size_t outside = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    for (const Rule& rule : kRules) {
      if (rule.pool != &pool || !is_for_module(rule, frames[i]->module)) continue;
      if (rule.nameless != 0 || fits_function(rule, *frames[i])) outside = i + 1;
    }
  }
  // The best name is a line of the Python program itself, then one of a package, then a native frame.
  const Frame* package = nullptr;
  for (std::size_t i = outside; i < frames.size(); ++i) {
    if (!frames[i]->python || !is_program_frame(*frames[i])) continue;
    if (frames[i]->file.find("-packages/") == std::string::npos) return frames[i];
    if (package == nullptr) package = frames[i];
  }
  if (package != nullptr) return package;
  for (std::size_t i = outside; i < frames.size(); ++i) {
    if (!frames[i]->file.empty() && !frames[i]->python) return frames[i];
  }
  return outside < frames.size() ? frames[outside] : nullptr;
}

}  // namespace culprit::report
