#include "interpose/attach/attach.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "interpose/attach/address_words.h"
#include "interpose/attach/cupti.h"
#include "interpose/base/keep_errno.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_lock.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/placement.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/driver/driver.h"
#include "interpose/recorder/attach_state.h"
#include "interpose/recorder/known_threads.h"
#include "interpose/recorder/process.h"

namespace culprit {
namespace {

// How long a detach waits for threads to leave the driver.
constexpr int kDrainMs = 1000;

// A fork child inherits copies of these, which another thread may have been changing: they count only in the process
// that wrote them.
AddressWords* words = nullptr;  // made by the first attach, and kept
int words_of = 0;               // the process whose `words` it is
bool memory_kept = false;       // the last detach could not free everything

// One attach or detach at a time: process and thread at work, 0 = none. A thread that begins while it is at work itself
// was taken out of its call (a crash there).
std::atomic<std::uint64_t> at_work;

class OneAtATime {
 public:
  OneAtATime() {
    const auto process = static_cast<std::uint64_t>(getpid()) << 32;
    const std::uint64_t me = process | static_cast<std::uint32_t>(syscall(SYS_gettid));
    std::uint64_t present = 0;
    while (!mine_) {
      if (present == me || (present != 0 && (present >> 32 << 32) == process)) break;
      mine_ = at_work.compare_exchange_strong(present, me);
    }
    mine_ = mine_ || present == me;
  }
  ~OneAtATime() {
    if (mine_) at_work.store(0);
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;
  bool mine() const { return mine_; }

 private:
  bool mine_ = false;
};

AddressWords* address_words() {
  int error = 0;
  const int pid = static_cast<int>(getpid());
  if (words == nullptr || words_of != pid) {
    void* memory = map_private(sizeof(AddressWords), &error);
    if (memory == nullptr) return nullptr;
    words = new (memory) AddressWords;
    words_of = pid;
    memory_kept = false;
  }
  return words;
}

std::uint64_t deadline(const format::AttachRequest& request) {
  return clock_ns(CLOCK_MONOTONIC) + request.time_limit_ms * 1000000;
}

void answer(format::AttachRequest* request, const WordsResult& result) {
  request->words = result.words;
  request->slots = result.slots;
  request->searched_bytes = result.searched_bytes;
  request->unsearched_bytes = result.unsearched_bytes;
}

// How long to wait for another thread's dlopen() or dlclose().
std::uint32_t loading_limit(const format::AttachRequest& request) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(request.time_limit_ms / 2, 60000));
}

format::AttachResult begin_redirecting(format::AttachRequest* request, LoaderLock* loading) {
  WordsResult result;
  bool looked = words->replace(deadline(*request), loading, &result);
  answer(request, result);
  if (looked) return format::AttachResult::kDone;
  words->put_back(deadline(*request), loading, &result);
  return format::AttachResult::kNoMemory;
}

format::AttachResult begin_observing(format::AttachRequest* request) {
  switch (observe_calls(request->cupti, &request->error)) {
    case CuptiEnd::kDone:
      return format::AttachResult::kDone;
    case CuptiEnd::kNone:
      return format::AttachResult::kNoCupti;
    case CuptiEnd::kTaken:
      return format::AttachResult::kCuptiTaken;
    case CuptiEnd::kFailed:
      break;
  }
  return format::AttachResult::kCuptiFailed;
}

format::AttachResult attach(format::AttachRequest* request) {
  if (request->version != format::kAttachVersion) return format::AttachResult::kOtherVersion;
  if (!loaded_late()) return format::AttachResult::kPreloaded;
  OneAtATime one;
  if (!one.mine()) return format::AttachResult::kInProgress;
  if (attached_here()) return format::AttachResult::kAlready;
  if (address_words() == nullptr) return format::AttachResult::kNoMemory;
  if (memory_kept) {
    if (!wait_for_threads(kDrainMs)) return format::AttachResult::kBusy;
    release_recording();
    memory_kept = false;
  }
  if (!driver_ready() && request->backend == format::AttachBackend::kCupti) return format::AttachResult::kNoDriver;
  LoaderLock loading(loading_limit(*request));
  if (!loading.done()) return format::AttachResult::kLoading;
  expect_unseen_unloadings();
  set_attached(*request);
  begin_late();
  Process* process = prepare_recording(&request->error);
  if (process == nullptr) {
    set_detached();
    return format::AttachResult::kNoDump;
  }
  copy_text(request->dump, sizeof(request->dump), process->dump.path());
  bool cupti = request->backend == format::AttachBackend::kCupti;
  format::AttachResult result = cupti ? begin_observing(request) : begin_redirecting(request, &loading);
  if (result == format::AttachResult::kDone) {
    if (!cupti) process->dump.header()->attach_flags = format::kAttachSeesThrows;
    begin_span_at_attach(*process);
    begin_recording(*process);
    request_view(*process, kViewLoad | kViewAttach);
    return result;
  }
  set_detached();
  unlink(process->dump.path());
  memory_kept = !wait_for_threads(kDrainMs);
  if (!memory_kept) release_recording();
  return result;
}

format::AttachResult detach(format::AttachRequest* request) {
  if (request->version != format::kAttachVersion) return format::AttachResult::kOtherVersion;
  if (!loaded_late()) return format::AttachResult::kPreloaded;
  OneAtATime one;
  if (!one.mine()) return format::AttachResult::kInProgress;
  if (!attached_here()) return format::AttachResult::kNotAttached;
  LoaderLock loading(loading_limit(*request));
  if (!loading.done()) return format::AttachResult::kLoading;
  Process* process = process_if_recording();
  if (process != nullptr) {
    copy_text(request->dump, sizeof(request->dump), process->dump.path());
    end_recording(*process);
  }
  bool looked = true;
  if (attach_request().backend == format::AttachBackend::kCupti) {
    stop_observing_calls();
  } else {
    WordsResult result;
    looked = words->put_back(deadline(*request), &loading, &result);
    answer(request, result);
  }
  set_detached();
  memory_kept = !wait_for_threads(kDrainMs);
  if (!memory_kept) release_recording();
  return looked ? format::AttachResult::kDone : format::AttachResult::kNoMemory;
}

// The caller is the injector: it interrupted the thread at an arbitrary point.
template <typename Work>
void from_outside(format::AttachRequest* request, Work work) {
  KeepErrno keep;
  const bool ran = on_own_stack([&] {
    VisitInTracker tracker;
    format::AttachResult result = work(request);
    store_release(&request->result, result);
    return true;
  });
  if (!ran) store_release(&request->result, format::AttachResult::kNoMemory);
}

}  // namespace

void look_at_new_modules() {
  if (words == nullptr || !attached_here() || attach_request().backend == format::AttachBackend::kCupti) return;
  KeepErrno keep;
  words->look_at_new_modules();
}

}  // namespace culprit

CULPRIT_EXPORT void culprit_attach(culprit::format::AttachRequest* request) {
  culprit::from_outside(request, culprit::attach);
}

CULPRIT_EXPORT void culprit_detach(culprit::format::AttachRequest* request) {
  culprit::from_outside(request, culprit::detach);
}
