#include "interpose/inside_python/exported_symbols.h"

#include <cstdint>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/keep_errno.h"
#include "interpose/loader/loader_modules.h"

namespace culprit {

PyObject* exported(PyObject*, PyObject* arguments) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  PyObject* given = python.PyTuple_GetItem(arguments, 0);
  const char* name = given == nullptr ? nullptr : python.PyBytes_AsString(given);
  if (name == nullptr) return nullptr;
  const std::uint32_t hash = gnu_hash_of(name);
  std::uint64_t address = 0;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    address = find_symbol(module, name, hash);
    return address != 0;
  });
  return python.PyLong_FromUnsignedLong(address);
}

}  // namespace culprit
