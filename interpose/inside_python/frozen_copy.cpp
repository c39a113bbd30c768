#include "interpose/inside_python/frozen_copy.h"

#include <errno.h>

#include <cstdint>

#include "interpose/base/keep_errno.h"
#include "interpose/base/placement.h"
#include "interpose/base/store_release.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/call_stack/view_requests.h"
#include "interpose/format/frozen_copy.h"
#include "interpose/inside_python/copy_memory.h"
#include "interpose/system/frozen_child.h"
#include "interpose/system/os.h"
#include "interpose/system/restrictions.h"

// Seen by `culprit tensors PID` from outside.
extern "C" __attribute__((visibility("default"))) culprit::format::FrozenCopy culprit_frozen;
CULPRIT_AT_LOAD culprit::format::FrozenCopy culprit_frozen;

namespace culprit {
namespace {

using format::FrozenPhase;

std::uint64_t gil_since_ns;
Process* recording_at_copy;  // nullptr: nothing was recorded when the copy was made
std::uint64_t bytes_at_copy;

void set_phase(FrozenPhase phase, int error = 0) {
  culprit_frozen.error = error;
  store_release(&culprit_frozen.phase, phase);
}

// The program's handlers of signals run in the interpreter's main thread only. The copy's thread is none: the number
// of the main thread that the interpreter keeps is changed.
bool forget_main_thread(const Interpreter& python) {
  const auto main_thread = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  bool found = false;
  for (std::uint64_t i = 0; i < python.runtime_words; ++i) {
    if (python.runtime[i] != main_thread) continue;
    python.runtime[i] = 1;
    found = true;
  }
  return found;
}

bool begin_copy(const Interpreter& python) {
  culprit_frozen.text = culprit_frozen.bytes = 0;
  set_phase(FrozenPhase::kWalking);
  if (!forget_main_thread(python)) return false;
  take_memory_of_copy(python);
  return true;
}

void end_copy_from_outside() {
  const int copy = culprit_frozen.copy;
  if (copy != 0 && end_frozen_child(copy)) culprit_frozen.copy = 0;
}

// The longest time without a break.
void note_held(Process& process) {
  const std::uint64_t held = process.clock.now() - gil_since_ns;
  if (held > culprit_frozen.held_ns) culprit_frozen.held_ns = held;
}

PyObject* number(long value) { return the_interpreter().PyLong_FromLong(value); }

}  // namespace

void ask_for_frozen_copy(Process& process) {
  end_copy_from_outside();
  culprit_frozen.private_bytes = culprit_frozen.held_ns = 0;
  look_for_python(process);
  if (!process.options.python || !process.python.is_readable() || find_interpreter() == nullptr) {
    set_phase(FrozenPhase::kNoPython);
    return;
  }
  set_phase(FrozenPhase::kAsked);
  request_view(process, kViewLoad | kViewFrozen | kViewAttach);
}

void end_frozen_copy() {
  Process* process = process_if_recording();
  if (process != nullptr) view_of(*process).wanted.fetch_and(~std::uint32_t{kViewFrozen});
  end_copy_from_outside();
  set_phase(FrozenPhase::kNone);
}

void note_frozen_served(Process& process) {
  gil_since_ns = process.clock.now();
  set_phase(FrozenPhase::kServed);
}

void end_if_frozen_copy() {
  if (!is_frozen_copy()) return;
  set_phase(FrozenPhase::kBroken);
  wait_as_frozen_child();
}

// In the copy alone the phase is one of its own.
bool is_frozen_copy() { return culprit_frozen.phase >= FrozenPhase::kWalking; }

Process* process_of_records() { return is_frozen_copy() ? recording_at_copy : process_if_recording(); }

std::uint64_t bytes_of_records() { return is_frozen_copy() ? bytes_at_copy : ~0ULL; }

void note_frozen_result(Process& process, PyObject* result) {
  note_held(process);
  if (culprit_frozen.phase != FrozenPhase::kServed) return;  // freeze() has told more
  if (culprit_frozen.copy != 0) {
    set_phase(FrozenPhase::kCopied);
  } else {
    set_phase(result == the_interpreter().none() ? FrozenPhase::kNoCaches : FrozenPhase::kFailed);
  }
}

PyObject* copying_time(PyObject*, PyObject*) {
  culprit_frozen.private_bytes = private_bytes_of_process();
  return number(static_cast<long>(copying_microseconds(culprit_frozen.private_bytes)));
}

PyObject* yield_gil(PyObject*, PyObject* arguments) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  PyObject* argument = python.PyTuple_GetItem(arguments, 0);
  const long microseconds = argument == nullptr ? -1 : python.PyLong_AsLong(argument);
  if (microseconds < 0) return nullptr;
  Process* process = process_if_recording();
  if (process != nullptr) note_held(*process);
  void* state = python.PyEval_SaveThread();
  sleep_microseconds(static_cast<std::uint32_t>(microseconds));
  python.PyEval_RestoreThread(state);
  if (process != nullptr) gil_since_ns = process->clock.now();
  return number(0);
}

PyObject* freeze(PyObject*, PyObject*) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  if (python.PyMem_GetAllocator == nullptr || python.PyMem_SetAllocator == nullptr || calls_restricted_now()) {
    set_phase(FrozenPhase::kFailed, EPERM);
    return number(-1);
  }
  const std::uint64_t most = culprit_frozen.most_us != 0 ? culprit_frozen.most_us : kUsualMostMicroseconds;
  if (copying_microseconds(culprit_frozen.private_bytes) > most) {
    set_phase(FrozenPhase::kTooLarge);
    return number(-1);
  }
  recording_at_copy = process_if_recording();
  bytes_at_copy = recording_at_copy == nullptr ? 0 : recording_at_copy->dump.recorded_bytes();
  const long copy = make_frozen_child(FrozenFiles::kShared);
  if (copy == 0) {
    if (!begin_copy(python)) {
      set_phase(FrozenPhase::kBroken);
      wait_as_frozen_child();
    }
    return number(0);
  }
  if (copy < 0) {
    set_phase(FrozenPhase::kFailed, static_cast<int>(-copy));
    return number(-1);
  }
  culprit_frozen.copy = static_cast<int>(copy);
  return number(1);
}

PyObject* leave(PyObject*, PyObject* arguments) {
  if (culprit_frozen.phase != FrozenPhase::kWalking) end_as_frozen_child();
  const Interpreter& python = the_interpreter();
  PyObject* text = python.PyTuple_GetItem(arguments, 0);
  if (text != nullptr && text != python.none()) {
    culprit_frozen.text = reinterpret_cast<std::uint64_t>(python.PyBytes_AsString(text));
    culprit_frozen.bytes = static_cast<std::uint64_t>(python.PyBytes_Size(text));
  }
  set_phase(culprit_frozen.text != 0 ? FrozenPhase::kReady : FrozenPhase::kBroken);
  wait_as_frozen_child();
}

}  // namespace culprit
