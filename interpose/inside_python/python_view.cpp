#include "interpose/inside_python/python_view.h"

#include <cstring>

#include "interpose/base/keep_errno.h"
#include "interpose/base/text_writer.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/control/control_state.h"
#include "interpose/dump/thread_names.h"
#include "interpose/inside_python/exported_symbols.h"
#include "interpose/inside_python/frozen_copy.h"
#include "interpose/inside_python/heap_graph.h"
#include "interpose/inside_python/interpreter.h"
#include "interpose/inside_python/native_keepers.h"
#include "interpose/inside_python/raw_pointers.h"
#include "interpose/inside_python/view_file.h"
#include "interpose/inside_python/view_sources.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/process.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/own_files.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

constexpr char kKey[] = "culprit";  // in the interpreter's own dictionary
constexpr int kFileInput = 257;     // Py_file_input
constexpr std::uint32_t kMostFailures = 3;
constexpr std::uint32_t kMostQueued = 1000;
constexpr std::uint64_t kLostAfterNs = 5'000'000'000;
constexpr std::uint64_t kPutOffNs = 500'000'000;
// For the main thread, by all threads together, and at one time.
constexpr std::uint32_t kMostWaitedUs = 20000, kLongestWaitUs = 5000, kPollUs = 100;
// Views at out of memory take one part in this of the time.
constexpr std::uint64_t kShareOfRanOut = 100;
// The code needs about twenty frames: a program near its recursion limit gets no view at that moment.
constexpr int kMostDepth = 2000;

std::uint64_t next_ran_out_ns;

void count_failure(Process& process) { add_counter(process.dump.header()->view_failures, 1); }

// While an object lives, no trace or profile function of the program is called.
class Untraced {
 public:
  Untraced() {
    const Interpreter& python = the_interpreter();
    if (python.PyThreadState_EnterTracing != nullptr && python.PyThreadState_LeaveTracing != nullptr &&
        python.PyThreadState_Get != nullptr) {
      state_ = python.PyThreadState_Get();
      python.PyThreadState_EnterTracing(state_);
    } else {
      traced_ = has("gettrace") || has("getprofile");
    }
  }
  ~Untraced() {
    if (state_ != nullptr) the_interpreter().PyThreadState_LeaveTracing(state_);
  }
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;
  // The program has such a function, and this interpreter (before 3.11) cannot leave it out.
  bool is_traced() const { return traced_; }

 private:
  static bool has(const char* getter) {
    const Interpreter& python = the_interpreter();
    PyObject* ask = python.PySys_GetObject(getter);
    const PythonRef found(ask == nullptr ? nullptr : python.PyObject_CallFunctionObjArgs(ask, nullptr));
    if (!found) python.PyErr_Clear();
    return found.get() != python.none();
  }

  void* state_ = nullptr;
  bool traced_ = false;
};

// --- The functions that the Python code calls

struct MethodDef {  // CPython's PyMethodDef
  const char* name;
  PyObject* (*function)(PyObject* self, PyObject* argument);
  int flags;
  const char* text;
};
constexpr int kVarArgs = 1;  // METH_VARARGS
constexpr int kNoArgs = 4;   // METH_NOARGS

// name_thread(number, name, ended): the name of the thread with the kernel's number.
PyObject* name_thread(PyObject*, PyObject* arguments) {
  const Interpreter& python = the_interpreter();
  PyObject* number = python.PyTuple_GetItem(arguments, 0);
  PyObject* text = number == nullptr ? nullptr : python.PyTuple_GetItem(arguments, 1);
  const char* name = text == nullptr ? nullptr : python.PyBytes_AsString(text);
  const auto thread = name == nullptr ? 0U : static_cast<std::uint32_t>(python.PyLong_AsLong(number));
  PyObject* state = name == nullptr ? nullptr : python.PyTuple_GetItem(arguments, 2);
  const bool ended = state != nullptr && python.PyLong_AsLong(state) != 0;
  if (python.PyErr_Occurred() != nullptr) return nullptr;
  KeepErrno keep;
  Process* process = process_if_recording();
  const bool stored = process != nullptr && on_own_stack([&] {
                        VisitInTracker visit;
                        const auto in = ended ? format::ThreadState::kEnded : format::ThreadState::kAlive;
                        return process->tables.threads.set_name_of(thread, in, name, process->dump);
                      });
  if (!stored && !ended) keep_name_of_thread(thread, name);
  return new_none();
}

PyObject* at_exit(PyObject*, PyObject*);
PyObject* on_ran_out(PyObject*, PyObject*);
PyObject* note_end(PyObject*, PyObject*);

const MethodDef kNameThread = {"name_thread", name_thread, kVarArgs, nullptr};
const MethodDef kOnRanOut = {"culprit_on_ran_out", on_ran_out, kVarArgs, nullptr};
const MethodDef kNoteEnd = {"culprit_note_end", note_end, kNoArgs, nullptr};
const MethodDef kHeapEdges = {"heap_edges", heap_edges, kVarArgs, nullptr};
const MethodDef kHeapObjects = {"heap_objects", heap_objects, kVarArgs, nullptr};
const MethodDef kWords = {"words", read_words, kVarArgs, nullptr};
const MethodDef kPointers = {"pointers", count_pointers, kNoArgs, nullptr};
const MethodDef kMemorySizes = {"memory_sizes", memory_sizes, kVarArgs, nullptr};
const MethodDef kExported = {"exported", exported, kVarArgs, nullptr};
const MethodDef kNativeHolders = {"native_holders", native_holders, kVarArgs, nullptr};
const MethodDef kCopyingTime = {"copying_time", copying_time, kNoArgs, nullptr};
const MethodDef kYieldGil = {"yield_gil", yield_gil, kVarArgs, nullptr};
const MethodDef kFreeze = {"freeze", freeze, kNoArgs, nullptr};
const MethodDef kLeave = {"leave", leave, kVarArgs, nullptr};
const MethodDef kAtExit = {"culprit_at_exit", at_exit, kNoArgs, nullptr};

// --- Loading

PyObject* loaded() {
  const Interpreter& python = the_interpreter();
  PyObject* own = python.PyInterpreterState_GetDict(python.PyInterpreterState_Get());
  return own == nullptr ? nullptr : python.PyDict_GetItemString(own, kKey);
}

// Runs a source in `scope`. False: an error is set.
bool run_source(const char* source, const char* name, PyObject* builtins, PyObject* scope) {
  const Interpreter& python = the_interpreter();
  const PythonRef text(python.PyUnicode_FromString(name));
  if (!text || python.PyDict_SetItemString(scope, "__name__", text.get()) != 0 ||
      python.PyDict_SetItemString(scope, "__builtins__", builtins) != 0) {
    return false;
  }
  // The name of the file in tracebacks: tools leave out those in angle brackets.
  const PythonRef code(python.Py_CompileStringExFlags(source, "<culprit>", kFileInput, nullptr, -1));
  if (!code) return false;
  const PythonRef result(python.PyEval_EvalCode(code.get(), scope, scope));
  return static_cast<bool>(result);
}

// Calls a function of inside.py. nullptr: an error is set.
PyObject* call(PyObject* scope, const char* function, PyObject* first = nullptr, PyObject* second = nullptr) {
  const Interpreter& python = the_interpreter();
  PyObject* found = python.PyDict_GetItemString(scope, function);
  return found == nullptr ? nullptr : python.PyObject_CallFunctionObjArgs(found, first, second, nullptr);
}

// `name` follows "culprit.".
bool add_module(PyObject* scope, PyObject* builtins, const char* name, const char* source) {
  const Interpreter& python = the_interpreter();
  const PythonRef module(python.PyDict_New());
  const PythonRef text(python.PyUnicode_FromString(name + std::strlen("culprit.")));
  if (!module || !text || !run_source(source, name, builtins, module.get())) return false;
  const PythonRef added(call(scope, "add", text.get(), module.get()));
  return static_cast<bool>(added);
}

bool give(PyObject* scope, const char* name, PyObject* value) {
  return value != nullptr && the_interpreter().PyDict_SetItemString(scope, name, value) == 0;
}

bool give_function(PyObject* scope, const MethodDef& method, const char* name) {
  // CPython does not write to the definition.
  const PythonRef function(the_interpreter().PyCFunction_NewEx(const_cast<MethodDef*>(&method), nullptr, nullptr));
  return give(scope, name, function.get());
}

// False: an error may be set.
bool load(const Process& process) {
  const Interpreter& python = the_interpreter();
  PyObject* own = python.PyInterpreterState_GetDict(python.PyInterpreterState_Get());
  PyObject* modules = python.PySys_GetObject("modules");
  PyObject* sys = modules == nullptr ? nullptr : python.PyDict_GetItemString(modules, "sys");
  PyObject* builtins_module = modules == nullptr ? nullptr : python.PyDict_GetItemString(modules, "builtins");
  if (own == nullptr || sys == nullptr || builtins_module == nullptr) return false;
  PyObject* shared = python.PyModule_GetDict(builtins_module);
  const PythonRef builtins(shared == nullptr ? nullptr : python.PyDict_Copy(shared));
  const PythonRef scope(python.PyDict_New());
  const PythonRef history(python.PyLong_FromLong(process.options.torch_history ? 1 : 0));
  return builtins && scope && give(scope.get(), "sys", sys) && give(scope.get(), "torch_history", history.get()) &&
         give_function(scope.get(), kNameThread, "name_thread") && give_function(scope.get(), kAtExit, "at_exit") &&
         give_function(scope.get(), kHeapEdges, "heap_edges") &&
         give_function(scope.get(), kHeapObjects, "heap_objects") && give_function(scope.get(), kWords, "words") &&
         give_function(scope.get(), kPointers, "pointers") &&
         give_function(scope.get(), kMemorySizes, "memory_sizes") &&
         give_function(scope.get(), kExported, "exported") &&
         give_function(scope.get(), kNativeHolders, "native_holders") &&
         give_function(scope.get(), kCopyingTime, "copying_time") &&
         give_function(scope.get(), kYieldGil, "yield_gil") && give_function(scope.get(), kFreeze, "freeze") &&
         give_function(scope.get(), kLeave, "leave") && give_function(scope.get(), kOnRanOut, "on_ran_out") &&
         give_function(scope.get(), kNoteEnd, "note_end") &&
         run_source(culprit_source_inside, "culprit", builtins.get(), scope.get()) &&
         add_module(scope.get(), builtins.get(), "culprit._referrers", culprit_source_referrers) &&
         add_module(scope.get(), builtins.get(), "culprit._types", culprit_source_types) &&
         add_module(scope.get(), builtins.get(), "culprit._readers", culprit_source_readers) &&
         add_module(scope.get(), builtins.get(), "culprit._torch_tensors", culprit_source_torch_tensors) &&
         add_module(scope.get(), builtins.get(), "culprit._torch_workspaces", culprit_source_torch_workspaces) &&
         add_module(scope.get(), builtins.get(), "culprit._native_holders", culprit_source_native_holders) &&
         add_module(scope.get(), builtins.get(), "culprit._graph", culprit_source_graph) &&
         add_module(scope.get(), builtins.get(), "culprit._view", culprit_source_view) && give(own, kKey, scope.get());
}

// --- Views

// Calls guarded(FUNCTION, argument) of inside.py: an exception of a signal handler of the program stays set, and
// `passes_on` is then true; the view's own errors are counted.
PyObject* call_guarded(Process* process, const char* function, PyObject* argument, bool* passes_on) {
  const Interpreter& python = the_interpreter();
  PyObject* scope = loaded();
  PyObject* work = scope == nullptr ? nullptr : python.PyDict_GetItemString(scope, function);
  PyObject* result = work == nullptr ? nullptr : call(scope, "guarded", work, argument);
  if (result != nullptr) return result;
  *passes_on = python.PyErr_Occurred() != nullptr && python.PyErr_ExceptionMatches(*python.PyExc_RecursionError) == 0 &&
               python.PyErr_ExceptionMatches(*python.PyExc_MemoryError) == 0;
  if (!*passes_on) {
    python.PyErr_Clear();
    if (process != nullptr) count_failure(*process);
  }
  return nullptr;
}

// Writes a view beside `dump`; nullptr: beside the latest snapshot. Returns false when an exception of the program is
// set.
bool take_view(Process& process, const char* taken, const char* dump) {
  const Interpreter& python = the_interpreter();
  bool passes_on = false;
  const PythonRef name(python.PyUnicode_FromString(taken));
  const PythonRef text(name ? call_guarded(&process, "take", name.get(), &passes_on) : nullptr);
  if (!text) {
    if (!name) python.PyErr_Clear();
    return !passes_on;
  }
  if (text.get() == python.none()) return true;
  const char* bytes = python.PyBytes_AsString(text.get());
  const long size = bytes == nullptr ? 0 : python.PyBytes_Size(text.get());
  if (bytes == nullptr) python.PyErr_Clear();
  const bool written = bytes != nullptr && on_own_stack([&] {
                         VisitInTracker visit;
                         const auto length = static_cast<std::uint64_t>(size);
                         return dump != nullptr ? write_view(dump, bytes, length) : write_snapshot_view(bytes, length);
                       });
  if (!written) count_failure(process);
  return true;
}

// The dump of this process, unless recording ended meanwhile.
Process* usable_process() {
  Process* process = process_if_recording();
  return process != nullptr && process->options.python ? process : nullptr;
}

// Whether the calling thread is far from its recursion limit.
bool is_shallow(const Process& process) {
  const int limit = the_interpreter().Py_GetRecursionLimit() / 2;
  const int most = limit < kMostDepth ? limit : kMostDepth;
  return process.python.count_frames(most) < most;
}

// Returns false when an exception of the program is set.
bool serve_ran_out(Process& process) {
  const std::uint64_t begin = process.clock.now();
  if (begin < next_ran_out_ns) return true;
  const bool done = take_view(process, "out-of-memory", process.dump.path());
  const std::uint64_t end = process.clock.now();
  next_ran_out_ns = end + kShareOfRanOut * (end - begin);
  return done;
}

// PyTorch calls this in the thread whose allocation failed, before it raises the exception and without its lock.
PyObject* on_ran_out(PyObject*, PyObject*) {
  KeepErrno keep;
  Process* process = usable_process();
  if (process == nullptr || !is_shallow(*process)) return new_none();
  const Untraced untraced;
  if (untraced.is_traced()) return new_none();
  view_of(*process).wanted.fetch_and(~std::uint32_t{kViewRanOut});
  return serve_ran_out(*process) ? new_none() : nullptr;
}

// note_end(): the program's main module has ended. Memory that is freed from now on is freed by the interpreter's end.
PyObject* note_end(PyObject*, PyObject*) {
  KeepErrno keep;
  Process* process = usable_process();
  if (process != nullptr) {
    on_own_stack([&] {
      VisitInTracker visit;
      breakdowns_of(*process).note_python_ends(*process);
      return true;
    });
  }
  return new_none();
}

PyObject* at_exit(PyObject*, PyObject*) {
  KeepErrno keep;
  Process* process = usable_process();
  if (process == nullptr) return new_none();
  // A program with Python inside may start the interpreter again: its modules are new then.
  view_of(*process).complete = false;
  view_of(*process).queued_ns = 0;
  const Untraced untraced;
  if (untraced.is_traced()) {
    count_failure(*process);
    return new_none();
  }
  return take_view(*process, "exit", process->dump.path()) ? new_none() : nullptr;
}

// After load(). Returns false when an exception of the program is set.
bool note_failed_load(Process& process) {
  const Interpreter& python = the_interpreter();
  if (python.PyErr_Occurred() != nullptr && python.PyErr_ExceptionMatches(*python.PyExc_Exception) == 0) return false;
  python.PyErr_Clear();
  if (view_of(process).failures.fetch_add(1) + 1 >= kMostFailures) view_of(process).complete = true;
  count_failure(process);
  return true;
}

// Returns false when an exception of the program is set.
bool serve_load(Process& process) {
  if (loaded() != nullptr) return true;
  if (!load(process)) return note_failed_load(process);
  process.dump.header()->view_state = format::PythonViewState::kLoaded;
  bool passes_on = false;
  const PythonRef begun(call_guarded(&process, "begin", nullptr, &passes_on));
  return !passes_on;
}

bool serve_names(Process& process) {
  const Interpreter& python = the_interpreter();
  bool passes_on = false;
  const PythonRef done(call_guarded(&process, "update", nullptr, &passes_on));
  if (passes_on) return false;
  if (done && python.PyLong_AsLong(done.get()) == 1) view_of(process).complete = true;
  python.PyErr_Clear();
  return true;
}

// Returns false when an exception of the program is set. In the copy it does not return.
bool serve_frozen(Process& process) {
  note_frozen_served(process);
  bool passes_on = false;
  const PythonRef done(call_guarded(nullptr, "take_frozen", nullptr, &passes_on));
  end_if_frozen_copy();
  note_frozen_result(process, done.get());
  return !passes_on;
}

bool serve(Process& process, std::uint32_t requests) {
  if (!serve_load(process)) return false;
  if (loaded() == nullptr) return true;
  if ((requests & kViewFrozen) != 0 && !serve_frozen(process)) return false;
  if ((requests & kViewLoad) != 0 && !serve_names(process)) return false;
  if ((requests & kViewRanOut) != 0 && !serve_ran_out(process)) return false;
  return (requests & kViewSnapshot) == 0 || take_view(process, "snapshot", nullptr);
}

// The interpreter calls this in its main thread, with the GIL. -1: an exception is set.
int run_requests(void*) {
  KeepErrno keep;
  Process* process = usable_process();
  if (process == nullptr) return 0;
  const Interpreter& python = the_interpreter();
  view_of(*process).queued_ns = 0;
  if (python.PyInterpreterState_Get() != python.PyInterpreterState_Main() || python.PyErr_Occurred() != nullptr)
    return 0;
  if (!is_shallow(*process)) return 0;  // the next stack asks again
  const Untraced untraced;
  if (untraced.is_traced()) return 0;
  const std::uint32_t requests = view_of(*process).wanted.exchange(0);
  return requests == 0 || serve(*process, requests) ? 0 : -1;
}

}  // namespace

namespace {

// Whether the main thread waits for another one, without a limit of time: "202 0x7f52c0 0x189 0x0 0x0 ...", a futex()
// whose fourth argument is 0, as in join(). A sleep or a wait for the GIL has a limit.
bool main_thread_waits_for_another() {
  if (calls_restricted_now()) return false;
  char path[64], text[160];
  TextWriter(path, sizeof(path)) << "/proc/self/task/" << static_cast<std::uint64_t>(system_call(SYS_getpid))
                                 << "/syscall";
  if (read_small_file(path, text, sizeof(text)) == 0) return false;
  char futex[16];
  TextWriter writer(futex, sizeof(futex));
  writer << static_cast<std::uint64_t>(SYS_futex) << " ";
  if (std::strncmp(text, futex, writer.length()) != 0) return false;
  const char* argument = text;
  for (int i = 0; i < 4 && argument != nullptr; ++i) argument = std::strchr(argument + 1, ' ');
  return argument != nullptr && std::strncmp(argument, " 0x0 ", 5) == 0;
}

// A thread that the main thread has just started may come here before the main thread waits for its end. Nothing would
// ask again before the thread has ended.
bool main_thread_soon_waits(ViewPart& view) {
  for (std::uint32_t waited = 0;; waited += kPollUs) {
    if (main_thread_waits_for_another()) return true;
    if (waited >= kLongestWaitUs || is_in_signal_handler() || view.waited_us.fetch_add(kPollUs) >= kMostWaitedUs)
      return false;
    sleep_microseconds(kPollUs);
  }
}

// Py_AddPendingCall() reads freed memory when the main thread ends the interpreter between is_ending() and its return;
// a busy machine may stop the caller there for milliseconds. The interpreter cannot end where the caller is the main
// thread, holds the GIL, or is an injector, nor while the main thread waits for another one. Any other thread (a daemon
// thread that released the GIL for its call, or one of C++ code) leaves the queueing to those for a while; where none
// comes, the process is one that stays, and the thread queues the call itself.
bool may_queue(const Interpreter& python, ViewPart& view, std::uint64_t now, std::uint32_t requests) {
  if ((requests & kViewAttach) != 0 || is_main_thread()) return true;
  if (python.PyGILState_Check() != 0) return true;
  std::uint64_t put_off = 0;
  if (!view.put_off_ns.compare_exchange_strong(put_off, now | 1) && now - put_off > kPutOffNs) return true;
  return main_thread_soon_waits(view);
}

}  // namespace

void serve_view_requests(Process& process, std::uint32_t requests) {
  ViewPart& view = view_of(process);
  look_for_python(process);
  if (!process.python.is_readable()) return;
  const Interpreter* python = find_interpreter();
  if (python == nullptr || python->is_ending()) return;
  view.wanted.fetch_or(requests & ~std::uint32_t{kViewAttach});
  const std::uint64_t now = process.clock.now();
  if (process.dump.header()->view_state == format::PythonViewState::kNone)
    process.dump.header()->view_state = format::PythonViewState::kAsked;
  if (!may_queue(*python, view, now, requests)) return;
  std::uint64_t queued = view.queued_ns.load();
  // A call can be lost: with a subinterpreter that ended.
  if ((queued != 0 && now - queued < kLostAfterNs) || (requests == kViewLoad && view.queued.load() >= kMostQueued) ||
      // A handler may have interrupted the interpreter while it holds the lock of its queue.
      ((requests & kViewAttach) == 0 && is_in_signal_handler()) ||
      !view.queued_ns.compare_exchange_strong(queued, now | 1)) {
    return;
  }
  view.queued.fetch_add(1);
  if (python->is_ending() || python->Py_AddPendingCall(run_requests, nullptr) != 0) view.queued_ns = 0;
}

void request_snapshot_view(Process& process, const char* path) {
  keep_snapshot_path(path);
  request_view(process, kViewSnapshot);
}

PyObject* view_scope() {
  KeepErrno keep;
  Process* process = usable_process();
  if (process == nullptr || !on_own_stack([&] {
        VisitInTracker visit;
        look_for_python(*process);
        return process->python.is_readable() && find_interpreter() != nullptr;
      })) {
    return nullptr;
  }
  const Interpreter& python = the_interpreter();
  if (python.PyInterpreterState_Get() != python.PyInterpreterState_Main()) return nullptr;
  if (loaded() == nullptr && !serve_load(*process)) python.PyErr_Clear();
  return loaded();
}

}  // namespace culprit
