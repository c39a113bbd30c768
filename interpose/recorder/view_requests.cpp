#include "interpose/recorder/view_requests.h"

#include "interpose/base/placement.h"
#include "interpose/recorder/process.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD void (*serve_requests)(Process&, std::uint32_t);

}  // namespace

CULPRIT_LOADING void prepare_view(void (*serve)(Process&, std::uint32_t)) { serve_requests = serve; }

void request_view(Process& process, std::uint32_t requests) {
  if (serve_requests != nullptr && process.options.python) serve_requests(process, requests);
}

}  // namespace culprit
