// Rules that tell the code of libraries and of start-up from the program's own.
#pragma once

#include <string_view>

#include "report/model/frames.h"

namespace culprit::report {

// Whether the name of the frame's module begins with `prefix`.
bool in_module(const Frame& frame, std::string_view prefix);
bool is_own(const Frame& frame);  // libculprit.so, libculprit_kokkos.so
// A function of NVTX's or culprit's header, compiled into the program, by which it announces a region.
bool announces_region(const Frame& frame);
bool is_libc(const Frame& frame);
bool is_startup(const Frame& frame);
// A public function of the CUDA runtime.
bool names_runtime_api(const Frame& frame);
bool is_runtime_helper(const Frame& frame);
bool is_runtime_part(const Frame& frame);
bool is_python(const Frame& frame);

// The name of the library whose glue code the frame is in: code between the caller and the function that it meant to
// call (pybind11, std::invoke, Boost.Python, the dispatcher of libtorch, ...). nullptr for all other code.
const char* plumbing_name(const Frame& frame);
// Whether that library binds native code to Python.
bool is_binding_glue(const Frame& frame);

// Whether the frame is in code below or around the user's: this tool, the CUDA runtime, libc, the C++ runtime, start-up
// code, a Python interpreter.
bool is_system_code(const Frame& frame);

}  // namespace culprit::report
