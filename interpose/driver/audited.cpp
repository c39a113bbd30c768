#include "interpose/driver/audited.h"

#include <cstring>
#include <initializer_list>

#include "interpose/driver/api.h"

namespace culprit {
namespace {

// Words of names of functions that make or end something.
constexpr const char* kVerbs[] = {"Create", "Destroy",  "Alloc",       "Free",       "Map",    "Unmap",
                                  "Mapped", "Import",   "Instantiate", "Reserve",    "Retain", "Release",
                                  "Reset",  "Register", "Open",        "Unregister", "Attach", "Detach",
                                  "Clone",  "Load",     "Close",       "Unload"};

// Functions with such a word that make and end nothing, or nothing that the report is about; at the end of a name *
// stands for any text. The reasons are in exclusions.txt, or here for functions that Linux does not have;
// scripts/check-tables.py finds a row without one.
constexpr const char* kLeftOut[] = {
    "cuGraphics*",
    "cuGL*",
    "cuEGL*",
    "cuVDPAU*",
    "cuD3D*",  // Direct3D, which is of Windows
    "cuGraphMemAllocNodeGetParams",
    "cu64*",  // twins for OpenGL and Direct3D of CUDA 3, which no library exports
    "cuGraphConditionalHandle*",
    "cuGraphMemFreeNodeGetParams",
    "cuGraphDestroyNode",
    "cuGraphNodeFindInClone",
    "cuGraphReleaseUserObject",
    "cuCtxResetPersistingL2Cache",
    "cuMemMapArrayAsync",
    "cuStreamAttachMemAsync",
    "cuDeviceRegisterAsyncNotification",
    "cuTensorMap*",
    "cuFuncLoad",
    "cuLogsRegisterCallback",
    "cuDeviceUnregisterAsyncNotification",
    "cuEventCreateFromEGL*",
    "cuLogsUnregisterCallback",
    "cuEventCreateFromNVN*",  // of NVIDIA's consoles
};

// Functions without such a word that make or end something.
constexpr const char* kAdded[] = {"cuGraphAddNode", "cuStreamEndCapture"};

// The length of a symbol without its version and the suffix of its variant for a thread's own default stream.
std::size_t plain_length(const char* symbol) {
  std::size_t length = std::strlen(symbol);
  if (length > 5 && (std::strcmp(symbol + length - 5, "_ptsz") == 0 || std::strcmp(symbol + length - 5, "_ptds") == 0))
    length -= 5;
  if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v') length -= 3;
  return length;
}

bool matches(const char* pattern, const char* symbol, std::size_t length) {
  const std::size_t fixed = std::strlen(pattern);
  if (fixed != 0 && pattern[fixed - 1] == '*')
    return length >= fixed - 1 && std::strncmp(pattern, symbol, fixed - 1) == 0;
  return fixed == length && std::strncmp(pattern, symbol, length) == 0;
}

bool is_small(char c) { return c >= 'a' && c <= 'z'; }

// Whether one of the camel-case words of the name is a verb.
bool has_verb(const char* symbol, std::size_t length) {
  for (const char* verb : kVerbs) {
    const std::size_t word = std::strlen(verb);
    for (std::size_t i = 2; i + word <= length; ++i) {
      if (std::strncmp(symbol + i, verb, word) == 0 && (i + word == length || !is_small(symbol[i + word]))) return true;
    }
  }
  return false;
}

bool same_function(const char* left, const char* right) {
  const std::size_t length = plain_length(left);
  return length == plain_length(right) && std::strncmp(left, right, length) == 0;
}

constexpr const char* kSecondIsSize[] = {"cuMemAlloc",        "cuMemAllocManaged",      "cuMemAllocHost",
                                         "cuMemHostAlloc",    "cuMemAllocAsync",        "cuMemCreate",
                                         "cuMemHostRegister", "cuMemAllocFromPoolAsync"};

std::uint64_t word_of(const void* parameters, int index) {
  std::uint64_t word;
  std::memcpy(&word, static_cast<const char*>(parameters) + 8 * index, sizeof(word));
  return word;
}

// The first versions of some functions have sizes of 32 bits. CUDA 3.2 replaced them.
bool has_short_sizes(const char* symbol) {
  for (const char* old : {"cuMemAlloc", "cuMemAllocHost", "cuMemAllocPitch"}) {
    if (std::strcmp(symbol, old) == 0) return true;
  }
  return false;
}

}  // namespace

bool is_audited(const char* symbol) {
  if (std::strncmp(symbol, "cu", 2) != 0) return false;
  const std::size_t length = plain_length(symbol);
  for (const char* added : kAdded) {
    if (matches(added, symbol, length)) return true;
  }
  for (const char* left_out : kLeftOut) {
    if (matches(left_out, symbol, length)) return false;
  }
  return has_verb(symbol, length);
}

bool has_recording_row(const char* symbol) {
  static constexpr const char* kRows[] = {
#define HOOK_MAKE(symbol, ...) #symbol,
#define HOOK_END(symbol, ...) #symbol,
#define HOOK_CUSTOM(symbol, ...) #symbol,
#define HOOK_CHECK(...)
#define HOOK_SWITCH(...)
#include "interpose/driver/hooks.def"
  };
  for (const char* row : kRows) {
    if (same_function(row, symbol)) return true;
  }
  return false;
}

std::uint64_t audited_bytes(const char* symbol, const void* parameters) {
  if (parameters == nullptr || has_short_sizes(symbol)) return 0;
  const std::size_t length = plain_length(symbol);
  for (const char* function : kSecondIsSize) {
    if (matches(function, symbol, length)) return word_of(parameters, 1);
  }
  if (!matches("cuMemAllocPitch", symbol, length)) return 0;
  const auto* pitch = reinterpret_cast<const std::uint64_t*>(word_of(parameters, 1));
  return pitch == nullptr ? 0 : *pitch * word_of(parameters, 3);
}

}  // namespace culprit
