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
void (*listener)(const CuptiCall& call) = nullptr;
std::uint64_t loaded_here = 0;          // where the libcupti lies that this file loaded
CallObserver observers[kMostCuptiIds];  // by CUPTI's number of the call

void on_call(void*, std::uint32_t domain, std::uint32_t id, const void* argument) {
  if (domain != kDriverCalls || id >= kMostCuptiIds) return;
  const auto* data = static_cast<const CallbackData*>(argument);
  listener({id, data->site == 0, data->parameters, reinterpret_cast<const int*>(data->result)});
}

void observe(const CuptiCall& call) {
  const CallObserver& observer = observers[call.id];
  if (call.begins) {
    if (observer.enter != nullptr) observer.enter(call.parameters);
  } else if (observer.exit != nullptr && call.result != nullptr) {
    observer.exit(call.parameters, static_cast<CUresult>(*call.result));
  }
}

bool is_cupti(const ElfModule& module) {
  return module.soname != nullptr && std::strncmp(module.soname, "libcupti.so", 11) == 0;
}

// Whether `module` is a libcupti with all functions; stores them.
bool take_functions(const ElfModule& module) {
  if (!is_cupti(module)) return false;
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

bool look_for_cupti() {
  return any_module([](const ElfModule& module, const struct dl_phdr_info&) { return take_functions(module); });
}

bool find_cupti(const char* const* paths) {
  if (look_for_cupti()) return true;
  auto* open = reinterpret_cast<void* (*)(const char*, int)>(libc_function("dlopen"));
  for (; open != nullptr && *paths != nullptr; ++paths) {
    if (*paths[0] == '\0' || open(*paths, RTLD_NOW | RTLD_LOCAL) == nullptr || !look_for_cupti()) continue;
    loaded_here = code[1].begin;
    return true;
  }
  return false;
}

// CUPTI's names for its callback IDs are the driver's symbols.
bool find_observer(std::uint32_t id, const char* name) {
  observers[id] = {nullptr, nullptr};
  for (int i = 0; i < kApiCount; ++i) {
    if (std::strcmp(api_name(static_cast<Api>(i)), name) == 0) observers[id] = call_observer(static_cast<Api>(i));
  }
  return observers[id].exit != nullptr;
}

}  // namespace

CuptiEnd listen_to_calls(const char* const* paths, bool (*wants)(std::uint32_t id, const char* symbol),
                         void (*to)(const CuptiCall& call), std::int32_t* error) {
  *error = 0;
  if (!find_cupti(paths)) return CuptiEnd::kNone;
  driver_range(&code[0].begin, &code[0].end);
  leave_out_leading(code, 2);
  listener = to;
  *error = functions.subscribe(&subscriber, on_call, nullptr);
  if (*error != 0) {
    subscriber = nullptr;
    leave_out_leading(code, 0);
    return *error == kMaxLimitReached || *error == kMultipleSubscribers ? CuptiEnd::kTaken : CuptiEnd::kFailed;
  }
  for (std::uint32_t id = 1; id < kMostCuptiIds && *error == 0; ++id) {
    const char* name = nullptr;
    if (functions.name(kDriverCalls, id, &name) != 0 || name == nullptr || !wants(id, name)) continue;
    *error = functions.enable(1, subscriber, kDriverCalls, id);
  }
  if (*error == 0) return CuptiEnd::kDone;
  stop_listening(true);
  return CuptiEnd::kFailed;
}

void stop_listening(bool release) {
  if (subscriber == nullptr) return;
  functions.unsubscribe(subscriber);
  subscriber = nullptr;
  if (release) functions.finalize();
  leave_out_leading(code, 0);
}

std::uint64_t cupti_function(const char* name) {
  std::uint64_t found = 0;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    const std::uint64_t here = is_cupti(module) ? find_symbol(module, name) : 0;
    if (here != 0) found = here;
    return here != 0 && module.begin != loaded_here;
  });
  return found;
}

CuptiEnd observe_calls(const char* path, std::int32_t* error) {
  const char* const paths[] = {path, nullptr};
  return listen_to_calls(paths, find_observer, observe, error);
}

void stop_observing_calls() { stop_listening(true); }

}  // namespace culprit
