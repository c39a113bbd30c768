// Which frames are shown, and which runtime call is named.
#include "report/model/stacks.h"
#include "interpose/format/python_versions.h"
#include "report/causes/event.h"
#include "report/causes/library_rules.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using culprit::test::DumpBuilder;
using culprit::test::FakeSymbols;

namespace {

// Resolves one stack of named frames, innermost first: "module!function", with a source line when it ends in '@';
// "module!~x" is only near x.
class OneStack {
 public:
  explicit OneStack(const std::vector<std::string>& frames, bool full = false) {
    std::vector<std::uint64_t> addresses;
    std::uint64_t offset = 0x1000;
    for (std::string text : frames) {
      const bool has_source = text.back() == '@';
      if (has_source) text.pop_back();
      const std::size_t bang = text.find('!');
      const std::string module = "/lib/" + text.substr(0, bang);
      CodeLocation location;
      location.function = text.substr(bang + 1);
      location.approximate = location.function[0] == '~';
      if (location.approximate) location.function.erase(0, 1);
      if (has_source) location.file = "/src/a.cpp";
      if (modules_.count(module) == 0) modules_[module] = builder_.add_module(module);
      symbols_.add(module, offset, location);
      addresses.push_back(DumpBuilder::frame(modules_[module], offset));
      offset += 0x100;
    }
    const culprit::format::Ref ref = builder_.add_stack(addresses);
    dump_ = std::make_unique<Dump>(Dump::from_bytes(builder_.bytes().data(), builder_.bytes().size(), "test"));
    resolver_ = std::make_unique<StackResolver>(*dump_, symbols_.lookup(), full);
    resolver_->resolve({ref});
    stack_ = &resolver_->stack(ref);
  }
  const ResolvedStack& operator*() const { return *stack_; }
  const ResolvedStack* operator->() const { return stack_; }
  std::string shown() const {
    std::string text;
    for (const Frame* frame : stack_->frames) text += (text.empty() ? "" : " ") + frame->function;
    return text;
  }

 private:
  DumpBuilder builder_;
  FakeSymbols symbols_;
  std::map<std::string, std::uint32_t> modules_;
  std::unique_ptr<Dump> dump_;
  std::unique_ptr<StackResolver> resolver_;
  const ResolvedStack* stack_;
};

}  // namespace

TEST_CASE("the shared runtime's frames become the name of its call", "[report][stacks]") {
  const OneStack stack({"libcudart.so.13!~cudaFree", "libcudart.so.13!cudaMalloc", "app!make@", "app!main@",
                        "libc.so.6!__libc_start_call_main@", "libc.so.6!__libc_start_main_impl@", "app!_start"});
  CHECK(stack->runtime_api == "cudaMalloc");
  CHECK(stack->through_runtime);
  CHECK(stack.shown() == "make main");
  CHECK(stack->caller->function == "make");
}

TEST_CASE("of two runtime calls the outer one is the user's", "[report][stacks]") {
  const OneStack stack(
      {"libcudart.so.12!cudaHostAlloc", "libcudart.so.12!~x", "libcudart.so.12!cudaMallocHost", "app!main@"});
  CHECK(stack->runtime_api == "cudaMallocHost");
  CHECK(stack.shown() == "main");
}

TEST_CASE("the static runtime is found inside the program", "[report][stacks]") {
  const OneStack stack({"app!libcudart_static_0123abcd", "app!libcudart_static_4567ef01", "app!cudaMalloc",
                        "app!cudaMalloc<float>@", "app!make@", "app!main@"});
  CHECK(stack->runtime_api == "cudaMalloc");
  CHECK(stack.shown() == "make main");
}

TEST_CASE("a stripped static runtime leaves the driver's name", "[report][stacks]") {
  const OneStack stack({"app!~main", "app!~main", "app!main"});
  CHECK(stack->runtime_api.empty());
  CHECK_FALSE(stack->through_runtime);
  CHECK(stack->frames.size() == 3);
}

TEST_CASE("a driver call has no runtime call, whatever is further out", "[report][stacks]") {
  const OneStack stack({"libuser.so!my_alloc@", "libcudart.so.13!cudaLaunchKernel", "app!main@"});
  CHECK(stack->runtime_api.empty());
  CHECK(stack.shown() == "my_alloc cudaLaunchKernel main");
}

TEST_CASE("a nearest symbol is no runtime call", "[report][stacks]") {
  const OneStack stack({"libcudart.so.13!~cudaMalloc", "app!main@"});
  CHECK(stack->runtime_api.empty());
  CHECK(stack->through_runtime);
  CHECK(stack.shown() == "main");
}

TEST_CASE("our own and start-up frames are hidden, but not with --full-stacks", "[report][stacks]") {
  const std::vector<std::string> frames = {"libculprit.so!cuMemAlloc_v2", "app!work@", "app!thread_main@",
                                           "libc.so.6!~pthread_create", "libc.so.6!~pthread_create"};
  CHECK(OneStack(frames).shown() == "work thread_main");
  CHECK(OneStack(frames, true)->frames.size() == 5);
}

TEST_CASE("the start of a stripped program is hidden too", "[report][stacks]") {
  const OneStack stack({"app!~main", "app!~main", "libc.so.6!~on_exit", "libc.so.6!__libc_start_main", "app!~main"});
  CHECK(stack->frames.size() == 2);
  // A program frame below a libc frame that is not start-up belongs to the program.
  CHECK(OneStack({"app!compare", "libc.so.6!qsort", "app!~main"})->frames.size() == 3);
}

TEST_CASE("exit stays visible between an exit handler and start-up", "[report][stacks]") {
  const OneStack stack(
      {"app!at_exit@", "libc.so.6!~on_exit", "libc.so.6!exit", "libc.so.6!~__libc_init_first", "app!_start"});
  CHECK(stack.shown() == "at_exit on_exit exit");
}

TEST_CASE("memory that libraries allocate for themselves is theirs", "[report][stacks]") {
  CHECK(owning_library(*OneStack({"libcublas.so.13!~cublasGetVersion", "app!main@"})) == "cuBLAS");
  CHECK(owning_library(*OneStack({"libcudart.so.13!cudaMalloc", "libnccl.so.2!~ncclSend", "app!main@"})) == "NCCL");
  // A static cuBLAS, known by its public function.
  CHECK(owning_library(*OneStack({"app!cudaMalloc", "app!x", "app!cublasCreate_v2", "app!main@"})) == "cuBLAS");
  // The program's own function with such a name has source lines.
  CHECK(owning_library(*OneStack({"app!cudaMalloc", "app!cublasWrapper@", "app!main@"})).empty());
  CHECK(owning_library(*OneStack({"libcudart.so.13!cudaMalloc", "libthird.so!third_solve", "app!main@"})).empty());
  // A buffer that the program passed on through cuBLAS's callback is the program's.
  CHECK(owning_library(*OneStack({"app!callback@", "libcublas.so.13!~x", "app!main@"})).empty());
}

TEST_CASE("frames of no known module keep their address", "[report][stacks]") {
  DumpBuilder builder;
  const culprit::format::Ref ref = builder.add_stack({0x7f0011223344, DumpBuilder::frame(500, 0x10)});
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "test");
  FakeSymbols symbols;
  StackResolver resolver(dump, symbols.lookup(), false);
  resolver.resolve({ref});
  REQUIRE(resolver.stack(ref).frames.size() == 2);
  CHECK(resolver.stack(ref).frames[0]->module == nullptr);
  CHECK(resolver.stack(ref).frames[0]->offset == 0x7f0011223343);
}

TEST_CASE("a changed or missing file is named once", "[report][stacks]") {
  DumpBuilder builder;
  const std::uint32_t first = builder.add_module("/lib/libfoo.so", {1, 2});
  const std::uint32_t again = builder.add_module("/lib/libfoo.so", {1, 2});
  const culprit::format::Ref ref =
      builder.add_stack({DumpBuilder::frame(first, 0x10), DumpBuilder::frame(again, 0x20)});
  FakeSymbols symbols;
  symbols.set_state("/lib/libfoo.so", ModuleState::kChanged);
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "test");
  StackResolver resolver(dump, symbols.lookup(), false);
  resolver.resolve({ref});
  REQUIRE(resolver.notes().size() == 1);
  CHECK(resolver.notes()[0].find("/lib/libfoo.so is not the file that ran") == 0);
}

TEST_CASE("Python frames stand between native ones and hide the interpreter's", "[report][stacks]") {
  DumpBuilder builder;
  FakeSymbols symbols;
  auto native = [&](const std::string& path, const std::string& function, std::uint64_t offset) {
    CodeLocation location;
    location.function = function;
    symbols.add(path, offset, location);
    return DumpBuilder::frame(builder.add_module(path), offset);
  };
  const std::uint64_t step = DumpBuilder::python_frame(builder.add_python_frame("/a/train.py", "Trainer.step", 41));
  const std::uint64_t module = DumpBuilder::python_frame(builder.add_python_frame("/a/train.py", "<module>", 50));
  const culprit::format::Ref ref = builder.add_stack(
      {native("/lib/libsolver.so", "solve", 0x100), step, module,
       native("/lib/libpython3.12.so.1.0", "_PyEval_EvalFrameDefault", 0x200), native("/bin/app", "main", 0x300)});
  const culprit::format::Ref wild =
      builder.add_stack({DumpBuilder::python_frame(0x7ffffff), DumpBuilder::python_frame(0)});
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "test");
  StackResolver resolver(dump, symbols.lookup(), false);
  resolver.resolve({ref, wild});
  const ResolvedStack& stack = resolver.stack(ref);
  REQUIRE(stack.frames.size() == 4);
  CHECK(stack.has_python);
  CHECK(stack.frames[0]->function == "solve");
  CHECK_FALSE(stack.frames[0]->python);
  CHECK(stack.frames[1]->function == "Trainer.step");
  CHECK(stack.frames[1]->file == "/a/train.py");
  CHECK(stack.frames[1]->line == 41);
  CHECK(stack.frames[1]->python);
  CHECK(stack.frames[1]->module == nullptr);
  CHECK(stack.frames[2]->function == "<module>");
  CHECK(stack.frames[3]->function == "main");
  // Evidence counts native frames only.
  CHECK(resolver.frame_from_outermost(ref, 1)->function == "main");
  CHECK(resolver.frame_from_outermost(ref, 2)->function == "_PyEval_EvalFrameDefault");
  CHECK(resolver.frame_from_outermost(ref, 3)->function == "solve");
  CHECK(resolver.frame_from_outermost(ref, 4) == nullptr);
  // Records that are not there.
  REQUIRE(resolver.stack(wild).frames.size() == 2);
  CHECK(resolver.stack(wild).frames[0]->function.empty());

  StackResolver full(dump, symbols.lookup(), true);
  full.resolve({ref});
  CHECK(full.stack(ref).frames.size() == 5);
}

TEST_CASE("a Python whose frames cannot be read is mentioned once", "[report][stacks]") {
  auto notes = [](culprit::format::PythonState state, std::uint32_t version) {
    culprit::test::Program program;
    program.dump.header().python_state = state;
    program.dump.header().python_version = version;
    return program.report().notes;
  };
  using Notes = std::vector<std::string>;
  const std::string read =
      std::string("no Python lines: culprit reads the frames of Python ") + culprit::format::kPythonVersions;
  CHECK(notes(culprit::format::PythonState::kUnknownVersion, 0x03ff00f0) == Notes{read + ", not of Python 3.255"});
  CHECK(notes(culprit::format::PythonState::kUnknownVersion, 0x030800f0) == Notes{read + ", not of Python 3.8"});
  CHECK(notes(culprit::format::PythonState::kUnknownVersion, 0) == Notes{read + ", not of this Python"});
  CHECK(notes(culprit::format::PythonState::kUnknownVersion, 0x030d00f0) ==
        Notes{"no Python lines: culprit reads the frames of usual builds of CPython; this Python 3.13 is another one"});
  CHECK(notes(culprit::format::PythonState::kFreeThreaded, 0x030e00f0) ==
        Notes{"no Python lines: culprit reads the frames of CPython with a GIL; this Python 3.14 is free-threaded"});
  CHECK(notes(culprit::format::PythonState::kDiffers, 0x030c00f0) ==
        Notes{"no Python lines: the interpreter does not keep its frames where a usual build of Python 3.12 does"});
  CHECK(notes(culprit::format::PythonState::kRead, 0x030c00f0).empty());
  CHECK(notes(culprit::format::PythonState::kNotChecked, 0x030c00f0).empty());
}

TEST_CASE("an event in Python is named by its Python line", "[report][stacks]") {
  DumpBuilder builder;
  FakeSymbols symbols;
  auto native = [&](const std::string& function, std::uint64_t offset, const std::string& file) {
    symbols.add("/lib/_driver.so", offset, function, file, 7);
    return DumpBuilder::frame(builder.add_module("/lib/_driver.so"), offset);
  };
  const std::uint64_t python = DumpBuilder::python_frame(builder.add_python_frame("/a/train.py", "worker", 41));
  const std::uint64_t without_line = native("context::detach", 0x100, "");
  const culprit::format::Ref library = builder.add_stack({without_line, python});
  const culprit::format::Ref own = builder.add_stack({native("my_extension", 0x200, "/a/extension.cpp"), python});
  const culprit::format::Ref no_python = builder.add_stack({without_line});
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "test");
  StackResolver resolver(dump, symbols.lookup(), false);
  resolver.resolve({library, own, no_python});
  CHECK(named_frame(resolver.stack(library))->function == "worker");
  CHECK(named_frame(resolver.stack(own))->function == "my_extension");
  CHECK(named_frame(resolver.stack(no_python))->function == "context::detach");
}
