// A request of an injector, in a thread of the program that it interrupted at an arbitrary point.
#pragma once

#include "interpose/base/keep_errno.h"
#include "interpose/base/store_release.h"
#include "interpose/format/attach_request.h"
#include "interpose/process/known_threads.h"
#include "interpose/system/own_stack.h"

namespace culprit {

// Stores the result of work(request) in the request. The work runs on the library's own stack.
template <typename Work>
void from_outside(format::AttachRequest* request, Work work) {
  KeepErrno keep;
  const bool ran = on_own_stack([&] {
    VisitInTracker tracker;
    format::AttachResult result = work(request);
    store_release(&request->result, result);
    return true;
  });
  // The work leaves addresses of the driver on that stack, which the next search from outside would find.
  release_own_stack(false);
  if (!ran) store_release(&request->result, format::AttachResult::kNoMemory);
}

}  // namespace culprit
