// CUPTI's functions are looked up in the libcupti of the process. The necessary part of its interface is declared here,
// and has not changed since CUDA 8 (cupti_callbacks.h).
#include "interpose/attach/cupti.h"

#include <dlfcn.h>

#include <cstring>
#include <type_traits>

#include "interpose/attach/hooks_cupti.h"
#include "interpose/base/elf_symbols.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/driver/api.h"
#include "interpose/driver/driver.h"
#include "interpose/stacks/stack.h"

namespace culprit {
namespace {

struct CallbackData {
  std::uint32_t site;  // 0: the call begins, 1: it ends
  const char* function;
  const void* parameters;
  const CUresult* result;
  const char* symbol;
  CUcontext context;
  std::uint32_t context_number;
  std::uint64_t* correlation_data;
  std::uint32_t correlation_id;
};
using Callback = void (*)(void* user, std::uint32_t domain, std::uint32_t id, const void* data);
using Subscriber = struct CuptiSubscriber*;
constexpr std::uint32_t kDriverCalls = 1;  // CUPTI_CB_DOMAIN_DRIVER_API
constexpr int kMaxLimitReached = 12, kMultipleSubscribers = 39;
constexpr std::uint32_t kMostIds = 4096;

struct Functions {
  int (*subscribe)(Subscriber*, Callback, void*);
  int (*unsubscribe)(Subscriber);
  int (*enable)(std::uint32_t, Subscriber, std::uint32_t, std::uint32_t);
  int (*name)(std::uint32_t, std::uint32_t, const char**);
  int (*finalize)();
};
Functions functions;
CodeRange code[2];  // libcuda's and CUPTI's
Subscriber subscriber = nullptr;
CallObserver observers[kMostIds];  // by CUPTI's number of the call

void on_call(void*, std::uint32_t domain, std::uint32_t id, const void* argument) {
  if (domain != kDriverCalls || id >= kMostIds) return;
  const auto* data = static_cast<const CallbackData*>(argument);
  const CallObserver& observer = observers[id];
  if (data->site == 0) {
    if (observer.enter != nullptr) observer.enter(data->parameters);
  } else if (observer.exit != nullptr && data->result != nullptr) {
    observer.exit(data->parameters, *data->result);
  }
}

int visit_for_cupti(struct dl_phdr_info* info, std::size_t, void*) {
  ElfModule module;
  if (!describe_module(*info, &module) || module.soname == nullptr ||
      std::strncmp(module.soname, "libcupti.so", 11) != 0)
    return 0;
  auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(find_symbol(module, name));
  };
  find(&functions.subscribe, "cuptiSubscribe");
  find(&functions.unsubscribe, "cuptiUnsubscribe");
  find(&functions.enable, "cuptiEnableCallback");
  find(&functions.name, "cuptiGetCallbackName");
  find(&functions.finalize, "cuptiFinalize");
  code[1] = {module.begin, module.end};
  return functions.subscribe != nullptr && functions.unsubscribe != nullptr && functions.enable != nullptr &&
         functions.name != nullptr && functions.finalize != nullptr;
}

bool find_cupti(const char* path) {
  if (visit_modules(visit_for_cupti, nullptr) != 0) return true;
  auto* open = reinterpret_cast<void* (*)(const char*, int)>(libc_function("dlopen"));
  if (path[0] == '\0' || open == nullptr || open(path, RTLD_NOW | RTLD_LOCAL) == nullptr) return false;
  return visit_modules(visit_for_cupti, nullptr) != 0;
}

// CUPTI's names for its callback IDs are the driver's symbols.
void match_names() {
  std::memset(observers, 0, sizeof(observers));
  for (std::uint32_t id = 1; id < kMostIds; ++id) {
    const char* name = nullptr;
    if (functions.name(kDriverCalls, id, &name) != 0 || name == nullptr) continue;
    for (int i = 0; i < kApiCount; ++i) {
      if (std::strcmp(api_name(static_cast<Api>(i)), name) == 0) observers[id] = call_observer(static_cast<Api>(i));
    }
  }
}

}  // namespace

CuptiEnd observe_calls(const char* path, std::int32_t* error) {
  *error = 0;
  if (!find_cupti(path)) return CuptiEnd::kNone;
  match_names();
  driver_range(&code[0].begin, &code[0].end);
  leave_out_leading(code, 2);
  *error = functions.subscribe(&subscriber, on_call, nullptr);
  if (*error == kMaxLimitReached || *error == kMultipleSubscribers) return CuptiEnd::kTaken;
  if (*error != 0) return CuptiEnd::kFailed;
  for (std::uint32_t id = 1; id < kMostIds && *error == 0; ++id) {
    if (observers[id].exit != nullptr) *error = functions.enable(1, subscriber, kDriverCalls, id);
  }
  if (*error == 0) return CuptiEnd::kDone;
  stop_observing_calls();
  return CuptiEnd::kFailed;
}

void stop_observing_calls() {
  if (subscriber == nullptr) return;
  functions.unsubscribe(subscriber);
  subscriber = nullptr;
  functions.finalize();
  leave_out_leading(code, 0);
}

}  // namespace culprit
