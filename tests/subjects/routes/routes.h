// The routes subject: creates one resource of each kind through driver functions that it looks up on a given route.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace routes {

// Thrown for a call that this driver, device or sandbox does not support: the row is skipped, not failed.
struct Unsupported {
  const char* call;
  int code;
};

// The driver's functions, each looked up on one route when it is called. Built with ROUTES_LINKED the route "linked"
// calls the symbols that the program is linked with.
class Driver {
 public:
  // `route` is a name of the table in lookup.cpp; any other name ends the program.
  explicit Driver(const char* route);

  // cuda.FUNCTION(cuMemAlloc_v2)(&pointer, 1) calls the function with this ELF symbol. Throws Unsupported when the
  // route does not lead to it.
  template <typename Function>
  Function get(const char* symbol, Function linked) const {
    return is_linked_ ? linked : reinterpret_cast<Function>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  bool is_linked_ = false;
  const struct Route* route_ = nullptr;
};

#ifdef ROUTES_LINKED
#define FUNCTION(symbol) get<decltype(&::symbol)>(#symbol, &::symbol)
#else
#define FUNCTION(symbol) get<decltype(&::symbol)>(#symbol, nullptr)
#endif

// True when the program runs on a real driver (CULPRIT_TEST_GPU=1): for the few calls that must not be tried there.
inline bool on_gpu() {
  const char* value = std::getenv("CULPRIT_TEST_GPU");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

// Throws Unsupported unless `call` succeeds.
#define TRY(call)                                                               \
  do {                                                                          \
    const int try_code = static_cast<int>(call);                                \
    if (try_code != CUDA_SUCCESS) throw ::routes::Unsupported{#call, try_code}; \
  } while (0)

// Each creates one resource, with everything that it needs. With `leak` exactly the named resource is left, else
// nothing. Returns the bytes that a report should show.
#define KIND(name, kind, call) std::size_t make_##name(const Driver& cuda, bool leak);
#include "tests/subjects/routes/kinds.def"

}  // namespace routes
