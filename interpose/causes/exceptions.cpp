// Follows exceptions in the target, and finds the live allocations that each one abandoned.
//
// The stubs in exceptions_*.S call the notes below, and then jump on to the C++ runtime. A throw is kept with its path;
// when its handler begins (__cxa_begin_catch), every path of this thread with live allocations is judged (abandoned.h),
// and abandoned allocations are marked. A later free removes the mark.
//
// A program may throw a million times a second: a thread without live allocations has almost no cost here; otherwise
// the cost depends on the number of paths, not of allocations.
#include "interpose/causes/exceptions.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <new>

#include "interpose/base/keep_errno.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/causes/cxx_runtime.h"
#include "interpose/causes/handle_set.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/next_functions.h"
#include "interpose/owners/abandoned.h"
#include "interpose/owners/coroutine_frames.h"
#include "interpose/owners/cxx_types.h"
#include "interpose/owners/function_tables.h"
#include "interpose/process/hook_entry.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

// The notes, called by the stubs with the caller's first two arguments and the stub's frame (saved rbp, return
// address; below it the registers that a callee keeps). Each returns the address to jump to.
#define CULPRIT_NOTE extern "C" CULPRIT_OWN void*
CULPRIT_NOTE culprit_note_throw(void* object, void* type, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_rethrow(void*, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_catch(void* unwind_exception, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_rethrow_exception(void* exception_ptr, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_raise(void* unwind_exception, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_thread_exit(void* result, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_cancel(void* thread, void*, const std::uint64_t* frame);

namespace culprit {
namespace {

// During what() of an abandoning exception: frame of the note that called it. nullptr = not in what().
__thread const char* what_frame __attribute__((tls_model("initial-exec")));

// A throw may be recorded while the what() of another one runs; there is no deeper nesting.
void keep(format::Ref first, format::Ref second) { keep_stacks(what_frame != nullptr ? 1 : 0, first, second); }

// The process if this thread's exceptions are recorded. nullptr in a thread that has not called CUDA, in a fork child
// before its first call, and in a signal handler that interrupted the tracker.
Process* process_of_this_thread() {
  Process* process = process_if_recording();
  if (process == nullptr || thread_state.generation != process->generation || thread_state.paths.all == nullptr ||
      thread_state.memory == nullptr || thread_state.in_tracker || is_on_own_stack())
    return nullptr;
  return process;
}

// Like process_of_this_thread(), for a note with this frame. Exceptions inside what() are ignored. A note in an outer
// frame detects a jump out of what().
Process* process_of_this_note(const std::uint64_t* frame) {
  if (what_frame != nullptr) {
    if (reinterpret_cast<const char*>(frame) < what_frame) return nullptr;
    what_frame = nullptr;
  }
  return process_of_this_thread();
}

// Whether a note must mark itself: in an attached process, because a detach waits for threads in hooks. Elsewhere the
// target's code that what() runs must not look nested.
bool marks_note() { return loaded_late() && thread_state.outermost_hook == nullptr; }

// The path of the stack that current_stack() just returned. A truncated stack is walked again, further out: owners of
// allocations are often many frames above a throw. The unwinder itself takes much longer for these frames.
ThreadPaths::Path path_of_throw(Process& process, const std::uint64_t* frame, format::Ref stack) {
  const auto* record = process.dump.at<format::StackRecord>(stack);
  if (stack == 0 || (record->flags & format::kStackTruncated) == 0) return thread_state.paths.current;
  return walk_path(frame);
}

// An exception is thrown. `object`: the thrown object.
void note_flight(const void* object, const std::uint64_t* frame, bool again) {
  Process* process = process_of_this_note(frame);
  if (process == nullptr) return;
  if (!again) add_counter(process->dump.header()->throws, 1);
  ThreadPaths& paths = *thread_state.paths.all;
  Flight* known = paths.flight_of(object);
  if (!paths.any_live()) {
    // A known flight belongs to an earlier object at this address.
    if (known != nullptr && !again) paths.forget_flight(known);
    return;
  }
  on_own_stack([&] {
    Recording recording;
    HookScope stub(frame, thread_state.outermost_hook);
    format::Ref stack = current_stack(*process);
    ThreadPaths::Path path = path_of_throw(*process, frame, stack);
    paths.forget_verdicts(module_generation());
    look_at_owners(paths, path, find_function);
    if (again && known != nullptr) stack = known->stack;
    Flight* flight = paths.begin_flight(object, path, stack);
    flight->rethrown = again;
  });
}

// The paths with allocations that one exception abandoned.
struct Abandoned {
  static constexpr int kMost = 128;
  int count = 0;
  struct Part {
    ThreadPaths::Path path;
    std::uint32_t since;
    std::uint16_t owner_depth;
    bool ambiguous;
  } parts[kMost];
};

// pybind11's and nanobind's what() take the GIL and run Python, which is not allowed at an arbitrary point of a thread.
bool may_ask(const char* type) {
  return std::strstr(type, "pybind11") == nullptr && std::strstr(type, "nanobind") == nullptr;
}

// Allocations whose addresses stand in the frame of a coroutine, the body of which the exception left.
struct OfCoroutine {
  static constexpr int kMost = 32;
  int count = 0;
  struct Allocation {
    format::Ref record;
    std::uint32_t generation;
    std::uint16_t owner_depth;
  } list[kMost];
};

// Calls the target's what(), once for each record. Runs outside the tracker's sections: it is the target's code, and
// may throw, catch and call CUDA.
const char* ask_what(const ThrownObject& thrown, const std::uint64_t* frame) {
  const void* exception = as_std_exception(thrown.type, thrown.object);
  if (exception == nullptr || !may_ask(type_name(thrown.type))) return nullptr;
  KeepErrno keep_errno;
  what_frame = reinterpret_cast<const char*>(frame);
  const char* text = what_of(exception);
  what_frame = nullptr;
  return text;
}

// Notes in an allocation's evidence that an exception abandoned it. `flags`: of EvidenceFlags, of the exception.
void note_thrown(Process& process, format::AllocationRecord* record, format::Ref thrown, std::uint16_t owner_depth,
                 int flags) {
  process.tables.evidence.add(record, process.dump, [&](format::EvidenceRecord& evidence) {
    evidence.thrown = thrown;
    evidence.thrown_owner = owner_depth;
    evidence.flags = static_cast<std::uint8_t>((evidence.flags & format::kEvidenceEarlierCall) | flags);
  });
}

void mark(Process& process, const Abandoned& abandoned, format::Ref thrown, std::uint32_t clock) {
  for (int i = 0; i < abandoned.count; ++i) {
    const Abandoned::Part& part = abandoned.parts[i];
    thread_state.paths.all->settle(part.path, part.since, clock, [&](format::Ref ref, bool is_sure) {
      note_thrown(process, process.dump.at<format::AllocationRecord>(ref), thrown, part.owner_depth,
                  (is_sure ? 0 : format::kEvidenceEarlier) | (part.ambiguous ? format::kEvidenceAmbiguous : 0));
    });
  }
}

void mark_of_coroutine(Process& process, const OfCoroutine& allocations, format::Ref thrown) {
  for (int i = 0; i < allocations.count; ++i) {
    const OfCoroutine::Allocation& one = allocations.list[i];
    auto* record = process.dump.at<format::AllocationRecord>(one.record);
    if (__atomic_load_n(&record->state, __ATOMIC_RELAXED) >> format::kStateBits != one.generation) continue;
    note_thrown(process, record, thrown, one.owner_depth, format::kEvidenceCoroutine);
  }
}

// A judged exception and its abandoned allocations.
struct Judged {
  ThrownObject object;
  ThrowTable::Throw thrown;
  std::uint32_t clock;  // of the throw
  std::uint32_t epoch;  // of the paths
  Abandoned abandoned;
  OfCoroutine of_coroutine;
  bool has_any() const { return abandoned.count != 0 || of_coroutine.count != 0; }
};

// In the calling thread's memory, because it does not fit on a small stack and is needed before and after what().
Judged& new_judged() {
  static_assert(sizeof(Judged) <= sizeof(ThreadMemory::judged));
  return *new (thread_state.memory->judged) Judged{};
}

// Finds the allocations abandoned by the exception that was thrown by `path` and caught at `caught`.
void collect(ThreadPaths::Path path, ThreadPaths::Path caught, const ExceptionEnd& end, Judged* judged) {
  ThreadPaths& paths = *thread_state.paths.all;
  if (end.how == ExceptionEnd::How::kUnknown) return;
  Abandoned& abandoned = judged->abandoned;
  paths.for_each_unsettled([&](ThreadPaths::Path made) {
    ThreadPaths::Verdict verdict = judge(paths, made, path, caught, end, judged->object.type, find_function);
    if (!verdict.abandoned || abandoned.count == Abandoned::kMost) return;
    std::uint32_t since = paths.running_since(made, verdict.cfa);
    if (paths.has_unsettled(made, since, judged->clock))
      abandoned.parts[abandoned.count++] = {made, since, verdict.owner_depth, verdict.ambiguous};
  });
}

// The frame in `path` of the activation with this CFA; 0 = none.
ThreadPaths::Node frame_with_cfa(const ThreadPaths& paths, ThreadPaths::Path path, std::uint64_t cfa) {
  for (ThreadPaths::Node node = paths.innermost(path); node != 0; node = paths.outer(node)) {
    if (paths.cfa(node) == cfa) return node;
  }
  return 0;
}

// The depth of the function that begins there in a path; 0 = it is not in it.
std::uint16_t depth_of_function(const ThreadPaths& paths, ThreadPaths::Path path, std::uint64_t begin) {
  for (ThreadPaths::Node node = paths.innermost(path); node != 0; node = paths.outer(node)) {
    FunctionInfo info = {};
    if (find_function(paths.address(node) & ~format::kFrameExact, &info) && info.begin == begin)
      return paths.depth(node);
  }
  return 0;
}

// Finds the live allocations of this thread whose handles stand in a coroutine's frame.
void collect_handles(Process& process, const CoroutineFrame& coroutine, std::uint64_t function, Judged* judged) {
  constexpr std::uint64_t kWords = 64;
  std::uint64_t words[kWords];
  HandleSet handles = {};
  if (!handles.reserve(coroutine.bytes / sizeof(words[0]))) return;
  for (std::uint64_t at = 0; at < coroutine.bytes; at += sizeof(words)) {
    const std::uint64_t left = coroutine.bytes - at;
    const std::int64_t read =
        os.read_own_memory(words, coroutine.address + at, left < sizeof(words) ? left : sizeof(words));
    for (std::int64_t i = 0; i < read / static_cast<std::int64_t>(sizeof(words[0])); ++i) handles.add(words[i], 1, 1);
  }
  ThreadPaths& paths = *thread_state.paths.all;
  OfCoroutine& found = judged->of_coroutine;
  paths.for_each_live(0, [&](format::Ref ref, ThreadPaths::Path made_by, std::uint32_t made) {
    const auto* record = process.dump.at<format::AllocationRecord>(ref);
    if (made > judged->clock || found.count == OfCoroutine::kMost || !handles.has(record->handle)) return;
    found.list[found.count++] = {ref, record->state >> format::kStateBits, depth_of_function(paths, made_by, function)};
  });
  handles.release();
}

// An exception that leaves the body of a coroutine is caught by the compiler's own handler around it. Memory of that
// body may have been allocated by an earlier resumption, whose activation is gone: its address is in the coroutine's
// frame. `frame`: of the note.
void collect_of_coroutine(Process& process, ThreadPaths::Path thrown, ThreadPaths::Path caught, const ExceptionEnd& end,
                          const std::uint64_t* frame, Judged* judged) {
  ThreadPaths& paths = *thread_state.paths.all;
  ThreadPaths::Verdict* known = paths.verdict(0, thrown, caught);
  if (end.how != ExceptionEnd::How::kCaught || (known->is_about(0, thrown, caught) && known->no_coroutine)) return;
  const ThreadPaths::Node node = frame_with_cfa(paths, thrown, end.handler_cfa);
  const std::uint64_t thrown_at = paths.address(node) & ~format::kFrameExact;
  FunctionInfo info = {};
  CoroutineFrame coroutine = {};
  if (node != 0 && find_function(thrown_at, &info) &&
      is_handler_of_body(thrown_at, end.catch_call, judged->object.type, find_function)) {
    const std::uint64_t registers[] = {frame[0], frame[-1], frame[-2], frame[-3], frame[-4], frame[-5]};
    const std::uint64_t* begin = frame + 2;  // the function's part of the stack
    const auto* stack_end = reinterpret_cast<const std::uint64_t*>(end.handler_cfa);
    constexpr std::ptrdiff_t kMostWords = 512;
    if (stack_end < begin || stack_end - begin > kMostWords) stack_end = begin + (stack_end < begin ? 0 : kMostWords);
    coroutine = find_coroutine_frame(info, registers, 6, begin, stack_end, find_function);
  }
  if (coroutine.address != 0) {
    collect_handles(process, coroutine, info.begin, judged);
  } else if (known->is_about(0, thrown, caught)) {
    known->no_coroutine = true;
  }
}

void describe(Process& process, const ExceptionEnd& end, format::Ref stack, format::Ref catch_stack, bool rethrown,
              Judged* judged) {
  bool was_caught = end.how == ExceptionEnd::How::kCaught;
  judged->thrown = {type_name(judged->object.type),
                    stack,
                    was_caught ? catch_stack : 0,
                    thread_state.index,
                    static_cast<std::uint8_t>((was_caught ? format::kThrowCaught : format::kThrowUncaught) |
                                              (rethrown ? format::kThrowRethrown : 0)),
                    now_ns(process)};
  keep(judged->thrown.stack, judged->thrown.catch_stack);
}

// Writes the result to the dump. Call on the thread's normal stack and outside the tracker's sections, because it may
// call what(); `frame`: of the note.
void record(Process& process, const Judged& judged, const std::uint64_t* frame) {
  format::Ref ref = 0;
  record_on_own_stack([&](Process&) { ref = process.tables.throws.count(judged.thrown, process.dump); });
  const std::uint32_t generation = thread_state.generation;
  const char* what = ref == 0 && judged.object.type != nullptr ? ask_what(judged.object, frame) : nullptr;
  record_on_own_stack([&](Process&) {
    if (thread_state.generation != generation) return;  // what() forked, or the recording ended
    if (ref == 0) ref = process.tables.throws.add(judged.thrown, what, process.dump);
    if (ref == 0) add_counter(process.dump.header()->dropped_others, 1);
    if (ref != 0 && thread_state.paths.all->epoch() == judged.epoch) {
      mark(process, judged.abandoned, ref, judged.clock);
      mark_of_coroutine(process, judged.of_coroutine, ref);
    }
    keep(0, 0);
  });
}

// Called when a handler begins, or the runtime is about to end the program.
void note_exception_end(const void* unwind_exception, const std::uint64_t* frame) {
  Process* process = process_of_this_note(frame);
  if (process == nullptr || !thread_state.paths.all->in_flight()) return;
  ThreadPaths& paths = *thread_state.paths.all;
  const ThrownObject object = thrown_object(unwind_exception);
  Flight* flight = paths.flight_of(object.object);
  if (flight == nullptr || !flight->flying) return;
  Judged& judged = new_judged();
  judged.object = object;
  on_own_stack([&] {
    Recording recording;
    HookScope stub(frame, thread_state.outermost_hook);
    format::Ref catch_stack = current_stack(*process);  // no see(): the exception is still in flight
    ThreadPaths::Path caught = thread_state.paths.current;
    judged.clock = flight->clock;
    judged.epoch = paths.epoch();
    paths.forget_verdicts(module_generation());
    if (flight->epoch == judged.epoch && flight->path != 0 && caught != 0) {
      ExceptionEnd end = find_exception_end(paths, flight->path, caught, find_function);
      collect(flight->path, caught, end, &judged);
      collect_of_coroutine(*process, flight->path, caught, end, frame, &judged);
      describe(*process, end, flight->stack, catch_stack, flight->rethrown, &judged);
    }
    paths.end_flight(flight);
    paths.see(caught);
  });
  if (judged.has_any()) record(*process, judged, frame);
}

// A C++ runtime inside a module (-static-libstdc++) throws through the shared unwinder. Its __cxa_begin_catch is not
// hooked, so the handler is looked up in the tables, as the unwinder does next, and abandoned allocations are marked
// now. Frees during the unwinding remove their marks.
void note_raise(const void* unwind_exception, const std::uint64_t* frame) {
  Process* process = process_of_this_note(frame);
  if (process == nullptr) return;
  ThreadPaths& paths = *thread_state.paths.all;
  const ThrownObject object = thrown_object(unwind_exception);
  Flight* flight = paths.flight_of(object.object);
  if (flight != nullptr && flight->flying) return;  // its __cxa_throw was hooked
  if (!paths.any_live()) return;
  Judged& judged = new_judged();
  judged.object = object;
  on_own_stack([&] {
    Recording recording;
    HookScope stub(frame, thread_state.outermost_hook);
    format::Ref stack = current_stack(*process);
    ThreadPaths::Path thrown = path_of_throw(*process, frame, stack);
    judged.epoch = paths.epoch();
    judged.clock = paths.clock();
    if (thrown == 0) return;
    paths.forget_verdicts(module_generation());
    look_at_owners(paths, thrown, find_function);
    add_counter(process->dump.header()->throws, 1);
    TypeInfo type = judged.object.type;
    collect(thrown, thrown, find_exception_end_by_tables(paths, thrown, type, find_function), &judged);
    if (judged.abandoned.count == 0) return;
    FoundHandler handler = find_handler(paths, thrown, type, find_function);
    // The innermost frame is the runtime's own throw function, which is left out of the stack.
    format::Ref thrown_stack = intern_outward(*process, paths, paths.outer(paths.innermost(thrown)), 0);
    format::Ref catch_stack = 0;
    if (handler.frame != 0)
      catch_stack = intern_outward(*process, paths, handler.frame, handler.pad | format::kFrameExact);
    describe(*process, handler.exception_end, thrown_stack, catch_stack, false, &judged);
  });
  if (judged.abandoned.count != 0) record(*process, judged, frame);
}

// pthread_exit: all frames of the thread are about to be unwound.
void note_thread_exit(const std::uint64_t* frame) {
  Process* process = process_of_this_note(frame);
  if (process == nullptr || !thread_state.paths.all->any_live()) return;
  ThreadPaths& paths = *thread_state.paths.all;
  Judged& judged = new_judged();
  on_own_stack([&] {
    Recording recording;
    HookScope stub(frame, thread_state.outermost_hook);
    format::Ref stack = current_stack(*process);
    ThreadPaths::Path exited = path_of_throw(*process, frame, stack);
    if (exited == 0) return;
    judged.epoch = paths.epoch();
    judged.clock = paths.clock();
    paths.forget_verdicts(module_generation());
    look_at_owners(paths, exited, find_function);
    collect(exited, exited, {ExceptionEnd::How::kUncaught, ThreadPaths::kOutermost, 0}, &judged);
    judged.thrown = {nullptr, stack, 0, thread_state.index, format::kThrowForced, now_ns(*process)};
    keep(stack, 0);
  });
  if (judged.abandoned.count != 0) record(*process, judged, frame);
}

// pthread_cancel: notes where and when the thread was cancelled. It is unwound later, at an unknown point, without a
// hook.
void note_cancel(pthread_t thread, const std::uint64_t* frame) {
  if (process_if_recording() == nullptr || thread_state.in_tracker) return;
  record_on_own_stack([&](Process& process) {
    HookScope stub(frame, thread_state.outermost_hook);
    process.tables.cancels.add({thread, current_stack(process), now_ns(process)});
  });
}

// The object that `throw;` rethrows: the top of the thread's caught exceptions.
const void* rethrown_object(const void* caller) {
  // struct __cxa_eh_globals { __cxa_exception* caughtExceptions; unsigned uncaughtExceptions; }. The size of the
  // exception's header depends on the runtime: libc++abi has 16 more bytes before the type.
  auto globals = reinterpret_cast<const char* const* (*)()>(cxx_function(CxxFunction::kGetGlobals, caller));
  const char* header = *globals();
  if (header == nullptr) return nullptr;
  constexpr std::uint64_t kToUnwindHeader = 80;
  for (std::uint64_t more = 0; more <= 16; more += 16) {
    const ThrownObject found = thrown_object(header + more + kToUnwindHeader);
    if (found.type != nullptr) return found.object;
  }
  return nullptr;
}

}  // namespace

void note_thread_end(Process& process) {
  ThreadPaths* paths = thread_state.paths.all;
  Cancel cancel;
  const format::ThreadRecord* thread = process.tables.threads.record(thread_state.index, process.dump);
  if (paths == nullptr || thread == nullptr || thread_state.memory == nullptr) return;
  {
    Recording recording;
    if (!process.tables.cancels.take(pthread_self(), &cancel)) return;
    keep(cancel.stack, 0);
  }
  // The cancellation was of an earlier thread with the same number, which never called CUDA.
  if (cancel.time_ns < thread->first_seen_ns || !paths->any_live()) return;
  Judged& judged = new_judged();
  judged.epoch = paths->epoch();
  judged.clock = paths->clock();
  judged.thrown = {nullptr, cancel.stack, 0, thread_state.index, format::kThrowForced, now_ns(process)};
  paths->for_each_unsettled([&](ThreadPaths::Path made) {
    Abandoned& abandoned = judged.abandoned;
    if (abandoned.count < Abandoned::kMost && paths->has_unsettled(made, 0, judged.clock))
      abandoned.parts[abandoned.count++] = {made, 0, 0, false};
  });
  if (judged.abandoned.count != 0) record(process, judged, nullptr);
}

}  // namespace culprit

using namespace culprit;

namespace {
const void* caller_of(const std::uint64_t* frame) { return reinterpret_cast<const void*>(frame[1]); }
}  // namespace

void* culprit_note_throw(void* object, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  note_flight(object, frame, false);
  return cxx_function(CxxFunction::kThrow, caller_of(frame));
}

void* culprit_note_rethrow(void*, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  if (process_of_this_thread() != nullptr) {
    const void* object = rethrown_object(caller_of(frame));
    if (object != nullptr) note_flight(object, frame, true);
  }
  return cxx_function(CxxFunction::kRethrow, caller_of(frame));
}

void* culprit_note_rethrow_exception(void* exception_ptr, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  // Passed by reference; its only member is the object.
  const void* object = *static_cast<const void* const*>(exception_ptr);
  if (object != nullptr) note_flight(object, frame, true);
  return cxx_function(CxxFunction::kRethrowException, caller_of(frame));
}

void* culprit_note_catch(void* unwind_exception, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  note_exception_end(unwind_exception, frame);
  return cxx_function(CxxFunction::kBeginCatch, caller_of(frame));
}

void* culprit_note_raise(void* unwind_exception, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  note_raise(unwind_exception, frame);
  return cxx_function(CxxFunction::kRaise, caller_of(frame));
}

void* culprit_note_thread_exit(void*, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  note_thread_exit(frame);
  return next_pthread_exit();
}

void* culprit_note_cancel(void* thread, void*, const std::uint64_t* frame) {
  HookScope scope(frame, nullptr, marks_note());
  note_cancel(reinterpret_cast<pthread_t>(thread), frame);
  return next_pthread_cancel();
}
