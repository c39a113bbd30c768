// The functions that Python packages look up in the process: up to 0.1.0 their start-up hook, now `culprit.tensors()`.
#include <errno.h>

#include <cstring>

#include "interpose/base/keep_errno.h"
#include "interpose/base/placement.h"
#include "interpose/dump/thread_names.h"
#include "interpose/inside_python/interpreter.h"
#include "interpose/inside_python/python_view.h"
#include "interpose/process/process.h"

using namespace culprit;

// Writes the path of this process's dump to `path`, `bytes` long. Returns 0, ENODATA without a dump, or ERANGE.
CULPRIT_EXPORT int culprit_api_dump_path(char* path, std::size_t bytes) {
  Process* process = process_if_recording();
  if (process == nullptr || path == nullptr) return ENODATA;
  std::size_t length = std::strlen(process->dump.path());
  if (length >= bytes) return ERANGE;
  std::memcpy(path, process->dump.path(), length + 1);
  return 0;
}

// Sets the calling thread's name as given by the program. The text is copied.
CULPRIT_EXPORT void culprit_api_thread_name(const char* name) {
  if (name == nullptr) return;
  KeepErrno keep;
  keep_thread_name(name);
  Process* process = process_if_recording();
  if (process != nullptr && thread_state.generation == process->generation)
    on_own_stack([&] { apply_thread_name(process->tables.threads, thread_state.index, process->dump); });
}

// The dictionary with the view's code (inside_python/inside.py); None: it cannot be in this interpreter. With the GIL.
CULPRIT_EXPORT PyObject* culprit_api_python_view() {
  PyObject* scope = view_scope();
  if (scope == nullptr && find_interpreter() == nullptr) return nullptr;
  if (scope == nullptr) scope = the_interpreter().none();
  the_interpreter().Py_IncRef(scope);
  return scope;
}
