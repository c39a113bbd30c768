#include "report/model/frame_rules.h"

#include <set>
#include <string_view>

#include "report/base/words.h"
#include "report/cuda/cuda_names.h"
#include "report/cuda/library_names.h"

namespace culprit::report {
namespace {

// How the function's name begins, or the module's for a library that is nothing else; the name for readers; whether it
// binds native code to Python.
struct Plumbing {
  std::string_view function;
  std::string_view module;
  const char* name;
  bool binds_python = false;
};
constexpr Plumbing kPlumbing[] = {
    {"pybind11::", "", "pybind11", true},
    {"nanobind::", "", "nanobind", true},
    {"boost::python::", "", "boost::python", true},
    {"std::__invoke", "", "std::invoke"},
    {"std::invoke", "", "std::invoke"},
    {"std::__apply_impl", "", "std::apply"},
    {"std::apply", "", "std::apply"},
    {"std::_Function_handler", "", "std::function"},
    {"std::function<", "", "std::function"},
    {"std::_Bind", "", "std::bind"},
    {"std::thread::_Invoker", "", "std::thread"},
    {"std::thread::_State_impl", "", "std::thread"},
    {"c10::impl::wrap_kernel_functor", "", "libtorch's dispatcher"},
    {"c10::impl::make_boxed_from_unboxed_functor", "", "libtorch's dispatcher"},
    {"c10::impl::BoxedKernelWrapper", "", "libtorch's dispatcher"},
    {"c10::Dispatcher::", "", "libtorch's dispatcher"},
    {"c10::KernelFunction::", "", "libtorch's dispatcher"},
    {"c10::TypedOperatorHandle", "", "libtorch's dispatcher"},
    {"at::_ops::", "", "libtorch's dispatcher"},
    {"at::redispatch::", "", "libtorch's dispatcher"},
    {"at::(anonymous namespace)::(anonymous namespace)::wrapper_", "", "libtorch's dispatcher"},
    {"torch::autograd::VariableType::", "", "libtorch's dispatcher"},
    {"torch::autograd::TypeError_to_NotImplemented_", "", "libtorch's dispatcher"},
    {"__Pyx_", "", "Cython", true},
    {"", "libffi", "libffi", true},
    {"", "_ctypes.", "ctypes", true},
    {"", "_cffi_backend.", "cffi", true},
};

}  // namespace

bool in_module(const Frame& frame, std::string_view prefix) {
  return frame.module != nullptr && begins_with(frame.module->name, prefix);
}

bool is_own(const Frame& frame) {
  return in_module(frame, "libculprit.so") || in_module(frame, "libculprit_kokkos.so");
}

bool announces_region(const Frame& frame) {
  return !frame.approximate && (frame.function == "nvtxMemRegionsRegister" || frame.function == "culprit_region_add");
}

bool is_libc(const Frame& frame) {
  return in_module(frame, "libc.so") || in_module(frame, "libc-2") || in_module(frame, "libpthread") ||
         in_module(frame, "ld-linux") || in_module(frame, "ld-2") || in_module(frame, "libc.musl");
}

// Program and thread start-up. In a stripped libc these functions are local and nameless; the nearest symbol would
// mislead.
bool is_startup(const Frame& frame) {
  static const std::set<std::string_view> kNames = {"_start",
                                                    "__libc_start_main",
                                                    "__libc_start_main_impl",
                                                    "__libc_start_call_main",
                                                    "start_thread",
                                                    "clone",
                                                    "clone3",
                                                    "__clone",
                                                    "__clone3",
                                                    "__GI___clone",
                                                    "_dl_start_user"};
  if (kNames.count(frame.function) != 0 && !frame.approximate) return true;
  // std::thread starts its function from a local function of libstdc++.
  if (in_module(frame, "libstdc++.so") && frame.function == "execute_native_thread_routine") return true;
  const bool start_library = is_libc(frame) || in_module(frame, "libstdc++.so");
  return start_library && (frame.approximate || frame.function.empty());
}

bool names_runtime_api(const Frame& frame) { return !frame.approximate && is_runtime_api(frame.function); }

// Public functions that only nvcc's generated code calls.
bool is_runtime_helper(const Frame& frame) { return !frame.approximate && begins_with(frame.function, "__cuda"); }

// Internal functions of NVIDIA's static runtime.
bool is_runtime_part(const Frame& frame) { return begins_with(frame.function, "libcudart_static_"); }

// CPython's evaluation loop, which runs any Python code.
bool is_python(const Frame& frame) {
  return in_module(frame, "libpython") || (in_module(frame, "python") && frame.module->executable);
}

namespace {

const Plumbing* plumbing_of(const Frame& frame) {
  if (frame.python) return nullptr;
  // A template's name may have the type of its result before it: "void std::__invoke_impl<...>".
  std::string_view function = frame.approximate ? std::string_view() : frame.function;
  const std::size_t space = function.find(' ');
  const std::size_t bracket = function.find_first_of("<(");
  if (space != std::string_view::npos && space < bracket) function.remove_prefix(space + 1);
  for (const Plumbing& row : kPlumbing) {
    if (row.module.empty() ? begins_with(function, row.function) : in_module(frame, row.module)) return &row;
  }
  return nullptr;
}

}  // namespace

const char* plumbing_name(const Frame& frame) {
  const Plumbing* row = plumbing_of(frame);
  return row != nullptr ? row->name : nullptr;
}

bool is_binding_glue(const Frame& frame) {
  const Plumbing* row = plumbing_of(frame);
  return row != nullptr && row->binds_python;
}

bool is_system_code(const Frame& frame) {
  if (frame.python) return false;
  return frame.module == nullptr || is_own(frame) || is_libc(frame) || is_startup(frame) || is_python(frame) ||
         in_module(frame, kRuntimeLibrary) || names_runtime_api(frame) || is_runtime_helper(frame) ||
         is_runtime_part(frame) || in_module(frame, "libstdc++.so") || in_module(frame, "libc++") ||
         in_module(frame, "libgcc_s.so");
}

}  // namespace culprit::report
