// The runtime's free functions at exit.
//
// Once libcudart has begun to unload itself, its cudaFree answers cudaErrorCudartUnloading without asking the driver: a
// global whose destructor frees its memory properly would be reported as a leak. The driver can not see that, so these
// few functions are hooked at the runtime: they have the same signature in CUDA 11 to 13, each forwards by a tail jump
// (runtime_frees_*.S) to the libcudart that its caller is linked to, and does nothing else until exit handlers run. A
// static cudart has no symbol to stand in front of.
#pragma once

namespace culprit {

// Whether `symbol` is one of them.
bool is_runtime_free(const char* symbol);

// Exit handlers are running: from now on an answer of cudaErrorCudartUnloading is a late free.
void watch_runtime_frees();

}  // namespace culprit
