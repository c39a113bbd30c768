// The loader's own count of modules, read without its lock: does a module lie where another one was?
//
// Our dlclose() sees the program's calls only. A program may close a library by libc's own dlclose: it asked libc's
// handle for it, is bound to it (RTLD_DEEPBIND), or lives in another namespace. A library that was opened afterwards
// may lie at the same addresses, with the same size and in the same node of the loader's list. glibc counts the modules
// that it adds (dlpi_adds), before it relocates them and calls their constructors: while the count stands, an address
// means what it meant before.
//
// dl_iterate_phdr() reports the count, but takes a lock that another thread's callback may hold for long, and that can
// be locked for ever in a fork child. The word itself is in _rtld_global, which the loader exports, in a place that
// depends on glibc's version: it is found by what stands before it.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/loader/loader_modules.h"

namespace culprit {

// The count, or a zero as long as it is not known: before find_loader_count(), and always where the libc has none.
extern CULPRIT_OWN const std::uint64_t* modules_added;

// Finds the count once. Thread-safe, async-signal-safe; cheap when it was called before.
void find_loader_count();

// The loader's lock of dlopen() and dlclose(), a recursive mutex, which stands before the count; nullptr: not known.
void* loader_mutex();

// How many modules of the program's namespace were removed, or were added to other namespaces; 0: not known. One more
// or one fewer while a thread adds a module. Thread-safe, async-signal-safe.
std::uint64_t modules_gone();

inline bool loader_count_is_known() { return *modules_added != 0; }

// modules_were_added() of loader_modules.h, of any namespace and, where the count is known, without a walk.
bool more_modules_were_added(ModuleListEnd* end);

}  // namespace culprit
