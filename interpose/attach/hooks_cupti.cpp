// Turns the table into observers of calls that CUPTI reports. They use the bodies of the hooks with a `call` that only
// returns the driver's result, because the call was already made.
//
// A free is recorded when it begins, as in the hooks, for HOOK_END rows. Custom rows are recorded at the end of the
// call: another thread that gets the same address in between is recorded first.
#include "interpose/attach/hooks_cupti.h"

#include <new>
#include <type_traits>

#include "interpose/hooks/hooks.h"
#include "interpose/hooks/stream_ordered.h"
#include "interpose/process/process.h"

namespace culprit {
namespace {

// The call that this thread is in. One is enough: CUPTI does not report the driver's own calls.
struct ObservedCall {
  CUresult answer;
  std::uint32_t generation;  // of the process when `ending` began, 0 = none
  alignas(Ending) unsigned char ending[sizeof(Ending)];
};
__thread ObservedCall observed __attribute__((tls_model("initial-exec"))) = {};

// Reads a struct whose members are a function's parameters, in their order.
class ParameterReader {
 public:
  explicit ParameterReader(const void* parameters) : at_(reinterpret_cast<std::uintptr_t>(parameters)) {}
  template <typename T>
  T next() {
    at_ = (at_ + alignof(T) - 1) & ~(alignof(T) - 1);
    T value;
    constexpr std::size_t kBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer
    __builtin_memcpy(&value, reinterpret_cast<const void*>(at_), kBytes);
    at_ += kBytes;
    return value;
  }

 private:
  std::uintptr_t at_;
};

template <typename... Parameters>
struct Arguments {
  // In braces, so that they are read from left to right.
  template <typename Function>
  struct Call {
    Call(Function function, Parameters... arguments) { function(arguments...); }
  };
};
template <typename... Parameters>
void call_with(void (*function)(Parameters...), const void* parameters) {
  ParameterReader reader(parameters);
  using Call = typename Arguments<Parameters...>::template Call<void (*)(Parameters...)>;
  Call{function, reader.next<Parameters>()...};
}

// Our own calls to the driver, and calls made by the driver on our behalf, are not observed.
bool is_ours() { return is_on_own_stack() || is_in_hook() || thread_state.in_tracker; }

void begin_ending(Api api, format::Kind kind, std::uint64_t handle) {
  HookScope scope(__builtin_frame_address(0));
  Process* process = process_if_recording();
  if (process == nullptr) return;
  new (observed.ending) Ending(api, kind, handle);
  observed.generation = process->generation;
}

void end_ending(CUresult status) {
  Process* process = process_if_recording();
  bool begun = observed.generation != 0 && process != nullptr && process->generation == observed.generation;
  observed.generation = 0;
  if (begun) std::launder(reinterpret_cast<Ending*>(observed.ending))->finish(status);
}

}  // namespace

#define CULPRIT_UNPAREN(...) __VA_ARGS__
// Not every row uses all of its call's parameters.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
namespace observers {

#define HOOK_MAKE(symbol, parameters, arguments, kind, made_handle, bytes, extra, where)                          \
  void symbol parameters {                                                                                        \
    HookScope scope(__builtin_frame_address(0));                                                                  \
    CUresult status = observed.answer;                                                                            \
    if (status == CUDA_SUCCESS) {                                                                                 \
      note_made(                                                                                                  \
          {Api::symbol, format::Kind::kind, made_handle, (std::uint64_t)(bytes), (std::uint64_t)(extra), where}); \
      if (format::Kind::kind == format::Kind::kGraphExec) note_executable_made(made_handle, 0);                   \
      if (format::Kind::kind == format::Kind::kMemoryPool)                                                        \
        note_pool_device(reinterpret_cast<CUmemoryPool>(made_handle), Where(where).device);                       \
    }                                                                                                             \
    note_result_of_making<format::Kind::kind>(Api::symbol, status, [&] { return (std::uint64_t)(bytes); });       \
  }
#define HOOK_END(symbol, parameters, arguments, kind, ended_handle) \
  void symbol parameters { begin_ending(Api::symbol, format::Kind::kind, ended_handle); }
#define HOOK_CUSTOM(symbol, parameters, arguments, flags)                            \
  CUresult answer_of_##symbol parameters { return observed.answer; }                 \
  void symbol parameters {                                                           \
    HookScope scope(__builtin_frame_address(0));                                     \
    if constexpr (changes_context(Api::symbol)) thread_state.dump.context.forget();  \
    CUresult status = custom::symbol(answer_of_##symbol, CULPRIT_UNPAREN arguments); \
    note_result_by_flags<Api::symbol>(status);                                       \
  }
#define HOOK_EXPORT(symbol, parameters, arguments, kind, exported_handle, shared)                                 \
  void symbol parameters {                                                                                        \
    HookScope scope(__builtin_frame_address(0));                                                                  \
    if (observed.answer == CUDA_SUCCESS) note_exported(Api::symbol, format::Kind::kind, exported_handle, shared); \
  }
#define HOOK_SWITCH(symbol, parameters, arguments) \
  void symbol parameters { thread_state.dump.context.forget(); }
#include "interpose/driver/hooks.def"

}  // namespace observers
#pragma GCC diagnostic pop

namespace {

template <auto kObserver>
void enter(const void* parameters) {
  if (!is_ours()) call_with(kObserver, parameters);
}
template <auto kObserver>
void exit(const void* parameters, CUresult status) {
  if (is_ours()) return;
  observed.answer = status;
  call_with(kObserver, parameters);
}
void exit_of_end(const void*, CUresult status) {
  if (is_ours()) return;
  HookScope scope(__builtin_frame_address(0));
  end_ending(status);
}

// Results of cuGetProcAddress matter only to the redirection. Calls that are hooked only for their failures are not
// observed, so that launches and copies keep their cost.
constexpr bool is_left_alone(Api api) { return api == Api::cuGetProcAddress || api == Api::cuGetProcAddress_v2; }

}  // namespace

CallObserver call_observer(Api api) {
  if (is_left_alone(api)) return {nullptr, nullptr};
  switch (api) {
#define HOOK_MAKE(symbol, ...) \
  case Api::symbol:            \
    return {nullptr, exit<&observers::symbol>};
#define HOOK_END(symbol, ...) \
  case Api::symbol:           \
    return {enter<&observers::symbol>, exit_of_end};
#define HOOK_CUSTOM(symbol, ...) \
  case Api::symbol:              \
    return {nullptr, exit<&observers::symbol>};
#define HOOK_EXPORT(symbol, ...) \
  case Api::symbol:              \
    return {nullptr, exit<&observers::symbol>};
#define HOOK_SWITCH(symbol, ...) \
  case Api::symbol:              \
    return {nullptr, exit<&observers::symbol>};
#define HOOK_CHECK(symbol, ...) \
  case Api::symbol:             \
    break;
#define HOOK_LAUNCH(symbol, ...) \
  case Api::symbol:              \
    break;
#define HOOK_LOOK_UP(symbol, ...) \
  case Api::symbol:               \
    break;
#define HOOK_GROW(symbol, ...) \
  case Api::symbol:            \
    break;
#include "interpose/driver/hooks.def"
    case Api::kCount:
      break;
  }
  return {nullptr, nullptr};
}

}  // namespace culprit
