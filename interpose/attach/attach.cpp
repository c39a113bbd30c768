#include "interpose/attach/attach.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "interpose/attach/address_words.h"
#include "interpose/attach/cupti.h"
#include "interpose/base/late_load.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/redirect.h"
#include "interpose/format/attach_request.h"
#include "interpose/recorder/known_threads.h"
#include "interpose/recorder/process.h"

namespace culprit {
namespace {

// How long a detach waits for threads to leave the driver.
constexpr int kDrainMs = 1000;

AddressWords* words = nullptr;  // made by the first attach, and kept
std::atomic<int> attached_pid;  // 0 = not attached
std::atomic<int> busy;          // one attach or detach at a time
bool memory_kept = false;       // the last detach could not free everything
AttachRequest chosen;           // of the present attach; read when the dump is created

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
  std::memcpy(&chosen, request, sizeof(chosen));
  attached_pid.store(static_cast<int>(getpid()));
  begin_late();
  Process* process = prepare_recording(&request->error);
  if (process == nullptr) {
    attached_pid.store(0);
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
  attached_pid.store(0);
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
  if (chosen.backend == AttachBackend::kCupti) {
    stop_observing_calls();
  } else {
    WordsResult result;
    looked = words->put_back(deadline(*request), &result);
    answer(request, result);
  }
  attached_pid.store(0);
  memory_kept = !wait_for_threads(kDrainMs);
  if (!memory_kept) release_recording();
  return looked ? AttachResult::kDone : AttachResult::kNoMemory;
}

// The caller is the injector: it interrupted the thread at an arbitrary point.
template <typename Work>
void from_outside(AttachRequest* request, Work work) {
  int saved_errno = errno;
  const bool ran = on_own_stack([&] {
    VisitInTracker tracker;
    AttachResult result = work(request);
    store_release(&request->result, result);
    return true;
  });
  if (!ran) store_release(&request->result, AttachResult::kNoMemory);
  errno = saved_errno;
}

}  // namespace

bool attached_here() {
  int pid = attached_pid.load(std::memory_order_relaxed);
  return pid != 0 && pid == static_cast<int>(getpid());
}

void apply_attach_options(Options* options) {
  if (!attached_here()) return;
  copy_text(options->out, sizeof(options->out), chosen.out);
  if (chosen.depth >= 0) options->depth = chosen.depth;
  // An attached process must not get additional output on standard error.
  options->log_level = LogLevel::kOff;
  options->quiet = true;
}

void look_at_new_modules() {
  if (words == nullptr || !attached_here() || chosen.backend == AttachBackend::kCupti) return;
  int saved_errno = errno;
  words->look_at_new_modules();
  errno = saved_errno;
}

}  // namespace culprit

#define CULPRIT_EXPORT extern "C" __attribute__((visibility("default")))

CULPRIT_EXPORT void culprit_attach(culprit::AttachRequest* request) { culprit::from_outside(request, culprit::attach); }

CULPRIT_EXPORT void culprit_detach(culprit::AttachRequest* request) { culprit::from_outside(request, culprit::detach); }
