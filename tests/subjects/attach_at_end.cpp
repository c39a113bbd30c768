// Attaches and detaches happen in threads whose key destructors have run, so the library does not learn when their
// memory goes. Their stacks, with thread-local data, are re-used by later threads.
//
//   attach_at_end LIBRARY DUMP
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "interpose/format/attach_request.h"

namespace {

using Call = void (*)(culprit::format::AttachRequest*);
Call attach, detach;
const char* dump;
pthread_key_t key;
thread_local int rounds = 0;

void call(Call function, const char* what) {
  static culprit::format::AttachRequest request;
  request = {};
  request.version = culprit::format::kAttachVersion;
  request.backend = culprit::format::AttachBackend::kRedirect;
  request.depth = -1;
  std::snprintf(request.out, sizeof(request.out), "%s", dump);
  function(&request);
  request.step = culprit::format::AttachStep::kSlots;
  while (request.result == culprit::format::AttachResult::kMore) function(&request);
  request.step = culprit::format::AttachStep::kEnd;
  if (request.result == culprit::format::AttachResult::kDone) function(&request);
  while (request.result == culprit::format::AttachResult::kMore) function(&request);
  if (request.result == culprit::format::AttachResult::kDone) return;
  std::fprintf(stderr, "cannot %s: %u\n", what, static_cast<unsigned>(request.result));
  std::exit(3);
}

// Called again as long as there is a value, PTHREAD_DESTRUCTOR_ITERATIONS times. The key is newer than the library's
// key, so in the last round the library's destructor has run before this function.
void at_the_end(void*) {
  if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(key, &key);
    return;
  }
  call(attach, "attach");
  call(detach, "detach");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  dump = argv[2];
  if (cudaFree(nullptr) != cudaSuccess) return 3;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  attach = reinterpret_cast<Call>(dlsym(library, "culprit_attach_v8"));
  detach = reinterpret_cast<Call>(dlsym(library, "culprit_detach_v8"));
  if (attach == nullptr || detach == nullptr || pthread_key_create(&key, at_the_end) != 0) return 3;
  std::puts("ready");
  std::fflush(stdout);
  for (int i = 0; i < 4; ++i) std::thread([] { pthread_setspecific(key, &key); }).join();
  std::puts("done");
  return 0;
}
