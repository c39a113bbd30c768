// Which frames of a stack are the program's own: those that its id is made of, and that name it in titles, baselines
// and lists. They are the same whichever CPython, test runner, C library and CUDA runtime the program runs with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace culprit::report {

struct Frame;
struct ResolvedStack;

// False for this tool, the CUDA runtime, the C and C++ runtimes, start-up code; a Python interpreter with its standard
// library and the glue to native code (ctypes, libffi, pybind11, ...); test runners and notebooks; comprehensions,
// which have no frames from Python 3.12 on; and code outside of all modules.
bool is_program_frame(const Frame& frame);

// The program's frames, innermost first, inlined ones too. With hidden frames shown they are the same.
std::vector<const Frame*> program_frames(const ResolvedStack& stack);

// The frame that names a stack in one line: the innermost Python frame of the program, if there is one, else the
// innermost frame. nullptr: the stack is not recorded.
const Frame* naming_frame(const ResolvedStack& stack);

// The frame that the reader can change: the innermost Python frame outside of installed packages, if there is one, else
// naming_frame().
const Frame* changeable_frame(const ResolvedStack& stack);

// "libfoo.so" of "libfoo-1a2b3c4d.so.1.2" and "solver.so" of "solver.cpython-312-x86_64-linux-gnu.so": the name of a
// module without its version, the hash that wheels add, and the ABI of the interpreter.
std::string unversioned(std::string_view module);

// The library of a frame, for lists: the module's name. Of a Python frame the package, "torch", else the file,
// "train.py". "": not known.
std::string library_name(const Frame& frame);

}  // namespace culprit::report
