#include "interpose/inside_python/interpreter.h"

#include "interpose/base/elf_symbols.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/spin_lock.h"

namespace culprit {
namespace {

Interpreter found;
bool is_found;
SpinLock lock;

// Whether this module has an interpreter whose whole interface can be seen.
bool read_interface(const ElfModule& module) {
  found.runtime = reinterpret_cast<std::uint64_t*>(find_symbol(module, "_PyRuntime"));
  if (found.runtime == nullptr) return false;
  found.runtime_words = symbol_bytes(module, "_PyRuntime") / sizeof(std::uint64_t);
  const auto find = [&](const char* name) { return reinterpret_cast<void*>(find_symbol(module, name)); };
  bool complete = true;
#define PYTHON_FUNCTION(name, result, parameters)                   \
  found.name = reinterpret_cast<decltype(found.name)>(find(#name)); \
  complete = complete && found.name != nullptr;
#define PYTHON_OPTIONAL(name, result, parameters) found.name = reinterpret_cast<decltype(found.name)>(find(#name));
#define PYTHON_VARIABLE(name)                             \
  found.name = reinterpret_cast<PyObject**>(find(#name)); \
  complete = complete && found.name != nullptr;
#include "interpose/inside_python/interpreter.def"
  return complete;
}

}  // namespace

const Interpreter* find_interpreter() {
  if (__atomic_load_n(&is_found, __ATOMIC_ACQUIRE)) return &found;
  SpinGuard guard(lock);
  if (is_found) return &found;
  if (!any_module([&](const ElfModule& module, const struct dl_phdr_info&) { return read_interface(module); }))
    return nullptr;
  __atomic_store_n(&is_found, true, __ATOMIC_RELEASE);
  return &found;
}

const Interpreter& the_interpreter() { return found; }

}  // namespace culprit
