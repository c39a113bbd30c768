#include "interpose/causes/cxx_runtime.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/placement.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/stacks/call_site_cache.h"
#include "interpose/system/own_stack.h"

namespace culprit {
namespace {

constexpr int kFunctions = static_cast<int>(CxxFunction::kCount);
constexpr const char* kNames[kFunctions] = {"__cxa_throw",
                                            "__cxa_rethrow",
                                            "__cxa_begin_catch",
                                            "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
                                            "_Unwind_RaiseException",
                                            "__cxa_get_globals"};

extern "C" {
void __cxa_throw(void*, void*, void (*)(void*));
void __cxa_rethrow();
void* __cxa_begin_catch(void*);
void _ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE(void*);
int _Unwind_RaiseException(void*);
}
void* const kHooks[] = {reinterpret_cast<void*>(&__cxa_throw), reinterpret_cast<void*>(&__cxa_rethrow),
                        reinterpret_cast<void*>(&__cxa_begin_catch),
                        reinterpret_cast<void*>(&_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE),
                        reinterpret_cast<void*>(&_Unwind_RaiseException)};

// Functions in the global scope (loaded with the program) come first for every module; these modules cannot be
// unloaded.
std::atomic<void*> of_program[kFunctions];
CULPRIT_AT_LOAD std::atomic<bool> prepared;

// No lambda: as part of a template it would lie apart from the code of loading.
CULPRIT_LOADING bool find_functions(const ElfModule& module, const struct dl_phdr_info& info, void* past_us) {
  const bool ours = is_own_module(module);
  bool& past = *static_cast<bool*>(past_us);
  past = past || ours;
  // Only modules after us: one before us forwards to us, as a sanitizer's runtime does.
  if (ours || !past || is_libc(info, module)) return false;
  for (int i = 0; i < kFunctions; ++i) {
    if (of_program[i].load(std::memory_order_relaxed) != nullptr) continue;
    std::uint64_t address = find_symbol(module, kNames[i]);
    if (address != 0) of_program[i].store(reinterpret_cast<void*>(address), std::memory_order_relaxed);
  }
  return false;
}

// Finds the definition in a module's DT_NEEDED libraries, their DT_NEEDED libraries, and so on, in load order, which is
// close to the loader's breadth-first order. If they have none, in the module itself (an exported static runtime).
struct Tree {
  static constexpr int kMost = 512;
  const char* name;
  std::uint64_t caller;
  const char* needed[kMost];  // names of the libraries found so far
  int count;
  int looked_up;
  std::uint64_t in_caller;
  std::uint64_t found;
  std::uint64_t first;  // in any module

  void add_needed(const ElfModule& module) {
    for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag != DT_NEEDED || count == kMost) continue;
      const char* library = module.strings + entry->d_un.d_val;
      bool known = false;
      for (int i = 0; i < count && !known; ++i) known = std::strcmp(needed[i], library) == 0;
      if (!known) needed[count++] = library;
    }
  }

  void look_for_caller(const ElfModule& module) {
    std::uint64_t address = find_symbol(module, name);
    if (first == 0) first = address;
    if (!module.contains(caller)) return;
    in_caller = address;
    add_needed(module);
  }

  // Whether it is the library that is looked up now.
  bool look_in_needed(const ElfModule& module) {
    if (is_own_module(module) || module.soname == nullptr || std::strcmp(module.soname, needed[looked_up]) != 0)
      return false;
    found = find_symbol(module, name);
    add_needed(module);
    return true;
  }
};

// Called for a throw in a process without a C++ runtime.
void no_runtime() {
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGABRT);
  _exit(127);
}

// The bindings of modules, found by an attach. Entries are never removed: the entry of an unloaded module covers
// addresses without calls.
struct Binding {
  std::uint64_t begin;
  std::uint64_t end;
  std::atomic<void*> targets[kFunctions];  // nullptr = not known
};
constexpr std::uint32_t kMostBindings = 1024;
Binding bindings[kMostBindings];
std::atomic<std::uint32_t> binding_count;

void* find_binding(CxxFunction function, std::uint64_t caller) {
  const std::uint32_t count = binding_count.load(std::memory_order_acquire);
  // The newest first: it may cover the addresses of an unloaded module.
  for (std::uint32_t i = count; i-- > 0;) {
    if (caller >= bindings[i].begin && caller < bindings[i].end)
      return bindings[i].targets[static_cast<int>(function)].load(std::memory_order_relaxed);
  }
  return nullptr;
}

void* search_for(CxxFunction function, const void* caller) {
  void* bound = find_binding(function, reinterpret_cast<std::uint64_t>(caller));
  if (bound != nullptr) return bound;
  Tree tree;
  tree.name = kNames[static_cast<int>(function)];
  tree.caller = reinterpret_cast<std::uint64_t>(caller);
  tree.count = tree.looked_up = 0;
  tree.in_caller = tree.found = tree.first = 0;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (!is_own_module(module)) tree.look_for_caller(module);
    return false;
  });
  for (; tree.looked_up < tree.count && tree.found == 0; ++tree.looked_up)
    any_module([&](const ElfModule& module, const struct dl_phdr_info&) { return tree.look_in_needed(module); });
  std::uint64_t address = tree.found != 0 ? tree.found : tree.in_caller != 0 ? tree.in_caller : tree.first;
  return address != 0 ? reinterpret_cast<void*>(address) : reinterpret_cast<void*>(&no_runtime);
}

void* find_for(CxxFunction function, const void* caller) {
  void* found = on_own_stack([&] { return search_for(function, caller); });
  return found != nullptr ? found : search_for(function, caller);  // without memory for that stack
}

CallSiteCache known;

}  // namespace

CULPRIT_LOADING void prepare_cxx_runtime() {
  if (prepared.load(std::memory_order_acquire)) return;
  // After an attach it is unknown which modules were loaded with the program.
  bool past_us = false;
  if (!loaded_late()) visit_described(find_functions, &past_us);
  prepared.store(true, std::memory_order_release);
}

const char* cxx_name(CxxFunction function) { return kNames[static_cast<int>(function)]; }

bool find_cxx_hook(const char* symbol, CxxFunction* function, void** hook) {
  for (std::size_t i = 0; i < sizeof(kHooks) / sizeof(kHooks[0]); ++i) {
    if (!is_name(kNames[i], symbol)) continue;
    *function = static_cast<CxxFunction>(i);
    *hook = kHooks[i];
    return true;
  }
  return false;
}

void remember_binding(CxxFunction function, std::uint64_t begin, std::uint64_t end, void* target) {
  const std::uint32_t count = binding_count.load(std::memory_order_relaxed);
  std::uint32_t at = 0;
  while (at < count && (bindings[at].begin != begin || bindings[at].end != end)) ++at;
  if (at == kMostBindings) return;
  bindings[at].begin = begin;
  bindings[at].end = end;
  bindings[at].targets[static_cast<int>(function)].store(target, std::memory_order_relaxed);
  if (at == count) binding_count.store(count + 1, std::memory_order_release);
}

void* cxx_function(CxxFunction function, const void* caller) {
  // The throw is in a constructor that runs before ours.
  if (!prepared.load(std::memory_order_acquire)) prepare_cxx_runtime();
  void* target = of_program[static_cast<int>(function)].load(std::memory_order_relaxed);
  if (target != nullptr) return target;
  return known.target(static_cast<std::uint64_t>(function), caller, [&] { return find_for(function, caller); });
}

}  // namespace culprit
