// A libcupti of the simulated driver: callbacks at the end of driver calls, for one subscriber. SIM_CUPTI=taken:
// another tool holds it; SIM_CUPTI=broken: subscribing fails.
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "tests/simcuda/driver/observer.h"

namespace {

enum { kDone = 0, kInvalidParameter = 1, kMultipleSubscribers = 39, kUnknown = 999, kDriverCalls = 1, kMostIds = 4096 };

struct CallbackData {
  unsigned site;
  const char* function;
  const void* parameters;
  const int* result;
  const char* symbol;
  CUcontext context;
  unsigned context_number;
  unsigned long long* correlation_data;
  unsigned correlation_id;
};
using Callback = void (*)(void* user, unsigned domain, unsigned id, const void* data);

Callback callback = nullptr;
void* user_data = nullptr;
bool enabled[kMostIds];

// Fetched once: the driver reports this call, too.
const simcuda::ObserverTable* table() {
  static const void* found = nullptr;
  CUuuid id;
  memcpy(id.bytes, "simcuda observer", sizeof(id.bytes));
  if (found == nullptr && cuGetExportTable(&found, &id) != CUDA_SUCCESS) abort();
  return static_cast<const simcuda::ObserverTable*>(found);
}

// CUPTI's number of a function is its place in the driver's list, plus 1.
void on_call(const char* name, const void* parameters, const int* result) {
  if (callback == nullptr) return;
  for (unsigned i = 0; const char* one = table()->name(i); ++i) {
    if (!enabled[i + 1] || strcmp(one, name) != 0) continue;
    CallbackData data = {};
    data.function = data.symbol = name;
    data.parameters = parameters;
    data.result = result;
    for (unsigned site : {0U, 1U}) {
      data.site = site;
      callback(user_data, kDriverCalls, i + 1, &data);
    }
    return;
  }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuptiSubscribe(void** subscriber, Callback function, void* user) {
  const char* how = getenv("SIM_CUPTI");
  if (how != nullptr && strcmp(how, "broken") == 0) return kUnknown;
  if (callback != nullptr || (how != nullptr && strcmp(how, "taken") == 0)) return kMultipleSubscribers;
  callback = function;
  user_data = user;
  *subscriber = &callback;
  table()->observe(on_call);
  return kDone;
}

EXPORT int cuptiUnsubscribe(void*) {
  callback = nullptr;
  table()->observe(nullptr);
  memset(enabled, 0, sizeof(enabled));
  return kDone;
}

EXPORT int cuptiEnableCallback(unsigned on, void*, unsigned domain, unsigned id) {
  if (domain != kDriverCalls || id == 0 || id >= kMostIds) return kInvalidParameter;
  enabled[id] = on != 0;
  return kDone;
}

EXPORT int cuptiGetCallbackName(unsigned domain, unsigned id, const char** name) {
  if (domain != kDriverCalls || id == 0 || id >= kMostIds) return kInvalidParameter;
  for (unsigned i = 0; const char* one = table()->name(i); ++i) {
    if (i + 1 != id) continue;
    *name = one;
    return kDone;
  }
  return kInvalidParameter;
}

EXPORT int cuptiFinalize(void) { return cuptiUnsubscribe(nullptr); }
