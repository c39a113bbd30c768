// The routes subject: creates one resource of each kind through driver functions that it looked up on a given route.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace routes {

// The driver's functions under their ELF names, as one route found them.
struct Driver {
#define DRIVER(name, symbol, since, until) decltype(&::symbol) symbol = nullptr;
#include "tests/subjects/routes/driver_functions.def"
};

// Looks every function up on the route named (lookup.cpp lists them); ends the program when one cannot be found.
Driver find_driver(const char* route);

// Thrown for a call that this driver, device or sandbox does not support: the row is skipped, not failed.
struct Unsupported {
  const char* call;
  int code;
};

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

// Creates one resource, with everything that it needs, in a function of its own named make_<name>. With `leak` exactly
// the named resource is left, else nothing. Returns the bytes that a report should show.
struct Kind {
  const char* name;
  std::size_t (*make)(const Driver& cuda, bool leak);
};

std::vector<Kind> memory_kinds();
std::vector<Kind> vmm_kinds();
std::vector<Kind> graph_kinds();
std::vector<Kind> object_kinds();

}  // namespace routes
