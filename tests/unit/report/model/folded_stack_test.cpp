// Which frames a stack shows by default, and what stands for the others.
#include "report/model/folded_stack.h"

#include <deque>
#include <sstream>

#include "report/model/frame_rules.h"
#include "report/model/frames.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::has;

namespace {

// Frames by name: "module!function", with a source line when it ends in '@'; without '!' a Python frame.
class Stack {
 public:
  explicit Stack(const std::vector<std::string>& texts) {
    for (std::string text : texts) {
      Frame& frame = frames_.emplace_back();
      const std::size_t bang = text.find('!');
      frame.python = bang == std::string::npos;
      if (text.back() == '@' || frame.python) frame.file = frame.python ? "/src/train.py" : "/src/app.cpp";
      if (text.back() == '@') text.pop_back();
      frame.function = frame.python ? text : text.substr(bang + 1);
      frame.line = 7;
      if (frame.python) continue;
      Module& module = modules_.emplace_back();
      module.name = text.substr(0, bang);
      module.path = "/lib/" + module.name;
      frame.module = &module;
    }
    for (const Frame& frame : frames_) all_.push_back(&frame);
  }
  const std::vector<const Frame*>& frames() const { return all_; }

 private:
  std::deque<Module> modules_;
  std::deque<Frame> frames_;
  std::vector<const Frame*> all_;
};

std::string names(const std::vector<const Frame*>& frames) {
  std::string text;
  for (const Frame* frame : frames) text += (text.empty() ? "" : " ") + frame->function;
  return text;
}

std::string text_of(const Stack& stack, const RenderOptions& options = {}) {
  const Palette palette(false);
  std::ostringstream out;
  TextFields(palette, options, out).mixed_stack("allocated", stack.frames());
  return out.str();
}

}  // namespace

TEST_CASE("beside Python's frames the native ones without source lines are one line", "[report][stacks]") {
  const Stack stack({"libcublas.so.13!inner", "libtorch_cpu.so!at::_ops::mm::call", "libtorch_python.so!wrap",
                     "my_extension.so!fill@", "_ctypes.cpython-312-x86_64-linux-gnu.so!", "step", "train"});
  const FoldedStack shown = folded(stack.frames(), false);
  CHECK(names(shown.python) == "step train");
  CHECK(names(shown.native) == "fill");
  CHECK(shown.folded == 4);
  CHECK(shown.folded_of == "libcublas, libtorch's dispatcher, libtorch_python, ctypes");
  CHECK(text_of(stack) ==
        "   allocated  train.py:7  step\n"
        "              train.py:7  train\n"
        "   native     app.cpp:7  fill\n"
        "              and 4 frames of libcublas, libtorch's dispatcher, libtorch_python, ctypes (--full-stacks)\n");
  RenderOptions everything;
  everything.full_stacks = true;
  CHECK_FALSE(has(text_of(stack, everything), "--full-stacks"));
  CHECK(has(text_of(stack, everything), "libcublas.so.13"));
}

TEST_CASE("Python's frames alone have one line for the native ones", "[report][stacks]") {
  CHECK(text_of(Stack({"a.so!x", "b.so!y", "step"})) ==
        "   allocated  train.py:7  step\n"
        "   native     2 frames of a, b (--full-stacks)\n");
  CHECK(text_of(Stack({"step"})) == "   allocated  train.py:7  step\n");
  CHECK(has(text_of(Stack({"a.so!", "b.so!", "c.so!", "d.so!", "e.so!", "step"})), "5 frames of a, b, c, d, ... ("));
}

TEST_CASE("glue code of libraries is folded in native stacks", "[report][stacks]") {
  for (const char* glue :
       {"pybind11::cpp_function::dispatcher", "void std::__invoke_impl<void, int (*)(int)>", "std::invoke<int>",
        "std::_Function_handler<void ()>::_M_invoke", "boost::python::objects::function::call",
        "c10::impl::wrap_kernel_functor_unboxed_<x>::call", "c10::Dispatcher::callBoxed", "at::_ops::mm::redispatch",
        "std::thread::_Invoker<std::tuple<int> >::operator()", "nanobind::detail::nb_func_vectorcall_complex"}) {
    INFO(glue);
    const Stack stack({"app!make@", std::string("app!") + glue + "@", "app!main@"});
    const FoldedStack shown = folded(stack.frames(), false);
    CHECK(names(shown.native) == "make main");
    CHECK(shown.folded == 1);
    CHECK(folded(stack.frames(), true).folded == 0);
    // A stack of glue code alone is shown.
    CHECK(folded(Stack({std::string("app!") + glue}).frames(), false).folded == 0);
  }
  for (const char* own : {"invoke_all", "my::std::invoke", "at::_opsy", "call<pybind11::object>"})
    CHECK(folded(Stack({std::string("app!") + own, "app!main"}).frames(), false).folded == 0);
}

TEST_CASE("frames are cut to the terminal's width", "[report][stacks]") {
  const Stack stack({"app!" + std::string(300, 'x') + "@"});
  RenderOptions options;
  options.columns = 60;
  CHECK(text_of(stack, options) == "   allocated  app.cpp:7  " + std::string(32, 'x') + "...\n");
  options.columns = 10;  // too narrow for anything
  CHECK(text_of(stack, options) == "   allocated  app.cpp:7  " + std::string(17, 'x') + "...\n");
  options.columns = 0;  // a file
  CHECK(has(text_of(stack, options), std::string(300, 'x')));
}
