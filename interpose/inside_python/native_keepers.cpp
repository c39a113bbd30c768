#include "interpose/inside_python/native_keepers.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "interpose/base/hash.h"
#include "interpose/base/keep_errno.h"
#include "interpose/causes/native_holders.h"
#include "interpose/inside_python/frozen_copy.h"
#include "interpose/inside_python/object_layout.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/private_array.h"

namespace culprit {
namespace {

constexpr std::uint64_t kLongestInCopyNs = 10'000'000'000;
constexpr std::uint64_t kUsuallyLongestNs = 1'000'000'000;

struct Arguments {
  PyObject *everything, *blocks, *objects, *frame_type;
};

// How long the search may take; 0: it is switched off.
std::uint64_t longest_ns() {
  const Process* process = process_of_records();
  if (process != nullptr && !process->options.search_holders) return 0;
  if (is_frozen_copy()) return kLongestInCopyNs;
  return process != nullptr ? longest_search_ns(process->options) : kUsuallyLongestNs;
}

// Types whose objects may lead to objects of C++: those of extensions, capsules, and ctypes'. The interpreter's own
// objects have memory that nothing has cleared (locks, buffers), with pointers of what was there before.
class HolderTypes {
 public:
  HolderTypes() {
    const auto function = reinterpret_cast<std::uint64_t>(the_interpreter().Py_IncRef);
    if (find_module(function, &interpreter_)) is_known_ = true;
  }

  bool has(PyObject* type) {
    Answer& answer = answers_[mix(reinterpret_cast<std::uint64_t>(type)) % kAnswers];
    if (answer.type != type) answer = {type, is_known_ && look_at(type)};
    return answer.may_hold;
  }

 private:
  static constexpr std::uint64_t kAnswers = 16;
  struct Answer {
    PyObject* type;
    bool may_hold;
  };

  // A class of Python code has the functions of the interpreter, and the fields of the class above it.
  bool look_at(PyObject* type) const {
    for (int i = 0; i < kMostBases && type != nullptr; ++i, type = base_of(type)) {
      const char* name = type_name(type);
      if (name == nullptr || std::strcmp(name, "numpy.ndarray") == 0) return false;  // its elements, not cleared either
      if (std::strcmp(name, "PyCapsule") == 0 || std::strcmp(name, "_ctypes._CData") == 0) return true;
      struct dl_phdr_info module = {};
      if (find_module(deallocator_of(type), &module) && module.dlpi_phdr != interpreter_.dlpi_phdr &&
          std::strstr(module.dlpi_name, "/lib-dynload/") == nullptr)
        return true;
    }
    return false;
  }

  static constexpr int kMostBases = 16;
  struct dl_phdr_info interpreter_ = {};
  bool is_known_ = false;
  Answer answers_[kAnswers] = {};
};

struct Collector {
  NativeHolders& holders;
  HolderTypes types;

  // Notes the pointers of an object. False without memory.
  bool add(PyObject* object) {
    if ((flags_of(object) & (kIsBuiltIn | kIsInteger)) != 0 || !types.has(type_of(object))) return true;
    return holders.add_object(reinterpret_cast<std::uint64_t>(object), fields_of(object), field_count(object));
  }
};

// Objects that the collector does not track, as those of pybind11 and capsules are, are found behind those that it
// tracks.
int visit_plain(PyObject* object, void* collector) {
  return is_tracked(object) || static_cast<Collector*>(collector)->add(object) ? 0 : 1;
}

PyObject* result_of(const NativeHolders& holders) {
  const Interpreter& python = the_interpreter();
  const PythonRef files(python.PyList_New(0)), objects(python.PyList_New(0));
  PrivateArray<NativeHolders::Step> steps;
  PrivateArray<std::uint64_t> variables;
  PrivateArray<std::uint32_t> held;
  if (!files || !objects) return nullptr;
  bool done = true;
  holders.for_each_step([&](const NativeHolders::Step& step) { done = done && steps.push(step); });
  for (const NativeHolders::Variable& one : holders.variables()) {
    const NativeHolders::File& of = holders.file_of(one);
    const char* text = holders.path_of(of);
    const PythonRef path(python.PyBytes_FromStringAndSize(text, static_cast<long>(std::strlen(text))));
    const PythonRef build_id(
        python.PyBytes_FromStringAndSize(reinterpret_cast<const char*>(of.build_id), of.build_id_bytes));
    const PythonRef file(path && build_id ? python.PyTuple_Pack(2, path.get(), build_id.get()) : nullptr);
    done = done && file && python.PyList_Append(files.get(), file.get()) == 0 && variables.push(one.node) &&
           variables.push(one.address);
  }
  for (const NativeHolders::Object& one : holders.objects()) {
    auto* object = reinterpret_cast<PyObject*>(one.object);
    done = done && python.PyList_Append(objects.get(), object) == 0 && held.push(one.node);
  }
  if (!done) return nullptr;
  const PythonRef step_bytes(new_bytes(steps)), variable_bytes(new_bytes(variables)), held_bytes(new_bytes(held));
  if (!step_bytes || !variable_bytes || !held_bytes) return nullptr;
  return python.PyTuple_Pack(5, step_bytes.get(), variable_bytes.get(), files.get(), objects.get(), held_bytes.get());
}

// The interpreter's small pieces of memory are not malloc's, and are not searched. Where they are
// (PYTHONMALLOC=malloc), what lies between its objects leads from each to nearly all others.
bool has_own_allocator(const NativeHolders& holders) {
  return !holders.is_in_heap(reinterpret_cast<std::uint64_t>(the_interpreter().PySys_GetObject("modules")));
}

bool want(const Arguments& arguments, NativeHolders* holders) {
  const Interpreter& python = the_interpreter();
  constexpr long kWord = sizeof(std::uint64_t);
  const char* blocks = python.PyBytes_AsString(arguments.blocks);
  if (blocks == nullptr) return false;
  const long count = python.PyBytes_Size(arguments.blocks) / kWord;
  for (long i = 0; i < count; ++i) {
    if (!holders->want_block(field<std::uint64_t>(blocks, static_cast<std::size_t>(i * kWord)))) return false;
  }
  const long objects = python.PyList_Size(arguments.objects);
  for (long i = 0; i < objects; ++i) {
    if (!holders->want_object(reinterpret_cast<std::uint64_t>(python.PyList_GetItem(arguments.objects, i))))
      return false;
  }
  return true;
}

bool search(const Arguments& arguments, NativeHolders* holders) {
  const Interpreter& python = the_interpreter();
  const std::uint64_t longest = longest_ns();
  const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  const auto interpreter = reinterpret_cast<std::uint64_t>(python.Py_IncRef);
  if (longest == 0 || !holders->open(interpreter, reinterpret_cast<std::uint64_t>(arguments.frame_type)) ||
      !has_own_allocator(*holders) || !want(arguments, holders))
    return false;
  // Up to Python 3.11 the lists of freed objects are there.
  holders->leave_out(reinterpret_cast<std::uint64_t>(python.PyInterpreterState_Get()));
  Collector collector = {*holders, {}};
  const long objects = python.PyList_Size(arguments.everything);
  for (long i = 0; i < objects; ++i) {
    PyObject* object = python.PyList_GetItem(arguments.everything, i);
    holders->leave_out(reinterpret_cast<std::uint64_t>(object));
    if (!collector.add(object)) return false;
    traverse(object, visit_plain, &collector);
  }
  return holders->search(begin + longest);
}

}  // namespace

PyObject* native_holders(PyObject*, PyObject* given) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  Arguments arguments = {};
  PyObject** const places[] = {&arguments.everything, &arguments.blocks, &arguments.objects, &arguments.frame_type};
  long number = 0;
  for (PyObject** place : places) {
    *place = python.PyTuple_GetItem(given, number++);
    if (*place == nullptr) return nullptr;
  }
  PyObject* result = nullptr;
  int error = 0;
  void* memory = map_private(sizeof(NativeHolders), &error);
  if (memory != nullptr) {
    auto* holders = new (memory) NativeHolders;
    if (search(arguments, holders)) result = result_of(*holders);
    holders->~NativeHolders();
    unmap_private(memory, sizeof(NativeHolders));
  }
  return result != nullptr || python.PyErr_Occurred() != nullptr ? result : new_none();
}

}  // namespace culprit
