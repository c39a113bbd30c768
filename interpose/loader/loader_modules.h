// The modules that the loader has mapped, without its lock.
//
// dl_iterate_phdr() takes a lock of the loader that can be locked for ever in a fork child, and sanitizers intercept
// it. Here the module of an address comes from glibc's _dl_find_object(), which takes no lock and is async-signal-safe,
// and the list of all modules from the loader's data for debuggers (r_debug in <link.h>). Another thread may be
// unloading a module meanwhile: see the dlclose hook and visit_modules().
//
// Modules are described as dl_iterate_phdr() describes them, but for dlpi_adds, dlpi_subs and the thread-local storage,
// which are zero.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "interpose/base/elf_symbols.h"

namespace culprit {

using ModuleVisitor = int (*)(struct dl_phdr_info* module, std::size_t size, void* data);

// Calls `visit` for each module of the program's namespace, in load order, until it returns non-zero, and returns that;
// otherwise 0. `module` is valid during the visit only. Takes no lock and allocates nothing; thread-safe,
// async-signal-safe.
int visit_modules(ModuleVisitor visit, void* data);

// visit_modules() for a function object: calls visit(module) until it returns true. Returns whether it did. See also
// any_module().
template <typename Visit>
bool any_loaded_module(Visit visit) {
  return visit_modules([](struct dl_phdr_info* module, std::size_t,
                          void* data) -> int { return (*static_cast<Visit*>(data))(*module); },
                       &visit) != 0;
}

// Calls visit(module, info, data) for each module that can be described, in load order, until it returns true. Returns
// whether it did. See visit_modules(), and KeptDescriptions.
using DescribedVisitor = bool (*)(const ElfModule& module, const struct dl_phdr_info& info, void* data);
bool visit_described(DescribedVisitor visit, void* data);

// visit_described() for a function object: calls visit(module, info).
template <typename Visit>
bool any_module(Visit visit) {
  return visit_described([](const ElfModule& module, const struct dl_phdr_info& info,
                            void* data) -> bool { return (*static_cast<Visit*>(data))(module, info); },
                         &visit);
}

// Calls visit(node, data) for each node of that list until it returns true, and returns whether it did: also for
// modules that the loader has mapped and not yet completed. Reads the list plainly: for code that the loader itself
// calls.
bool visit_nodes(bool (*visit)(const struct link_map& node, void* data), void* data);

// The loader's data for debuggers: the list of the program's namespace; from r_version 2 on (glibc 2.35) it is followed
// by the address of the next namespace's. nullptr if there is none.
const struct r_debug* loader_lists();

// Finds the module of `address`. Returns false when there is none. Without _dl_find_object() (glibc before 2.35, other
// libcs) it walks the list. The name is the loader's own: valid as long as the module is loaded. Thread-safe,
// async-signal-safe.
bool find_module(std::uint64_t address, struct dl_phdr_info* module);

// Distinguishes a module from a later one at the same addresses.
struct ModuleMark {
  std::uint64_t begin;  // of its mapping
  std::uint64_t end;
  std::uint64_t node;          // in the loader's list
  std::uint64_t unwind_table;  // 0 = not known
  bool operator==(const ModuleMark& other) const {
    return begin == other.begin && end == other.end && node == other.node && unwind_table == other.unwind_table;
  }
};

// The mark of the module of `address`; false when there is none. Does not read the module itself, which another thread
// may be unloading. Thread-safe, async-signal-safe.
bool find_module_mark(std::uint64_t address, ModuleMark* mark);

// The address range [begin, end) of a module's segments. Returns false when it has none.
bool module_extent(const struct dl_phdr_info& module, std::uint64_t* begin, std::uint64_t* end);

// Calls visit(begin, end) for each writable segment of a module, in whole words and without the data that the loader
// makes read-only (RELRO: vtables, function slots), which is complete before the program runs.
template <typename Visit>
void for_each_data_range(const struct dl_phdr_info& module, Visit visit) {
  std::uint64_t relocated = 0, relocated_end = 0;
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module.dlpi_phdr[i];
    if (header.p_type != PT_GNU_RELRO) continue;
    relocated = module.dlpi_addr + header.p_vaddr;
    relocated_end = relocated + header.p_memsz;
  }
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module.dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    std::uint64_t begin = module.dlpi_addr + header.p_vaddr;
    std::uint64_t end = begin + header.p_memsz;
    if (relocated <= begin && relocated_end > begin) begin = relocated_end;
    begin = (begin + 7) & ~std::uint64_t{7};
    end &= ~std::uint64_t{7};
    if (begin < end) visit(begin, end);
  }
}

// The last module of the list at an earlier look. All zeros = never looked.
struct ModuleListEnd {
  std::uint64_t node;
  std::uint64_t bias;
};
// Whether a module was added to the program's namespace since the last call with this `end`, which is updated. May
// return true without need. Thread-safe, if no other thread uses `end`.
bool modules_were_added(ModuleListEnd* end);

// How walks take the loader's lock, from now on: see expect_unseen_unloadings() of loader_lock.h. take() tries, and
// returns false when another thread has the lock all the time; `*taken`: for release(), nullptr = nothing to release.
struct LockOfWalks {
  bool (*take)(void** taken);
  void (*release)(void* taken);
};
void set_lock_of_walks(const LockOfWalks* lock);

// How many calls of begin_unloading() there were. Thread-safe, async-signal-safe.
std::uint32_t unloadings_seen();

// Call around the real dlclose(). begin_unloading() waits for walks to end, and for each KeepsModules; a walk waits for
// the unloadings of other threads. Neither waits for ever. After 0.1 s a walk reads the list by system calls, which
// fail where a plain read would crash, and leaves out the library of `handle`: a destructor in it may wait for this
// thread. After 2 s a dlclose() goes on: a thread may have left a walk by a jump. On a busy machine a thread that reads
// a library loses its processor for longer than the 10 ms that either waited before.
void begin_unloading(const void* handle);
void end_unloading(const void* handle);

// While it exists, a dlclose() that begins waits, 2 s at most: for reading a library, or for a few calls of it, that
// the program may close. Only on the tracker's own stack, where no handler can delay it. Not done: libraries were being
// closed for 0.1 s.
class KeepsModules {
 public:
  explicit KeepsModules(bool wanted = true);
  ~KeepsModules();
  KeepsModules(const KeepsModules&) = delete;
  KeepsModules& operator=(const KeepsModules&) = delete;
  bool done() const { return done_; }

 private:
  void go();

  bool done_ = false;
};

}  // namespace culprit
