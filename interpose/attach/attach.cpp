#include "interpose/attach/attach.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "interpose/attach/address_words.h"
#include "interpose/attach/cupti.h"
#include "interpose/base/keep_errno.h"
#include "interpose/base/late_load.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/placement.h"
#include "interpose/base/text_writer.h"
#include "interpose/driver/driver.h"
#include "interpose/recorder/attach_state.h"
#include "interpose/recorder/known_threads.h"
#include "interpose/recorder/process.h"

namespace culprit {
namespace {

// How long a detach waits for threads to leave the driver.
constexpr int kDrainMs = 1000;

AddressWords* words = nullptr;  // made by the first attach, and kept
std::atomic<int> busy;          // one attach or detach at a time
bool memory_kept = false;       // the last detach could not free everything

class OneAtATime {
 public:
  OneAtATime() : mine_(busy.exchange(1) == 0) {}
  ~OneAtATime() {
    if (mine_) busy.store(0);
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;
  bool mine() const { return mine_; }

 private:
  bool mine_;
};

AddressWords* address_words() {
  int error = 0;
  if (words == nullptr) {
    void* memory = map_private(sizeof(AddressWords), &error);
    if (memory != nullptr) words = new (memory) AddressWords;
  }
  return words;
}

std::uint64_t deadline(const AttachRequest& request) {
  return clock_ns(CLOCK_MONOTONIC) + request.time_limit_ms * 1000000;
}

void answer(AttachRequest* request, const WordsResult& result) {
  request->words = result.words;
  request->slots = result.slots;
  request->searched_bytes = result.searched_bytes;
  request->unsearched_bytes = result.unsearched_bytes;
}

AttachResult begin_redirecting(AttachRequest* request) {
  WordsResult result;
  bool looked = words->replace(deadline(*request), &result);
  answer(request, result);
  if (looked) return AttachResult::kDone;
  words->put_back(deadline(*request), &result);
  return AttachResult::kNoMemory;
}

AttachResult begin_observing(AttachRequest* request) {
  switch (observe_calls(request->cupti, &request->error)) {
    case CuptiEnd::kDone:
      return AttachResult::kDone;
    case CuptiEnd::kNone:
      return AttachResult::kNoCupti;
    case CuptiEnd::kTaken:
      return AttachResult::kCuptiTaken;
    case CuptiEnd::kFailed:
      break;
  }
  return AttachResult::kCuptiFailed;
}

AttachResult attach(AttachRequest* request) {
  if (request->version != kAttachVersion) return AttachResult::kOtherVersion;
  if (!loaded_late()) return AttachResult::kPreloaded;
  OneAtATime one;
  if (!one.mine() || attached_here()) return AttachResult::kAlready;
  if (memory_kept) {
    if (!wait_for_threads(kDrainMs)) return AttachResult::kBusy;
    release_recording();
    memory_kept = false;
  }
  if (!driver_ready() && request->backend == AttachBackend::kCupti) return AttachResult::kNoDriver;
  if (address_words() == nullptr) return AttachResult::kNoMemory;
  set_attached(*request);
  begin_late();
  Process* process = prepare_recording(&request->error);
  if (process == nullptr) {
    set_detached();
    return AttachResult::kNoDump;
  }
  copy_text(request->dump, sizeof(request->dump), process->dump.path());
  bool cupti = request->backend == AttachBackend::kCupti;
  process->dump.header()->attached = cupti ? format::Attached::kCupti : format::Attached::kRedirect;
  AttachResult result = cupti ? begin_observing(request) : begin_redirecting(request);
  if (result == AttachResult::kDone) {
    if (!cupti) process->dump.header()->attach_flags = format::kAttachSeesThrows;
    begin_span_at_attach(*process);
    begin_recording(*process);
    return result;
  }
  set_detached();
  unlink(process->dump.path());
  memory_kept = !wait_for_threads(kDrainMs);
  if (!memory_kept) release_recording();
  return result;
}

AttachResult detach(AttachRequest* request) {
  if (request->version != kAttachVersion) return AttachResult::kOtherVersion;
  if (!loaded_late()) return AttachResult::kPreloaded;
  OneAtATime one;
  if (!one.mine() || !attached_here()) return AttachResult::kNotAttached;
  Process* process = process_if_recording();
  if (process != nullptr) {
    copy_text(request->dump, sizeof(request->dump), process->dump.path());
    end_recording(*process);
  }
  bool looked = true;
  if (attach_request().backend == AttachBackend::kCupti) {
    stop_observing_calls();
  } else {
    WordsResult result;
    looked = words->put_back(deadline(*request), &result);
    answer(request, result);
  }
  set_detached();
  memory_kept = !wait_for_threads(kDrainMs);
  if (!memory_kept) release_recording();
  return looked ? AttachResult::kDone : AttachResult::kNoMemory;
}

// The caller is the injector: it interrupted the thread at an arbitrary point.
template <typename Work>
void from_outside(AttachRequest* request, Work work) {
  KeepErrno keep;
  const bool ran = on_own_stack([&] {
    VisitInTracker tracker;
    AttachResult result = work(request);
    __atomic_store_n(&request->result, result, __ATOMIC_RELEASE);
    return true;
  });
  if (!ran) __atomic_store_n(&request->result, AttachResult::kNoMemory, __ATOMIC_RELEASE);
}

}  // namespace

void look_at_new_modules() {
  if (words == nullptr || !attached_here() || attach_request().backend == AttachBackend::kCupti) return;
  KeepErrno keep;
  words->look_at_new_modules();
}

}  // namespace culprit

CULPRIT_EXPORT void culprit_attach(culprit::AttachRequest* request) { culprit::from_outside(request, culprit::attach); }

CULPRIT_EXPORT void culprit_detach(culprit::AttachRequest* request) { culprit::from_outside(request, culprit::detach); }
