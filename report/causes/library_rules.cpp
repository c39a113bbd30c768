#include "report/causes/library_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <iterator>

#include "report/model/frames.h"

namespace culprit::report {
namespace {

struct Rule {
  const char* owner;
  const char* module;    // pattern for the base name of the calling module; nullptr: any
  const char* function;  // pattern for a function next to the call and without line information; nullptr: any
};

// A library that is linked statically into the program is recognised by its public functions. Caching allocators of
// frameworks are not listed here but in pool_rules.cpp: they hold the program's memory.
// clang-format off
constexpr Rule kShippedRules[] = {
    {"cuBLAS",      "libcublas.so*",                  nullptr},
    {"cuBLAS",      "libcublasLt.so*",                nullptr},
    {"cuBLAS",      "libnvblas.so*",                  nullptr},
    {"cuBLAS",      nullptr,                          "cublas[A-Z]*"},
    {"cuDNN",       "libcudnn*.so*",                  nullptr},
    {"cuDNN",       nullptr,                          "cudnn[A-Z]*"},
    {"cuFFT",       "libcufft*.so*",                  nullptr},
    {"cuFFT",       nullptr,                          "cufft[A-Z]*"},
    {"cuSPARSE",    "libcusparse*.so*",               nullptr},
    {"cuSPARSE",    nullptr,                          "cusparse[A-Z]*"},
    {"cuSOLVER",    "libcusolver*.so*",               nullptr},
    {"cuSOLVER",    nullptr,                          "cusolver[A-Z]*"},
    {"cuRAND",      "libcurand.so*",                  nullptr},
    {"cuRAND",      nullptr,                          "curand[A-Z]*"},
    {"cuTENSOR",    "libcutensor*.so*",               nullptr},
    {"NPP",         "libnpp*.so*",                    nullptr},
    {"nvJPEG",      "libnvjpeg*.so*",                 nullptr},
    {"NCCL",        "libnccl.so*",                    nullptr},
    {"NCCL",        nullptr,                          "nccl[A-Z]*"},
    {"NVSHMEM",     "libnvshmem*.so*",                nullptr},
    {"TensorRT",    "libnvinfer*.so*",                nullptr},
    {"NVRTC",       "libnvrtc*.so*",                  nullptr},
    {"nvJitLink",   "libnvJitLink.so*",               nullptr},
    {"cuFile",      "libcufile*.so*",                 nullptr},
    {"CUPTI",       "libcupti.so*",                   nullptr},
    {"CUPTI",       "libnvperf_*.so*",                nullptr},
    {"OptiX",       "libnvoptix.so*",                 nullptr},
    {"the driver",  "libcuda.so*",                    nullptr},
    {"the driver",  "libcudadebugger.so*",            nullptr},
    {"the driver",  "libnvidia-*.so*",                nullptr},
};
// clang-format on

constexpr std::size_t kNoRule = std::size(kShippedRules);

bool matches(const char* pattern, const std::string& text) { return ::fnmatch(pattern, text.c_str(), 0) == 0; }

}  // namespace

std::size_t LibraryRules::rule_of_module(const Module* module) {
  if (module == nullptr) return kNoRule;
  const auto [at, added] = modules_.emplace(module, kNoRule);
  for (std::size_t i = 0; added && i < kNoRule && at->second == kNoRule; ++i) {
    if (kShippedRules[i].module != nullptr && matches(kShippedRules[i].module, module->name)) at->second = i;
  }
  return at->second;
}

std::size_t LibraryRules::rule_of_function(const Frame* frame) {
  const auto [at, added] = functions_.emplace(frame, kNoRule);
  for (std::size_t i = 0; added && i < kNoRule && at->second == kNoRule && !frame->approximate; ++i) {
    const Rule& rule = kShippedRules[i];
    if (rule.module == nullptr && matches(rule.function, frame->function)) at->second = i;
  }
  return at->second;
}

std::string LibraryRules::owning_library(const ResolvedStack& stack) {
  if (stack.caller == nullptr) return {};
  std::size_t rule = rule_of_module(stack.caller->module);
  // Goes outward from the call while the frames lie in the caller's module and have no source line: a statically linked
  // library.
  bool reached = false;
  for (const Frame* frame : stack.frames) {
    reached = reached || frame == stack.caller;
    if (!reached) continue;
    if (frame->module != stack.caller->module || !frame->file.empty()) break;
    rule = std::min(rule, rule_of_function(frame));
  }
  return rule == kNoRule ? "" : kShippedRules[rule].owner;
}

std::string owning_library(const ResolvedStack& stack) { return LibraryRules().owning_library(stack); }

bool is_known_library(const Frame& frame) {
  for (const Rule& rule : kShippedRules) {
    if (rule.module != nullptr && frame.module != nullptr && matches(rule.module, frame.module->name)) return true;
    if (rule.function != nullptr && frame.file.empty() && !frame.approximate && matches(rule.function, frame.function))
      return true;
  }
  return false;
}

}  // namespace culprit::report
