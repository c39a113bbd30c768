// Turns the table into the exported functions. The only file that exports cu* symbols.
#include "interpose/hooks/hooks.h"

#include "interpose/base/placement.h"
#include "interpose/hooks/stream_ordered.h"

namespace {
using namespace culprit;
}

// The most frequent hooks are placed next to the recording code (placement.h).
#define CULPRIT_CALLED_OFTEN(symbol) extern "C" CULPRIT_HOT decltype(::symbol) symbol;
CULPRIT_CALLED_OFTEN(cuMemAllocAsync)
CULPRIT_CALLED_OFTEN(cuMemAllocAsync_ptsz)
CULPRIT_CALLED_OFTEN(cuMemAllocFromPoolAsync)
CULPRIT_CALLED_OFTEN(cuMemAllocFromPoolAsync_ptsz)
CULPRIT_CALLED_OFTEN(cuMemFreeAsync)
CULPRIT_CALLED_OFTEN(cuMemFreeAsync_ptsz)
CULPRIT_CALLED_OFTEN(cuEventCreate)
CULPRIT_CALLED_OFTEN(cuStreamCreate)
CULPRIT_CALLED_OFTEN(cuStreamCreateWithPriority)
CULPRIT_CALLED_OFTEN(cuStreamDestroy_v2)
CULPRIT_CALLED_OFTEN(cuEventDestroy_v2)
#undef CULPRIT_CALLED_OFTEN

// The beginning of each hook: `call` is the function that it must call; `changes`: the live memory, perhaps.
#define CULPRIT_ENTER(symbol, arguments, changes)                                          \
  if (CULPRIT_UNLIKELY(thread_state.outermost_hook != nullptr)) {                          \
    Reentry reentry(static_cast<const char*>(__builtin_frame_address(0)));                 \
    if (reentry.is_users()) return symbol arguments;                                       \
    if (!reentry.is_first()) {                                                             \
      auto* nested = reentry.target<decltype(::symbol)>(Api::symbol);                      \
      CUresult status = nested == nullptr ? CUDA_ERROR_NOT_INITIALIZED : nested arguments; \
      if constexpr (changes_context(Api::symbol)) thread_state.dump.context.forget();      \
      return status;                                                                       \
    }                                                                                      \
  }                                                                                        \
  HookScope scope(__builtin_frame_address(0));                                             \
  __atomic_store_n(&thread_state.hook_changes_memory, changes, __ATOMIC_RELAXED);          \
  auto* call = reinterpret_cast<decltype(&::symbol)>(next_address(Api::symbol));           \
  if (CULPRIT_UNLIKELY(call == nullptr)) return CUDA_ERROR_NOT_INITIALIZED;

#define CULPRIT_UNPAREN(...) __VA_ARGS__

#define HOOK_MAKE(symbol, parameters, arguments, kind, made_handle, bytes, extra, where)                          \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                                                             \
    CULPRIT_ENTER(symbol, arguments, is_on_device(format::Kind::kind))                                            \
    std::int64_t taken = 0;                                                                                       \
    CUresult status = call_metered<memory_of(format::Kind::kind)>(                                                \
        Api::symbol, [&]() __attribute__((always_inline)) { return call arguments; }, &taken);                    \
    if (CULPRIT_LIKELY(status == CUDA_SUCCESS)) {                                                                 \
      note_made_by_row<format::Kind::kind>(Api::symbol, made_handle, taken, [&] {                                 \
        return Made{Api::symbol, format::Kind::kind, made_handle, (std::uint64_t)(bytes), (std::uint64_t)(extra), \
                    where};                                                                                       \
      });                                                                                                         \
    }                                                                                                             \
    if constexpr (is_code(format::Kind::kind)) {                                                                  \
      if (status == CUDA_SUCCESS) note_code_loaded(made_handle, code_source(CULPRIT_UNPAREN arguments));          \
    }                                                                                                             \
    note_result_of_making<format::Kind::kind>(Api::symbol, status, [&] { return (std::uint64_t)(bytes); });       \
    return status;                                                                                                \
  }

#define HOOK_END(symbol, parameters, arguments, kind, ended_handle)                                  \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                                                \
    CULPRIT_ENTER(symbol, arguments, is_on_device(format::Kind::kind))                               \
    return call_and_end<format::Kind::kind>(                                                         \
        Api::symbol, ended_handle, [&]() __attribute__((always_inline)) { return call arguments; }); \
  }

#define HOOK_CUSTOM(symbol, parameters, arguments, flags)                           \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                               \
    CULPRIT_ENTER(symbol, arguments, changes_live_memory(Api::symbol))              \
    if constexpr (changes_context(Api::symbol)) thread_state.dump.context.forget(); \
    CUresult status = custom::symbol(call, CULPRIT_UNPAREN arguments);              \
    if constexpr (changes_context(Api::symbol)) thread_state.dump.context.forget(); \
    note_result_by_flags<Api::symbol>(status);                                      \
    return status;                                                                  \
  }

#define HOOK_GROW(symbol, parameters, arguments, flags, what) \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {         \
    CULPRIT_ENTER(symbol, arguments, false)                   \
    MeteredCall metered(Api::symbol, what);                   \
    CUresult status = call arguments;                         \
    metered.finish(status == CUDA_SUCCESS);                   \
    note_result_by_flags<Api::symbol>(status);                \
    return status;                                            \
  }

#define HOOK_LOOK_UP(symbol, parameters, arguments)                                         \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                                       \
    CULPRIT_ENTER(symbol, arguments, false)                                                 \
    MeteredLookUp metered(Api::symbol, look_up_key(Api::symbol, CULPRIT_UNPAREN arguments), \
                          argument_of<CUlibrary>(CULPRIT_UNPAREN arguments));               \
    CUresult status = call arguments;                                                       \
    metered.finish(status, looked_up_kernel(status, CULPRIT_UNPAREN arguments));            \
    note_result_by_flags<Api::symbol>(status);                                              \
    return status;                                                                          \
  }

#define HOOK_LAUNCH(symbol, parameters, arguments)                                          \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                                       \
    CULPRIT_ENTER(symbol, arguments, false)                                                 \
    MeteredLaunch metered(Api::symbol, argument_of<CUfunction>(CULPRIT_UNPAREN arguments)); \
    CUresult status = call arguments;                                                       \
    metered.finish(status);                                                                 \
    if (CULPRIT_UNLIKELY(metered.is_new()) && status == CUDA_SUCCESS &&                     \
        is_on_thread_stream(Api::symbol, CULPRIT_UNPAREN arguments))                        \
      note_default_stream_of_thread();                                                      \
    note_want_of_memory(Api::symbol, status);                                               \
    return status;                                                                          \
  }

#define HOOK_CHECK(symbol, parameters, arguments)                                   \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                               \
    CULPRIT_ENTER(symbol, arguments, false)                                         \
    CUresult status = call arguments;                                               \
    if constexpr (changes_context(Api::symbol)) thread_state.dump.context.forget(); \
    note_result(Api::symbol, status, 0);                                            \
    return status;                                                                  \
  }

#define HOOK_EXPORT(symbol, parameters, arguments, kind, exported_handle, shared)                        \
  CULPRIT_EXPORT CUresult CUDAAPI symbol parameters {                                                    \
    CULPRIT_ENTER(symbol, arguments, false)                                                              \
    CUresult status = call arguments;                                                                    \
    if (status == CUDA_SUCCESS) note_exported(Api::symbol, format::Kind::kind, exported_handle, shared); \
    note_result(Api::symbol, status, 0);                                                                 \
    return status;                                                                                       \
  }

#include "interpose/driver/hooks.def"
#undef CULPRIT_UNPAREN

namespace culprit {

void* hook_address(Api api) {
  switch (api) {
#define HOOK_ANY(symbol, ...) \
  case Api::symbol:           \
    return reinterpret_cast<void*>(&::symbol);
#include "interpose/driver/hooks.def"
    case Api::kCount:
      break;
  }
  return nullptr;
}

}  // namespace culprit
