// The runtime's free functions at exit.
//
// Once libcudart has begun to unload itself, its cudaFree returns cudaErrorCudartUnloading without a driver call: a
// global whose destructor frees its memory correctly would be reported as a leak. Driver hooks do not see that, so
// these few functions are hooked at the runtime: they have the same signature in CUDA 11 to 13, each forwards by a tail
// jump (runtime_frees_*.S) to the libcudart that its caller is linked to, and does nothing else until exit handlers
// run. A static cudart has no symbol to interpose.
#pragma once

namespace culprit {

// Whether `symbol` is one of them.
bool is_runtime_free(const char* symbol);

// Exit handlers are running: from now on a result of cudaErrorCudartUnloading counts as a late free.
void watch_runtime_frees();

}  // namespace culprit
