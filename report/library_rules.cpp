#include "report/library_rules.h"

#include <fnmatch.h>

namespace culprit {
namespace {

struct Rule {
  const char* owner;
  const char* module;    // pattern for the base name of the calling module; nullptr: any
  const char* function;  // pattern for a function without line information next to the call; nullptr: any
};

// A library that is linked statically into the program shows by its public functions. Frameworks' caching allocators
// are not here: what they hold is the program's memory, and they are judged by what they cached.
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

bool matches(const char* pattern, const std::string& text) { return ::fnmatch(pattern, text.c_str(), 0) == 0; }

}  // namespace

std::string owning_library(const ResolvedStack& stack) {
  if (stack.caller == nullptr) return {};
  // From the call outward, as long as the frames lie in the caller's module and have no source: a library that was
  // linked in.
  std::vector<const Frame*> inside;
  bool reached = false;
  for (const Frame* frame : stack.frames) {
    reached = reached || frame == stack.caller;
    if (!reached) continue;
    if (frame->module != stack.caller->module || !frame->file.empty()) break;
    inside.push_back(frame);
  }
  for (const Rule& rule : kShippedRules) {
    if (rule.module != nullptr) {
      if (stack.caller->module != nullptr && matches(rule.module, stack.caller->module->name)) return rule.owner;
      continue;
    }
    for (const Frame* frame : inside) {
      if (!frame->approximate && matches(rule.function, frame->function)) return rule.owner;
    }
  }
  return {};
}

bool is_known_library(const Frame& frame) {
  for (const Rule& rule : kShippedRules) {
    if (rule.module != nullptr && frame.module != nullptr && matches(rule.module, frame.module->name)) return true;
    if (rule.function != nullptr && frame.file.empty() && !frame.approximate && matches(rule.function, frame.function))
      return true;
  }
  return false;
}

}  // namespace culprit
