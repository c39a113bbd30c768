// Exceptions inside the target: which live allocations did each of them abandon?
//
// The stubs in exceptions_*.S call the notes below, and then jump on to the C++ runtime. A throw is kept with its path;
// when its handler begins (__cxa_begin_catch), every path of this thread that has live allocations is judged
// (abandoned.h), and what was abandoned is marked. Later frees take the marks with them.
//
// A program may throw a million times a second: a thread that owns nothing alive does next to nothing here, one that
// does pays for its paths, not for its allocations.
#include <errno.h>
#include <link.h>

#include <cstring>

#include "interpose/abandoned.h"
#include "interpose/cxx_runtime.h"
#include "interpose/cxx_types.h"
#include "interpose/process.h"
#include "interpose/unwind_rule.h"

// What the stubs call: the caller's first two arguments, and the stub's frame (saved rbp, return address). Each returns
// where to jump.
#define CULPRIT_NOTE extern "C" __attribute__((visibility("hidden"))) void*
CULPRIT_NOTE culprit_note_throw(void* object, void* type, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_rethrow(void*, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_catch(void* unwind_exception, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_rethrow_exception(void* exception_ptr, void*, const std::uint64_t* frame);
CULPRIT_NOTE culprit_note_raise(void* unwind_exception, void*, const std::uint64_t* frame);

namespace culprit {
namespace {

// The process, when this thread's events are recorded and it may be asked about: not in a thread that never called
// CUDA, nor in a fork child before its first call, nor in a signal handler that interrupted the tracker.
Process* process_of_this_thread() {
  Process* process = process_if_recording();
  if (process == nullptr || thread_state.generation != process->generation || thread_state.paths == nullptr ||
      thread_state.in_tracker)
    return nullptr;
  return process;
}

// Makes the stub the hook that current_stack() looks at. It may have been called below another hook: from a callback.
class StubFrame {
 public:
  explicit StubFrame(const std::uint64_t* frame) : outer_(thread_state.outermost_hook) {
    thread_state.outermost_hook = reinterpret_cast<const char*>(frame);
  }
  ~StubFrame() { thread_state.outermost_hook = outer_; }
  StubFrame(const StubFrame&) = delete;
  StubFrame& operator=(const StubFrame&) = delete;

 private:
  const char* outer_;
};

struct Segment {
  std::uint64_t address;
  std::uint64_t end;
};

int visit_for_segment(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* segment = static_cast<Segment*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    std::uint64_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || segment->address < begin || segment->address >= begin + header.p_memsz) continue;
    segment->end = begin + header.p_memsz;
    return 1;
  }
  return 0;
}

struct Startup {
  std::uint64_t address;
  bool found;
};

int visit_for_libc(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* startup = static_cast<Startup*>(data);
  const char* name = info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
  if (name == nullptr || (std::strcmp(name, "/libc.so.6") != 0 && std::strcmp(name, "/libpthread.so.0") != 0)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    std::uint64_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && startup->address >= begin && startup->address < begin + header.p_memsz)
      startup->found = true;
  }
  return startup->found;
}

bool function_at(std::uint64_t return_address, FunctionInfo* info) {
  culprit_function function;
  if (culprit_function_at(return_address - 1, &function) != 0) return false;
  Startup startup = {return_address, false};
  dl_iterate_phdr(visit_for_libc, &startup);
  *info = {function.begin, function.end, function.is_part != 0, startup.found, nullptr, nullptr};
  Segment segment = {function.lsda, 0};
  if (function.lsda != 0) dl_iterate_phdr(visit_for_segment, &segment);
  if (segment.end == 0) return true;
  info->lsda = reinterpret_cast<const std::uint8_t*>(segment.address);
  info->lsda_end = reinterpret_cast<const std::uint8_t*>(segment.end);
  return true;
}

}  // namespace

bool find_function(std::uint64_t return_address, FunctionInfo* info) { return function_at(return_address, info); }

namespace {

// The path of the stack that current_stack() just returned. A stack that was cut short is walked anew, further: what
// holds allocations is often far above a throw. Unwinding that many frames takes much longer than this.
ThreadPaths::Path path_of_throw(Process& process, const std::uint64_t* frame, format::Ref stack) {
  const auto* record = process.dump.at<format::StackRecord>(stack);
  if (stack == 0 || (record->flags & format::kStackTruncated) == 0) return thread_state.path;
  RawStack further;
  StackChecks checks;
  capture_stack(kMaxStackDepth, frame, &further, &checks);
  return intern_path(further, checks);
}

// An exception sets out. `object` is what was thrown.
void note_flight(const void* object, const std::uint64_t* frame, bool again) {
  Process* process = process_of_this_thread();
  if (process == nullptr) return;
  if (!again) add_counter(process->dump.header()->throws, 1);
  ThreadPaths& paths = *thread_state.paths;
  Flight* known = paths.flight_of(object);
  if (!paths.any_live()) {
    // Another object had this address, if any; its throw is no part of this one's story.
    if (known != nullptr && !again) paths.forget_flight(known);
    return;
  }
  Recording recording;
  StubFrame stub(frame);
  format::Ref stack = current_stack(*process);
  ThreadPaths::Path path = path_of_throw(*process, frame, stack);
  paths.forget_verdicts(module_generation.load(std::memory_order_acquire));
  look_at_owners(paths, path, function_at);
  if (again && known != nullptr) stack = known->stack;
  Flight* flight = paths.begin_flight(object, path, stack);
  flight->rethrown = again;
}

// Abandoned by one exception: the paths, with what has to be known of each.
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

// pybind11's and nanobind's what() take the GIL and run Python, which a thread that was stopped at any place must not.
bool may_ask(const char* type) {
  return std::strstr(type, "pybind11") == nullptr && std::strstr(type, "nanobind") == nullptr;
}

// The target's what(), asked once for each record. Outside of the tracker's bookkeeping: it is the target's code, and
// may itself throw, catch and call CUDA.
const char* ask_what(const ThrownObject& thrown) {
  const void* exception = as_std_exception(thrown.type, thrown.object);
  if (exception == nullptr || thread_state.asks_what || !may_ask(type_name(thrown.type))) return nullptr;
  int saved_errno = errno;
  thread_state.asks_what = true;
  const char* text = what_of(exception);
  thread_state.asks_what = false;
  errno = saved_errno;
  return text;
}

void mark(Process& process, const Abandoned& abandoned, format::Ref thrown, std::uint32_t clock) {
  for (int i = 0; i < abandoned.count; ++i) {
    const Abandoned::Part& part = abandoned.parts[i];
    thread_state.paths->settle(part.path, part.since, clock, [&](format::Ref ref, bool is_sure) {
      auto* record = process.dump.at<format::AllocationRecord>(ref);
      add_evidence(process, record, [&](format::EvidenceRecord& evidence) {
        evidence.thrown = thrown;
        evidence.thrown_owner = part.owner_depth;
        evidence.flags = static_cast<std::uint8_t>((evidence.flags & format::kEvidenceEarlierCall) |
                                                   (is_sure ? 0 : format::kEvidenceEarlier) |
                                                   (part.ambiguous ? format::kEvidenceAmbiguous : 0));
      });
    });
  }
}

// A handler begins, or the runtime is about to end the program.
void note_landing(const void* unwind_exception, const std::uint64_t* frame) {
  Process* process = process_of_this_thread();
  if (process == nullptr || !thread_state.paths->in_flight()) return;
  ThreadPaths& paths = *thread_state.paths;
  const ThrownObject object = thrown_object(unwind_exception);
  Flight* flight = paths.flight_of(object.object);
  if (flight == nullptr || !flight->flying) return;

  Abandoned abandoned;
  ThrowTable::Throw thrown = {};
  format::Ref ref = 0;
  std::uint32_t epoch;
  {
    Recording recording;
    StubFrame stub(frame);
    format::Ref catch_stack = current_stack(*process);  // not seen yet: the flight is still on
    ThreadPaths::Path caught = thread_state.path;
    epoch = paths.epoch();
    bool comparable = flight->epoch == epoch && flight->path != 0 && caught != 0;
    Landing landing = {Landing::How::kUnknown, 0};
    paths.forget_verdicts(module_generation.load(std::memory_order_acquire));
    if (comparable) landing = find_landing(paths, flight->path, caught, function_at);
    if (landing.how != Landing::How::kUnknown) {
      paths.for_each_unsettled([&](ThreadPaths::Path path) {
        ThreadPaths::Verdict verdict = judge(paths, path, flight->path, caught, landing, object.type, function_at);
        if (!verdict.abandoned || abandoned.count == Abandoned::kMost) return;
        std::uint32_t since = paths.running_since(path, verdict.cfa);
        if (paths.has_unsettled(path, since, flight->clock))
          abandoned.parts[abandoned.count++] = {path, since, verdict.owner_depth, verdict.ambiguous};
      });
    }
    bool was_caught = landing.how == Landing::How::kCaught;
    thrown.type = type_name(object.type);
    thrown.stack = flight->stack;
    thrown.catch_stack = was_caught ? catch_stack : 0;
    thrown.thread = thread_state.index;
    thrown.flags = static_cast<std::uint8_t>((was_caught ? format::kThrowCaught : format::kThrowUncaught) |
                                             (flight->rethrown ? format::kThrowRethrown : 0));
    thrown.time_ns = now_ns(*process);
    paths.end_flight(flight);
    paths.see(caught);
    if (abandoned.count == 0) return;
    ref = process->throws.count(thrown, process->dump);
  }
  std::uint32_t clock = flight->clock;
  const char* what = ref == 0 ? ask_what(object) : nullptr;
  Recording recording;
  if (ref == 0) ref = process->throws.add(thrown, what, process->dump);
  if (ref == 0) add_counter(process->dump.header()->dropped_others, 1);
  if (ref != 0 && paths.epoch() == epoch) mark(*process, abandoned, ref, clock);
}

// The object of the exception that `throw;` throws again: the top of the thread's caught exceptions.
const void* rethrown_object(const void* caller) {
  // struct __cxa_eh_globals { __cxa_exception* caughtExceptions; unsigned uncaughtExceptions; }. Where the exception's
  // header begins is the runtime's own affair: libc++abi has 16 bytes more in front of the type.
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
}  // namespace culprit

using namespace culprit;

namespace {
const void* caller_of(const std::uint64_t* frame) { return reinterpret_cast<const void*>(frame[1]); }
}  // namespace

void* culprit_note_throw(void* object, void*, const std::uint64_t* frame) {
  note_flight(object, frame, false);
  return cxx_function(CxxFunction::kThrow, caller_of(frame));
}

void* culprit_note_rethrow(void*, void*, const std::uint64_t* frame) {
  if (process_of_this_thread() != nullptr) {
    const void* object = rethrown_object(caller_of(frame));
    if (object != nullptr) note_flight(object, frame, true);
  }
  return cxx_function(CxxFunction::kRethrow, caller_of(frame));
}

void* culprit_note_rethrow_exception(void* exception_ptr, void*, const std::uint64_t* frame) {
  // Passed by reference; its only member is the object.
  const void* object = *static_cast<const void* const*>(exception_ptr);
  if (object != nullptr) note_flight(object, frame, true);
  return cxx_function(CxxFunction::kRethrowException, caller_of(frame));
}

void* culprit_note_catch(void* unwind_exception, void*, const std::uint64_t* frame) {
  note_landing(unwind_exception, frame);
  return cxx_function(CxxFunction::kBeginCatch, caller_of(frame));
}

void* culprit_note_raise(void*, void*, const std::uint64_t* frame) {
  return cxx_function(CxxFunction::kRaise, caller_of(frame));
}
