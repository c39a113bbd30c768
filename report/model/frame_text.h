// A frame as words.
#pragma once

#include <string>

namespace culprit::report {

struct Frame;

// "solver.cu:31", "libthird.so", or "" when nothing is known.
std::string frame_place(const Frame& frame);
// "Solver::step", "third_solve+0x4c", "libthird.so+0x11f0", "0x7f12ab".
std::string frame_function(const Frame& frame);

// Place and function, "solver.cu:33  solve"; the function alone without line information.
std::string frame_text(const Frame& frame);

}  // namespace culprit::report
