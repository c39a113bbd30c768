#include "interpose/dump/thread_part.h"

namespace culprit {

__thread ThreadLocks thread_locks __attribute__((tls_model("initial-exec"))) = {};

}  // namespace culprit
