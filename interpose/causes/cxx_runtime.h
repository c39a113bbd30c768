// Which C++ runtime a caller of __cxa_throw and its like is bound to. A process can have several: libstdc++ loaded
// locally by a Python interpreter that does not use it, libc++abi beside libstdc++.
#pragma once

#include <cstdint>

namespace culprit {

// The order is that of kNames in cxx_runtime.cpp.
enum class CxxFunction : int {
  kThrow,
  kRethrow,
  kBeginCatch,
  kRethrowException,
  kRaise,       // _Unwind_RaiseException
  kGetGlobals,  // __cxa_get_globals: not hooked
  kCount,
};

// Finds what the program itself is bound to. Call once, at load.
void prepare_cxx_runtime();

// Whether `symbol` is one of those that are hooked, and which; `hook` receives ours.
bool find_cxx_hook(const char* symbol, CxxFunction* function, void** hook);

// In a process that ran before, what a module is bound to can be read where the loader has put it: calls from
// [begin, end) lead to `target`. One caller at a time.
void remember_binding(CxxFunction function, std::uint64_t begin, std::uint64_t end, void* target);

// The function that `caller`'s module would call without us. A function that ends the program when there is none.
// Never takes the loader's lock. Thread-safe.
void* cxx_function(CxxFunction function, const void* caller);

}  // namespace culprit
