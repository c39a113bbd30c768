// Hooks that create, retain, release and destroy contexts; destroying one also ends everything that lived in it.
#include "interpose/call_stack/view_requests.h"
#include "interpose/control/audit_state.h"
#include "interpose/control/start.h"
#include "interpose/driver/driver.h"
#include "interpose/events/driver_lives.h"
#include "interpose/events/events.h"
#include "interpose/hooks/hooks.h"
#include "interpose/process/exit_handlers.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

// `context` is the caller's out-pointer, which may be null.
template <typename Call>
CUresult create(Api api, format::Kind kind, CUcontext* context, CUdevice device, Call call) {
  MeteredContext metered(api, device, kind == format::Kind::kPrimaryContext);
  CUresult status = call();
  thread_state.dump.context.forget();
  const bool made = status == CUDA_SUCCESS && context != nullptr;
  if (made) note_context_made(api, kind, *context, device);
  metered.finish(made ? *context : nullptr);
  return status;
}

// References left, 0 when nothing is recorded.
int add_reference(CUcontext context, int amount) {
  int left = 0;
  record_on_own_stack([&](Process& process) { left = process.tables.contexts.add_reference(context, amount); });
  return left;
}

template <typename Call>
CUresult destroy(Api api, Call call, CUcontext context) {
  Teardown teardown(api, context);
  CUresult status = call(context);
  teardown.finish(status);
  return status;
}

// The runtime releases the primary context when it is unloaded at exit, cuda.core (of Numba) when thread-local objects
// are destroyed. This frees the process's memory like the end of the process, and says nothing about the program: the
// search for holders has seen the memory while it was there.
bool is_exiting() {
  Process* process = process_if_recording();
  return process != nullptr &&
         (handlers_are_running() || (process->mode.load(std::memory_order_relaxed) & kModeExiting) != 0);
}

template <typename Call>
CUresult release_primary(Api api, Call call, CUdevice device) {
  CUresult status = call(device);
  if (status != CUDA_SUCCESS || is_exiting()) return status;
  unsigned flags = 0;
  int active = 1;
  if (driver().cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active != 0) return status;
  Teardown teardown(api, device);
  teardown.finish(status);
  return status;
}

template <typename Call>
CUresult reset_primary(Api api, Call call, CUdevice device) {
  Teardown teardown(api, device);
  CUresult status = call(device);
  teardown.finish(status);
  return status;
}

}  // namespace

namespace custom {

CUresult cuInit(decltype(&::cuInit) call, unsigned int flags) {
  // A driver that was loaded again, unnoticed, is initialized before it is used: the addresses that we know may be old.
  look_for_closed_drivers();
  if (!driver_ready()) return CUDA_ERROR_NOT_INITIALIZED;
  notice_reloaded_driver();
  keep_lives_apart();
  call = reinterpret_cast<decltype(&::cuInit)>(next_address(Api::cuInit));
  if (call == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  prepare_for_driver_threads();
  CUresult status = call(flags);
  if (status == CUDA_SUCCESS) {
    note_driver_initialized();
    // The dump begins here. PyTorch calls this before it runs what was queued for its initialization.
    record_on_own_stack([](Process& process) {
      if (!view_of(process).complete.load(std::memory_order_relaxed)) request_view(process, kViewLoad);
    });
    begin_audit();
  }
  return status;
}

CUresult cuCtxCreate(decltype(&::cuCtxCreate) call, CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(Api::cuCtxCreate, format::Kind::kContext, pctx, dev, [&] { return call(pctx, flags, dev); });
}

CUresult cuCtxCreate_v2(decltype(&::cuCtxCreate_v2) call, CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(Api::cuCtxCreate_v2, format::Kind::kContext, pctx, dev, [&] { return call(pctx, flags, dev); });
}

CUresult cuCtxCreate_v3(decltype(&::cuCtxCreate_v3) call, CUcontext* pctx, CUexecAffinityParam* params, int count,
                        unsigned int flags, CUdevice dev) {
  return create(Api::cuCtxCreate_v3, format::Kind::kContext, pctx, dev,
                [&] { return call(pctx, params, count, flags, dev); });
}

CUresult cuCtxCreate_v4(decltype(&::cuCtxCreate_v4) call, CUcontext* pctx, CUctxCreateParams* params,
                        unsigned int flags, CUdevice dev) {
  return create(Api::cuCtxCreate_v4, format::Kind::kContext, pctx, dev, [&] { return call(pctx, params, flags, dev); });
}

// Deprecated reference counting: the driver destroys the context with its last reference.
CUresult cuCtxAttach(decltype(&::cuCtxAttach) call, CUcontext* pctx, unsigned int flags) {
  CUresult status = call(pctx, flags);
  if (status == CUDA_SUCCESS && pctx != nullptr) add_reference(*pctx, 1);
  return status;
}

CUresult cuCtxDetach(decltype(&::cuCtxDetach) call, CUcontext ctx) {
  if (add_reference(ctx, -1) > 0) {
    CUresult status = call(ctx);
    if (status != CUDA_SUCCESS) add_reference(ctx, 1);
    return status;
  }
  return destroy(Api::cuCtxDetach, call, ctx);
}

CUresult cuCtxDestroy(decltype(&::cuCtxDestroy) call, CUcontext ctx) { return destroy(Api::cuCtxDestroy, call, ctx); }
CUresult cuCtxDestroy_v2(decltype(&::cuCtxDestroy_v2) call, CUcontext ctx) {
  return destroy(Api::cuCtxDestroy_v2, call, ctx);
}

CUresult cuDevicePrimaryCtxRetain(decltype(&::cuDevicePrimaryCtxRetain) call, CUcontext* pctx, CUdevice dev) {
  return create(Api::cuDevicePrimaryCtxRetain, format::Kind::kPrimaryContext, pctx, dev,
                [&] { return call(pctx, dev); });
}

CUresult cuDevicePrimaryCtxRelease(decltype(&::cuDevicePrimaryCtxRelease) call, CUdevice dev) {
  return release_primary(Api::cuDevicePrimaryCtxRelease, call, dev);
}
CUresult cuDevicePrimaryCtxRelease_v2(decltype(&::cuDevicePrimaryCtxRelease_v2) call, CUdevice dev) {
  return release_primary(Api::cuDevicePrimaryCtxRelease_v2, call, dev);
}
CUresult cuDevicePrimaryCtxReset(decltype(&::cuDevicePrimaryCtxReset) call, CUdevice dev) {
  return reset_primary(Api::cuDevicePrimaryCtxReset, call, dev);
}
CUresult cuDevicePrimaryCtxReset_v2(decltype(&::cuDevicePrimaryCtxReset_v2) call, CUdevice dev) {
  return reset_primary(Api::cuDevicePrimaryCtxReset_v2, call, dev);
}

// A green context has two handles: its own, and that of the context made from it.
CUresult cuGreenCtxCreate(decltype(&::cuGreenCtxCreate) call, CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags) {
  CUresult status = call(phCtx, desc, dev, flags);
  if (status == CUDA_SUCCESS && phCtx != nullptr) {
    note_context_made(Api::cuGreenCtxCreate, format::Kind::kGreenContext, reinterpret_cast<CUcontext>(*phCtx), dev);
  }
  return status;
}

CUresult cuGreenCtxDestroy(decltype(&::cuGreenCtxDestroy) call, CUgreenCtx hCtx) {
  Teardown teardown(Api::cuGreenCtxDestroy, reinterpret_cast<CUcontext>(hCtx));
  CUresult status = call(hCtx);
  teardown.finish(status);
  return status;
}

CUresult cuCtxFromGreenCtx(decltype(&::cuCtxFromGreenCtx) call, CUcontext* pContext, CUgreenCtx hCtx) {
  CUresult status = call(pContext, hCtx);
  if (status == CUDA_SUCCESS && pContext != nullptr) {
    record_on_own_stack(
        [&](Process& process) { process.tables.contexts.add_alias(*pContext, reinterpret_cast<CUcontext>(hCtx)); });
  }
  return status;
}

}  // namespace custom
}  // namespace culprit
