#include "interpose/process/current_place.h"

#include "interpose/base/own_stack.h"
#include "interpose/driver/driver.h"

namespace culprit {

namespace {

Place ask_current_place_here(Process& process) {
  thread_state.dump.context.forget();
  CUcontext handle = nullptr;
  if (!driver_ready() || driver().cuCtxGetCurrent(&handle) != CUDA_SUCCESS || handle == nullptr) return {};
  thread_state.dump.context.place = process.tables.contexts.of_handle(handle, now_ns(process), process.dump);
  thread_state.dump.context.handle = handle;
  thread_state.dump.context.epoch = process.tables.contexts.epoch();
  return thread_state.dump.context.place;
}

}  // namespace

Place ask_current_place(Process& process) {
  return on_own_stack([&] { return ask_current_place_here(process); });
}

void verify_place(Process& process, Place remembered) {
  format::Header* header = process.dump.header();
  add_counter(header->contexts_verified, 1);
  Place now = ask_current_place(process);
  if (now.context != remembered.context || now.device != remembered.device) add_counter(header->context_mismatches, 1);
}

}  // namespace culprit
