// The request of `culprit attach` and `culprit detach` to the library inside the process: written into the process's
// memory, where the library also stores its answer. The library exports
//
//     void culprit_attach(culprit::AttachRequest*);
//     void culprit_detach(culprit::AttachRequest*);
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kAttachVersion = 3;

enum class AttachBackend : std::uint32_t { kRedirect = 1, kCupti = 2 };

enum class AttachResult : std::uint32_t {
  kNone = 0,  // never called
  kDone = 1,
  kOtherVersion = 2,  // the library in the process is of another version
  kPreloaded = 3,     // loaded at the program's start, records without an attach
  kAlready = 4,       // already attached
  kNotAttached = 5,
  kBusy = 6,          // a thread is still in a CUDA call from an earlier attach
  kNoDump = 7,        // the dump cannot be created: `error` is an errno
  kNoMemory = 8,      // this process's memory cannot be read (a sandbox), or memory ran out
  kNoCupti = 9,       // no libcupti in the process, and `cupti` cannot be loaded
  kCuptiTaken = 10,   // another tool holds CUPTI
  kCuptiFailed = 11,  // `error` is CUPTI's code
  kNoDriver = 12,     // CUPTI: the process has not loaded libcuda
  kLoading = 13,      // another thread is loading a library, and did not finish in the time limit
  kInProgress = 14,   // another attach or detach is at work, or was broken off
};

struct AttachRequest {
  std::uint32_t version;
  AttachBackend backend;
  std::uint64_t time_limit_ms;  // for the search for addresses
  std::int32_t depth;           // frames kept of a stack; -1 = as set in the process's environment
  std::uint32_t reserved;
  char out[4096];    // pattern of the dump's path, as CULPRIT_OUT takes it
  char cupti[4096];  // libcupti to load when there is none; empty = none

  // The answer.
  AttachResult result;
  std::int32_t error;
  std::uint32_t words;  // addresses replaced in writable memory ...
  std::uint32_t slots;  // ... and in slots that the loader fills
  std::uint64_t searched_bytes;
  std::uint64_t unsearched_bytes;  // left when the time was up
  char dump[4096];                 // path of the dump
};
static_assert(offsetof(AttachRequest, out) == 24);
static_assert(sizeof(AttachRequest) % 8 == 0);

}  // namespace culprit::format
