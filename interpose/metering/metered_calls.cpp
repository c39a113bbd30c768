#include "interpose/metering/metered_calls.h"

#include "interpose/driver/driver.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/current_place.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {

using format::DriverMemory;

namespace {

// Whether a look-up gives the address of a variable of the device, in which a program may store pointers.
bool asks_for_variable(Api api) {
  return api == Api::cuModuleGetGlobal || api == Api::cuModuleGetGlobal_v2 || api == Api::cuLibraryGetGlobal ||
         api == Api::cuLibraryGetManaged;
}

}  // namespace

CULPRIT_HOT StreamSort* sort_of_settled_stream(Api api) {
  Process* process = process_at_hand();
  if (CULPRIT_UNLIKELY(process == nullptr)) return nullptr;
  const PlaceMemo& here = thread_state.dump.context;
  if (here.epoch != process->tables.contexts.epoch() ||
      (process->mode.load(std::memory_order_relaxed) & (kModeExiting | kModeOff)) != 0)
    return nullptr;
  if (!StreamUse::is_settled(thread_state.vacant_stream, here.place.context, api)) return nullptr;
  device_use_of(*process).note_made(*process, here.place.device);
  return thread_state.vacant_stream.sort;
}

CULPRIT_HOT MeteredCall::MeteredCall(Api api, DriverMemory what) {
  if (what == DriverMemory::kNone) return;
  measurement_.api = api;
  measurement_.what = what;
  if (what == DriverMemory::kStreams) {
    Recording recording;
    if (recording.process() == nullptr ||
        !meter_of(*recording.process()).needs_reading(*recording.process(), &measurement_))
      return;
  } else if (process_if_recording() == nullptr) {
    return;
  }
  record_on_own_stack([&](Process& process) { meter_of(process).begin(process, &measurement_); });
}

CULPRIT_HOT std::int64_t MeteredCall::finish(bool succeeded) {
  std::int64_t grown = 0;
  if (measurement_.what == DriverMemory::kStreams) {
    if (Meter::is_known_to_take_nothing(measurement_)) {
      if (measurement_.streams != nullptr && succeeded)
        StreamUse::note_made(*measurement_.streams, &thread_state.vacant_stream);
      return grown;
    }
    record_on_own_stack([&](Process& process) { meter_of(process).finish_stream(process, measurement_, succeeded); });
    return grown;
  }
  if (measurement_.begun)
    record_on_own_stack([&](Process& process) { grown = meter_of(process).finish(process, measurement_); });
  return grown;
}

MeteredLookUp::MeteredLookUp(Api api, std::uint64_t key, CUlibrary library) {
  Process* process = process_if_recording();
  if (process == nullptr) return;
  const CUcontext context = current_context(*process);
  const std::uint64_t here = meter_of(*process).look_ups().in_context(key, context);
  if (CULPRIT_LIKELY(meter_of(*process).look_ups().contains(here))) return;
  if (asks_for_variable(api)) device_use_of(*process).note_code(context);
  if (library != nullptr) code_of(*process).note_use(reinterpret_cast<std::uint64_t>(library));
  key_ = here;
  measurement_.api = api;
  measurement_.what = DriverMemory::kModules;
  measurement_.budget = Meter::Budget::kLookUps;
  record_on_own_stack([&](Process& recording) { meter_of(recording).begin(recording, &measurement_); });
}

// A call that failed will fail again; but memory may be there next time.
void MeteredLookUp::finish(CUresult status, const void* kernel) {
  if (key_ == 0) return;
  record_on_own_stack([&](Process& process) {
    if (measurement_.begun) meter_of(process).finish(process, measurement_);
    LookUps& look_ups = meter_of(process).look_ups();
    if (status != CUDA_ERROR_OUT_OF_MEMORY) look_ups.add(key_);
    // The handle is a new one, or was never launched.
    if (status != CUDA_SUCCESS || kernel == nullptr) return;
    look_ups.remove(LookUps::of_launch(kernel, current_context(process)));
    code_of(process).note_kernel(reinterpret_cast<std::uint64_t>(kernel));
  });
}

MeteredLaunch::MeteredLaunch(Api api, const void* kernel) {
  Process* process = process_if_recording();
  if (process == nullptr) return;
  const CUcontext context = current_context(*process);
  device_use_of(*process).note_launch(context);
  begin(*process, api, DriverMemory::kModules, LookUps::of_launch(kernel, context), context);
}

MeteredLaunch::MeteredLaunch(Api api, CUgraphExec exec) {
  Process* process = process_if_recording();
  if (process == nullptr) return;
  const CUcontext context = current_context(*process);
  device_use_of(*process).note_launch(context);
  begin(*process, api, DriverMemory::kGraphExecutables, LookUps::of_launch(exec), context);
}

// During a capture a launch adds a node; the next one is measured.
void MeteredLaunch::begin(Process& process, Api api, DriverMemory what, std::uint64_t key, CUcontext context) {
  if (CULPRIT_LIKELY(meter_of(process).look_ups().contains(key))) return;
  device_use_of(process).note_code(context);
  if (has_captures(process)) return;
  key_ = key;
  measurement_.api = api;
  measurement_.what = what;
  measurement_.budget = Meter::Budget::kLaunches;
  record_on_own_stack([&](Process& recording) { meter_of(recording).begin(recording, &measurement_); });
}

std::int64_t MeteredLaunch::finish(CUresult status) {
  if (CULPRIT_LIKELY(key_ == 0)) return 0;
  std::int64_t grown = 0;
  record_on_own_stack([&](Process& process) {
    if (measurement_.begun) grown = meter_of(process).finish(process, measurement_);
    if (status != CUDA_ERROR_OUT_OF_MEMORY) meter_of(process).look_ups().add(key_);
  });
  return grown;
}

void note_default_stream_of_thread() {
  Process* process = process_if_recording();
  if (process != nullptr) device_use_of(*process).note_default_stream_of_thread();
}

void forget_graph_launch(CUgraphExec exec) {
  Process* process = process_if_recording();
  if (process != nullptr) meter_of(*process).look_ups().remove(LookUps::of_launch(exec));
}

// With Python nothing is called lost, and programs of Python compile a lot.
void note_code_loaded(std::uint64_t handle, const CodeSource& source) {
  record_on_own_stack(
      [&](Process& process) { code_of(process).add(handle, source, process.dump.header()->python_version == 0); });
}

void note_code_unloaded(std::uint64_t handle) {
  Process* process = process_if_recording();
  if (process == nullptr) return;
  meter_of(*process).look_ups().forget();
  code_of(*process).remove(handle);
}

MeteredContext::MeteredContext(Api api, CUdevice device, bool primary) {
  measurement_.api = api;
  measurement_.what = DriverMemory::kContexts;
  measurement_.device = ContextTable::number_of(device);
  if (process_if_recording() == nullptr || !driver_ready()) return;
  unsigned flags = 0;
  int active = 0;
  if (primary && (driver().cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active != 0)) return;
  record_on_own_stack([&](Process& process) { meter_of(process).begin_context(process, &measurement_); });
}

void MeteredContext::finish(CUcontext made) {
  if (!measurement_.begun) return;
  record_on_own_stack([&](Process& process) { meter_of(process).finish_context(process, measurement_, made); });
}

}  // namespace culprit
