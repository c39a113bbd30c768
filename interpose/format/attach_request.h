// The request of `culprit attach`, `culprit detach` and `culprit tensors` to the library inside the process: written
// into the process's memory, where the library also stores its answer. The library exports
//
//     void culprit_attach_v8(culprit::AttachRequest*);
//     void culprit_detach_v8(culprit::AttachRequest*);
//     void culprit_tensors_v8(culprit::AttachRequest*);   // kBegin and kEnd only; the answer is in culprit_frozen
//     void culprit_scan_v8(culprit::AttachRequest*);      // likewise; the answer is in culprit_scan (scan_state.h)
//
// and, for looking at it from outside, the variable culprit_prepared, which is kPrepared once the library is loaded (a
// child that was forked while its parent loaded the library has a part of it), and the variable culprit_faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kAttachVersion = 9;
constexpr std::uint64_t kPrepared = 0x6465726170657270;

// An instruction that stores into the program's memory, and where the thread goes on if it raises SIGSEGV or SIGBUS.
struct FaultEntry {
  std::uint64_t instruction;
  std::uint64_t next;
};
struct FaultTable {
  const FaultEntry* begin;
  const FaultEntry* end;
};

enum class AttachBackend : std::uint32_t { kRedirect = 1, kCupti = 2 };

// Each takes several calls, so that a thread is borrowed for a short time only: the command looks for the words that
// hold the driver's addresses from outside, while the program runs.
enum class AttachStep : std::uint32_t {
  kBegin = 0,  // attach: replaces what the loader filled. detach: ends recording, and puts that back
  kSlots = 1,  // goes on with that, after kMore
  kWords = 2,  // replaces the words at `places`
  kEnd = 3,    // the same; then attach begins recording, and detach releases memory (kBusy: try again)
};

constexpr std::uint64_t kPlacesBlockBytes = 262144;  // places in one such block cost one system call to read

constexpr int kMostSearchedAddresses = 2048;
constexpr int kMostLeftOut = 64;

// For the look from outside: in the process's memory, at AttachRequest::search.
struct AddressSearch {
  std::uint32_t address_count;  // 0: there is no driver yet
  std::uint32_t left_out_count;
  std::uint64_t addresses[kMostSearchedAddresses];  // words with one of these values are to be replaced, ...
  struct {
    std::uint64_t begin, end;
  } left_out[kMostLeftOut];  // ... except in these ranges
};

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
  kMore = 15,         // the step's time was over before its end: kSlots goes on with kBegin, kEnd with itself
};

struct AttachRequest {
  std::uint32_t version;
  AttachBackend backend;
  AttachStep step;
  std::int32_t depth;              // frames kept of a stack; -1 = as set in the process's environment
  std::uint64_t places;            // addresses of words, in ascending order ...
  std::uint64_t place_count;       // ... and their number
  std::uint64_t threads_met;       // 1: all threads went through a memory barrier since the last step (membarrier(2))
  std::uint64_t unsearched_bytes;  // at AttachStep::kEnd: that were not looked at (again) in time
  char out[4096];                  // pattern of the dump's path, as CULPRIT_OUT takes it
  char cupti[4096];                // libcupti to load when there is none; empty = none

  // The answer.
  AttachResult result;  // stored last
  std::int32_t error;
  std::uint32_t words;          // addresses replaced by this step in writable memory ...
  std::uint32_t slots;          // ... and, once they are complete, in slots that the loader fills
  std::uint64_t search;         // address of an AddressSearch; 0: there is nothing to look for
  std::uint64_t refused_slots;  // that could not be replaced
  char dump[4096];              // path of the dump
};
static_assert(offsetof(AttachRequest, out) == 48);
static_assert(sizeof(AttachRequest) % 8 == 0);

}  // namespace culprit::format
