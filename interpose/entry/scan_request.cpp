// The request of `culprit scan PID`: the injector calls this in a thread of the program, after it stopped all others
// where they hold no lock of malloc, of the loader or of the driver. kBegin searches for lost memory in a frozen copy
// of the process (causes/lost_scan.h), kEnd ends the copy.
#include "interpose/attach/from_outside.h"
#include "interpose/base/placement.h"
#include "interpose/causes/lost_scan.h"
#include "interpose/format/attach_request.h"
#include "interpose/process/process.h"

namespace culprit {
namespace {

format::AttachResult serve_scan(const format::AttachRequest* request) {
  if (request->version != format::kAttachVersion) return format::AttachResult::kOtherVersion;
  if (request->step == format::AttachStep::kEnd) {
    end_lost_scan();
    return format::AttachResult::kDone;
  }
  Process* process = process_if_recording();
  if (process == nullptr) return format::AttachResult::kNotAttached;
  begin_lost_scan(*process, reinterpret_cast<const std::uint64_t*>(request->places), request->place_count);
  return format::AttachResult::kDone;
}

}  // namespace
}  // namespace culprit

CULPRIT_EXPORT void culprit_scan_v8(culprit::format::AttachRequest* request) {
  culprit::from_outside(request, culprit::serve_scan);
}
