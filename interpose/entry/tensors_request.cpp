// The request of `culprit tensors PID`: the injector calls this in a thread of the program that it interrupted at an
// arbitrary point. kBegin asks for a frozen copy of the process (inside_python/frozen_copy.h), kEnd ends it.
#include "interpose/attach/from_outside.h"
#include "interpose/base/placement.h"
#include "interpose/format/attach_request.h"
#include "interpose/inside_python/frozen_copy.h"
#include "interpose/process/process.h"

namespace culprit {
namespace {

format::AttachResult serve(const format::AttachRequest* request) {
  if (request->version != format::kAttachVersion) return format::AttachResult::kOtherVersion;
  if (request->step == format::AttachStep::kEnd) {
    end_frozen_copy();
    return format::AttachResult::kDone;
  }
  Process* process = process_if_recording();
  if (process == nullptr) return format::AttachResult::kNotAttached;
  ask_for_frozen_copy(*process);
  return format::AttachResult::kDone;
}

}  // namespace
}  // namespace culprit

CULPRIT_EXPORT void culprit_tensors_v8(culprit::format::AttachRequest* request) {
  culprit::from_outside(request, culprit::serve);
}
