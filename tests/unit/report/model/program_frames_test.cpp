// The frame of a stack that the reader can change.
#include "report/model/program_frames.h"

#include "report/model/frames.h"
#include "tests/catch.h"

using namespace culprit::report;

namespace {

Frame python_frame(const char* function, const char* file) {
  Frame frame;
  frame.function = function;
  frame.file = file;
  frame.line = 6;
  frame.python = true;
  return frame;
}

}  // namespace

TEST_CASE("the frame to change is the innermost Python frame outside of installed packages", "[report][frames]") {
  const Frame installed = python_frame("_to", "/opt/venv/lib/python3.12/site-packages/torch/_utils.py");
  const Frame library = python_frame("run_path", "/usr/lib/python3.12/runpy.py");
  const Frame own = python_frame("<module>", "/home/me/train.py");
  const Frame outer = python_frame("<module>", "/home/me/main.py");
  ResolvedStack stack;
  stack.has_python = true;
  stack.frames = {&installed, &library, &own, &outer};
  CHECK(naming_frame(stack) == &installed);
  CHECK(changeable_frame(stack) == &own);
  stack.frames = {&installed, &library};
  CHECK(changeable_frame(stack) == &installed);
  stack.frames = {};
  CHECK(changeable_frame(stack) == nullptr);
}
