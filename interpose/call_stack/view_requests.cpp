#include "interpose/call_stack/view_requests.h"

#include "interpose/process/rooms_above.h"

namespace culprit {

void request_view(Process& process, std::uint32_t requests) {
  if (rooms_above.serve_view != nullptr && process.options.python) rooms_above.serve_view(process, requests);
}

}  // namespace culprit
