// Which C++ runtime a caller of __cxa_throw and similar functions is bound to. A process can have several: libstdc++
// loaded RTLD_LOCAL into a Python interpreter, libc++abi beside libstdc++.
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

// Finds the functions that the program itself is bound to. Call once, at load.
void prepare_cxx_runtime();

const char* cxx_name(CxxFunction function);

// Whether `symbol` is a hooked function, and which; `hook` receives our hook.
bool find_cxx_hook(const char* symbol, CxxFunction* function, void** hook);

// After an attach, a module's bindings can be read from the slots that the loader filled: calls from [begin, end) lead
// to `target`. One caller at a time.
void remember_binding(CxxFunction function, std::uint64_t begin, std::uint64_t end, void* target);

// The function that `caller`'s module would call without this library; if there is none, a function that ends the
// program. Never takes the loader's lock. Thread-safe.
void* cxx_function(CxxFunction function, const void* caller);

}  // namespace culprit
