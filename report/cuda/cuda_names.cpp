#include "report/cuda/cuda_names.h"

#include <algorithm>
#include <iterator>

namespace culprit::report {
namespace {

constexpr std::string_view kRuntimeApiNames[] = {
#include "report/cuda/runtime_api_names.inc"
};

struct ResultName {
  int code;
  std::string_view name;
};
constexpr ResultName kResultNames[] = {
#include "report/cuda/cuda_result_names.inc"
};

struct FailureReason {
  std::string_view code_name;
  const char* text;
};
constexpr FailureReason kFailureReasons[] = {
    {"CUDA_ERROR_INVALID_VALUE", "an argument is wrong: a size of 0 or beyond the device's memory, or a null pointer"},
    {"CUDA_ERROR_OUT_OF_MEMORY", "there was not enough free memory"},
    {"CUDA_ERROR_NOT_INITIALIZED", "the driver was not initialized: cuInit was not called"},
    {"CUDA_ERROR_DEINITIALIZED", "the driver was shutting down"},
    {"CUDA_ERROR_NO_DEVICE", "there is no CUDA device"},
    {"CUDA_ERROR_INVALID_DEVICE", "there is no such device"},
    {"CUDA_ERROR_INVALID_CONTEXT", "no context is current to the thread"},
    {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context of the thread was destroyed"},
    {"CUDA_ERROR_INVALID_HANDLE", "a handle is wrong, or was destroyed before"},
    {"CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel used an illegal address before, which ends its context"},
    {"CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran for too long before, which ends its context"},
    {"CUDA_ERROR_ASSERT", "an assertion failed in a kernel before, which ends its context"},
    {"CUDA_ERROR_LAUNCH_FAILED", "a kernel failed before, which ends its context"},
    {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "a part of the host memory is registered already"},
    {"CUDA_ERROR_NOT_PERMITTED", "the call is not permitted, or its resource limit is reached"},
    {"CUDA_ERROR_NOT_SUPPORTED", "the device or the system does not support the call"},
    {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "the call is not permitted while a stream is captured"},
    {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error has ended the capture of the stream"},
    {"CUDA_ERROR_UNKNOWN", "the driver gave no reason"},
};

// The rows of interpose/driver/hooks.def.
constexpr std::string_view kHookedNames[] = {
#include "hooked_names.inc"
};

bool strip_suffix(std::string_view* name, std::string_view suffix) {
  if (name->size() <= suffix.size() || name->substr(name->size() - suffix.size()) != suffix) return false;
  name->remove_suffix(suffix.size());
  return true;
}

bool strip_version(std::string_view* name) {
  std::size_t end = name->size();
  while (end > 0 && (*name)[end - 1] >= '0' && (*name)[end - 1] <= '9') --end;
  if (end == name->size() || end < 3 || name->substr(end - 2, 2) != "_v") return false;
  *name = name->substr(0, end - 2);
  return true;
}

std::string_view base_name(std::string_view symbol) {
  symbol = symbol.substr(0, symbol.find('<'));
  while (strip_suffix(&symbol, "_ptsz") || strip_suffix(&symbol, "_ptds") || strip_version(&symbol)) {
  }
  return symbol;
}

}  // namespace

std::string cuda_result_name(int code) {
  const auto* found = std::lower_bound(std::begin(kResultNames), std::end(kResultNames), code,
                                       [](const ResultName& entry, int value) { return entry.code < value; });
  if (found != std::end(kResultNames) && found->code == code) return std::string(found->name);
  return "CUresult " + std::to_string(code);
}

std::string cuda_failure_reason(int code) {
  const std::string name = cuda_result_name(code);
  for (const FailureReason& reason : kFailureReasons) {
    if (reason.code_name == name) return reason.text;
  }
  return "the driver refused it";
}

int cuda_result_code(std::string_view name) {
  for (const ResultName& entry : kResultNames) {
    if (entry.name == name) return entry.code;
  }
  return -1;
}

bool is_runtime_api(std::string_view symbol) {
  if (symbol.substr(0, 4) != "cuda") return false;
  return std::binary_search(std::begin(kRuntimeApiNames), std::end(kRuntimeApiNames), base_name(symbol));
}

std::string source_api_name(std::string_view symbol) { return std::string(base_name(symbol)); }

bool is_hooked_function(std::string_view name) {
  return std::any_of(std::begin(kHookedNames), std::end(kHookedNames),
                     [&](std::string_view hooked) { return hooked == name || base_name(hooked) == name; });
}

}  // namespace culprit::report
