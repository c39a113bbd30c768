// The modules that the loader has mapped, without its lock.
//
// dl_iterate_phdr() takes a lock of the loader that a fork child can inherit locked for ever, and a sanitizer stands in
// front of it. Here the module of an address comes from glibc's _dl_find_object(), which takes no lock and may be
// called from a signal handler, and the list of all modules from what the loader publishes for debuggers (r_debug in
// <link.h>). Another thread may be unloading a module meanwhile: see the dlclose hook and visit_modules().
//
// Modules are described as dl_iterate_phdr() describes them, but for dlpi_adds, dlpi_subs and the thread-local storage,
// which are zero.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace culprit {

using ModuleVisitor = int (*)(struct dl_phdr_info* module, std::size_t size, void* data);

// Calls `visit` for each module of the program's namespace, in load order, until it returns something else than 0, and
// returns that; 0 at the end. `module` is valid during the visit only. Takes no lock and allocates nothing;
// thread-safe, async-signal-safe.
int visit_modules(ModuleVisitor visit, void* data);

// What the loader publishes for debuggers: the list of the program's namespace, and from r_version 2 on (glibc 2.35)
// behind it the address of the next one's. nullptr where there is none.
const struct r_debug* loader_lists();

// The module that `address` lies in. False when it lies in none. Without _dl_find_object() (glibc before 2.35, other
// libcs) it walks the list. The name is the loader's own: valid as long as the module is loaded. Thread-safe,
// async-signal-safe.
bool find_module(std::uint64_t address, struct dl_phdr_info* module);

// What tells a module from another one that comes to lie at its place.
struct ModuleMark {
  std::uint64_t begin;  // of what it has mapped, and behind its end
  std::uint64_t end;
  std::uint64_t node;          // of the loader's list
  std::uint64_t unwind_table;  // 0 = not known
  bool operator==(const ModuleMark& other) const {
    return begin == other.begin && end == other.end && node == other.node && unwind_table == other.unwind_table;
  }
};

// The mark of the module that `address` lies in; false when it lies in none. Reads nothing of the module itself, which
// another thread may be unloading. Thread-safe, async-signal-safe.
bool find_module_mark(std::uint64_t address, ModuleMark* mark);

// First byte, and the one behind the last, of what `module` has mapped. False when it has nothing.
bool module_extent(const struct dl_phdr_info& module, std::uint64_t* begin, std::uint64_t* end);

// The end of the list as somebody saw it. All zeros = never looked.
struct ModuleListEnd {
  std::uint64_t node;
  std::uint64_t bias;
};
// Whether a module was added to the program's namespace since the last look with this `end`, which is brought up to
// date. May say so without need. Thread-safe, if `end` is the caller's own.
bool modules_were_added(ModuleListEnd* end);

// A number of the process from the kernel (getauxval), 0 = unknown.
std::uint64_t auxiliary_value(std::uint64_t type);

// Around the call of the real dlclose(): while a module may be going, walks read the list by system calls, which fail
// where a plain read would crash. begin_unloading() waits for the walks that began before, 10 ms at most.
void begin_unloading();
void end_unloading();

}  // namespace culprit
