#include "interpose/process/thread_state.h"

namespace culprit {

__thread ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};

}  // namespace culprit
