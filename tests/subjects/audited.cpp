// Calls for the audit, in the order of its arguments:
//   all        one of each sort through the usual ways, everything freed
//   leak       cuMemAlloc of 20001 bytes
//   private    3 calls of cuMemAllocAsync of 4 MiB at an address that no look-up gave (simulated driver only)
//   profiler   the program's own profiler: it subscribes to CUPTI, with the libcupti at CULPRIT_CUPTI
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simcuda/driver/observer.h"
#include "tests/subjects/check.h"

SUBJECT_FUNCTION void call_all() {
  CUdeviceptr memory = 0;
  CHECKED(cuMemAlloc(&memory, 1 << 20));
  CHECKED(cuMemFree(memory));
  CHECKED(cuMemAllocAsync(&memory, 1 << 20, nullptr));
  CHECKED(cuMemFreeAsync(memory, nullptr));
  void* host = nullptr;
  CHECKED(cuMemHostAlloc(&host, 4096, 0));
  CHECKED(cuMemFreeHost(host));
  CUstream stream = nullptr;
  CHECKED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECKED(cuStreamDestroy(stream));
  CUevent event = nullptr;
  CHECKED(cuEventCreate(&event, 0));
  CHECKED(cuEventDestroy(event));
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CHECKED(cuGraphCreate(&graph, 0));
  CHECKED(cuGraphInstantiate(&executable, graph, 0));
  CHECKED(cuGraphExecDestroy(executable));
  CHECKED(cuGraphDestroy(graph));
  CUcontext context = nullptr;
  CHECKED(cuCtxCreate(&context, nullptr, 0, 0));
  CHECKED(cuCtxDestroy(context));
}

SUBJECT_FUNCTION void leak() {
  CUdeviceptr memory = 0;
  CHECKED(cuMemAlloc(&memory, 20001));
}

SUBJECT_FUNCTION void call_private() {
  CUuuid id;
  memcpy(id.bytes, "simcuda observer", sizeof(id.bytes));
  const void* table = nullptr;
  CHECKED(cuGetExportTable(&table, &id));
  auto* allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t, CUstream)>(
      static_cast<const simcuda::ObserverTable*>(table)->address("cuMemAllocAsync"));
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr memory = 0;
    CHECKED(allocate(&memory, 4 << 20, nullptr));
  }
}

void ignore(void*, unsigned, unsigned, const void*) {}

void profile() {
  void* cupti = dlopen(getenv("CULPRIT_CUPTI"), RTLD_NOW);
  auto* subscribe = reinterpret_cast<int (*)(void**, void*, void*)>(dlsym(cupti, "cuptiSubscribe"));
  if (subscribe == nullptr) exit(3);
  void* subscriber = nullptr;
  CHECKED(subscribe(&subscriber, reinterpret_cast<void*>(ignore), nullptr));
}

int main(int argc, char** argv) {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "all") == 0) call_all();
    if (strcmp(argv[i], "leak") == 0) leak();
    if (strcmp(argv[i], "private") == 0) call_private();
    if (strcmp(argv[i], "profiler") == 0) profile();
  }
  puts("fine");
  return 0;
}
