#include "interpose/attach/attach.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "interpose/attach/address_words.h"
#include "interpose/attach/cupti.h"
#include "interpose/attach/from_outside.h"
#include "interpose/attach/step_time.h"
#include "interpose/base/keep_errno.h"
#include "interpose/base/placement.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/call_stack/view_requests.h"
#include "interpose/control/recording_switch.h"
#include "interpose/control/start.h"
#include "interpose/driver/driver.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_lock.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/attach_state.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/process.h"
#include "interpose/system/freed_memory.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/own_stack.h"

namespace culprit {
namespace {

using Progress = AddressWords::Progress;

// How long a step waits for threads to leave the driver, and for another thread's dlopen() or dlclose(). The command
// tries again, so that its thread is not stopped meanwhile.
constexpr int kDrainMs = 1;
constexpr std::uint32_t kLoadingMs = 2;
// How long one step works on slots. Borrowing the thread takes another millisecond.
constexpr std::uint64_t kStepNs = 1500000;

// A fork child inherits copies of these, which another thread may have been changing: they count only in the process
// that wrote them.
AddressWords* words = nullptr;  // made by the first attach, and kept
int words_of = 0;               // the process whose `words` it is
bool memory_kept = false;       // the last detach could not free everything
bool detach_ended = true;       // it has unmapped what it freed
Process* begun = nullptr;       // of an attach that has not come to its end

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
    begun = nullptr;
  }
  return words;
}

bool uses_cupti(const format::AttachRequest& request) { return request.backend == format::AttachBackend::kCupti; }

// The slots come first: when they are replaced, the loader gives out our hooks only.
format::AttachResult begin_redirecting(format::AttachRequest* request, const StepTime& time) {
  const Progress progress = words->replace_slots(time);
  if (progress == Progress::kNoMemory) return format::AttachResult::kNoMemory;
  if (progress == Progress::kMore || time.is_over()) return format::AttachResult::kMore;
  request->slots = words->changed_slots();
  request->refused_slots = words->refused_slots();
  request->search = reinterpret_cast<std::uint64_t>(AddressWords::search_for(true));
  return format::AttachResult::kDone;
}

format::AttachResult end_redirecting(format::AttachRequest* request, const StepTime& time) {
  if (words->put_slots_back(time) == Progress::kMore || time.is_over()) return format::AttachResult::kMore;
  request->slots = words->changed_slots();
  request->search = reinterpret_cast<std::uint64_t>(AddressWords::search_for(false));
  return format::AttachResult::kDone;
}

// False: another thread loads or closes a library.
bool replace_words(bool driver, format::AttachRequest* request) {
  if (uses_cupti(attach_request()) || request->place_count == 0) return true;
  const LoaderLock loading(kLoadingMs);
  if (!loading.done()) return false;
  request->words =
      AddressWords::replace(driver, reinterpret_cast<const std::uint64_t*>(request->places), request->place_count);
  return true;
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

void release_later() {
  const FreesLater later;
  release_recording();
}

// Undoes an attach that cannot go on, or whose command has ended. False: the time is over; call it again.
bool undo_attach(Process* process, const StepTime& time) {
  if (uses_cupti(attach_request()))
    stop_observing_calls();
  else if (words->put_slots_back(time) == Progress::kMore)
    return false;
  set_detached();
  unlink(process->dump.path());
  memory_kept = !wait_for_threads(kDrainMs);
  if (!memory_kept) release_later();
  return true;
}

format::AttachResult begin_attach(format::AttachRequest* request, const StepTime& time) {
  if (address_words() == nullptr) return format::AttachResult::kNoMemory;
  const LoaderLock loading(kLoadingMs);
  if (!loading.done()) return format::AttachResult::kLoading;
  if (attached_here() && begun != nullptr && !undo_attach(begun, time)) return format::AttachResult::kBusy;
  begun = nullptr;
  if (attached_here()) return format::AttachResult::kAlready;
  if (memory_kept) {
    if (!wait_for_threads(kDrainMs)) return format::AttachResult::kBusy;
    release_later();
    memory_kept = false;
  }
  if (!unmap_freed(time.end())) return format::AttachResult::kBusy;
  if (!driver_ready() && uses_cupti(*request)) return format::AttachResult::kNoDriver;
  expect_unseen_unloadings();
  set_attached(*request);
  begin_late();
  Process* process = prepare_recording(&request->error);
  if (process == nullptr) {
    set_detached();
    return format::AttachResult::kNoDump;
  }
  copy_text(request->dump, sizeof(request->dump), process->dump.path());
  process->dump.header()->attach_flags = format::kAttachUnfinished;
  const format::AttachResult result =
      uses_cupti(*request) ? begin_observing(request) : begin_redirecting(request, time);
  if (result == format::AttachResult::kDone || result == format::AttachResult::kMore)
    begun = process;
  else
    undo_attach(process, StepTime());
  return result;
}

format::AttachResult end_attach(const format::AttachRequest& request) {
  Process& process = *begun;
  begun = nullptr;
  process.dump.header()->attach_unsearched_bytes = request.unsearched_bytes;
  process.dump.header()->attach_flags = uses_cupti(attach_request()) ? 0U : format::kAttachSeesThrows;
  process.dump.postpone_waits();  // the dump was made before the search, which may take a minute
  begin_span_at_attach(process);
  begin_recording(process);
  request_view(process, kViewLoad | kViewAttach);
  return format::AttachResult::kDone;
}

format::AttachResult attach(format::AttachRequest* request) {
  if (request->version != format::kAttachVersion) return format::AttachResult::kOtherVersion;
  if (!loaded_late()) return format::AttachResult::kPreloaded;
  OneAtATime one;
  if (!one.mine()) return format::AttachResult::kInProgress;
  const StepTime time(kStepNs);
  if (request->step == format::AttachStep::kBegin) return begin_attach(request, time);
  if (!attached_here() || begun == nullptr) return format::AttachResult::kNotAttached;
  if (request->step == format::AttachStep::kSlots) {
    const LoaderLock loading(kLoadingMs);
    return loading.done() ? begin_redirecting(request, time) : format::AttachResult::kLoading;
  }
  if (!replace_words(true, request)) return format::AttachResult::kLoading;
  return request->step == format::AttachStep::kEnd ? end_attach(*request) : format::AttachResult::kDone;
}

format::AttachResult begin_detach(format::AttachRequest* request, const StepTime& time) {
  const LoaderLock loading(kLoadingMs);
  if (!loading.done()) return format::AttachResult::kLoading;
  Process* process = process_if_recording();
  if (process != nullptr) {
    copy_text(request->dump, sizeof(request->dump), process->dump.path());
    end_recording(*process);
  }
  if (begun != nullptr) unlink(begun->dump.path());
  begun = nullptr;
  if (uses_cupti(attach_request())) {
    stop_observing_calls();
    return format::AttachResult::kDone;
  }
  return end_redirecting(request, time);
}

format::AttachResult end_detach(const format::AttachRequest& request, const StepTime& time) {
  if (attached_here()) {
    set_detached();
    memory_kept = true;
  }
  if (memory_kept) {
    if (!wait_for_threads(kDrainMs, request.threads_met != 0)) return format::AttachResult::kBusy;
    release_later();
    memory_kept = false;
  }
  detach_ended = unmap_freed(time.end());
  return detach_ended ? format::AttachResult::kDone : format::AttachResult::kMore;
}

format::AttachResult detach(format::AttachRequest* request) {
  if (request->version != format::kAttachVersion) return format::AttachResult::kOtherVersion;
  if (!loaded_late()) return format::AttachResult::kPreloaded;
  OneAtATime one;
  const bool again = request->step == format::AttachStep::kEnd && (memory_kept || !detach_ended);
  if (!one.mine()) return format::AttachResult::kInProgress;
  if (!attached_here() && !again) return format::AttachResult::kNotAttached;
  const StepTime time(kStepNs);
  if (request->step == format::AttachStep::kBegin || request->step == format::AttachStep::kSlots)
    return begin_detach(request, time);
  if (attached_here() && !replace_words(false, request)) return format::AttachResult::kLoading;
  return request->step == format::AttachStep::kEnd ? end_detach(*request, time) : format::AttachResult::kDone;
}

}  // namespace

void look_at_new_modules() {
  if (words == nullptr || !attached_here() || attach_request().backend == format::AttachBackend::kCupti) return;
  KeepErrno keep;
  words->look_at_new_modules();
}

}  // namespace culprit

CULPRIT_EXPORT void culprit_attach_v8(culprit::format::AttachRequest* request) {
  culprit::from_outside(request, culprit::attach);
}

CULPRIT_EXPORT void culprit_detach_v8(culprit::format::AttachRequest* request) {
  culprit::from_outside(request, culprit::detach);
}
