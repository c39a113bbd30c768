// The id of a leak is a function of the leak alone: which differences between two runs leave it as it is.
#include <initializer_list>
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/unit/report/judge/cause_program.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// A dump with one leak, whose frames are added innermost first.
class OneLeak {
 public:
  OneLeak& native(const std::string& path, const std::string& function, const std::string& inlined = "") {
    at_ += 0x1000;
    if (!inlined.empty()) symbols_.add(path, at_, located(inlined, true));
    symbols_.add(path, at_, located(function, false));
    frames_.push_back(DumpBuilder::frame(module(path), at_));
    return *this;
  }
  // A frame of which the symbol table names only a function before it.
  OneLeak& stripped(const std::string& path, const std::string& nearest) {
    at_ += 0x1000;
    CodeLocation location = located(nearest, false);
    location.file.clear();
    location.approximate = true;
    symbols_.add(path, at_, location);
    frames_.push_back(DumpBuilder::frame(module(path), at_));
    return *this;
  }
  OneLeak& python(const std::string& file, const std::string& function, std::uint32_t line = 7) {
    frames_.push_back(DumpBuilder::python_frame(dump_.add_python_frame(file, function, line)));
    return *this;
  }
  Report report(bool full_stacks = false) {
    AllocationRecord record = live_allocation(dump_.add_stack(frames_), 64);
    record.api = dump_.add_api("cuMemAlloc_v2");
    dump_.add_allocation(record);
    LoadOptions options;
    options.full_stacks = full_stacks;
    return report_of(dump_, symbols_, options);
  }
  std::string id(bool full_stacks = false) { return report(full_stacks).leaks.at(0).id; }

 private:
  static CodeLocation located(const std::string& function, bool inlined) {
    CodeLocation location;
    location.function = function;
    location.file = "/src/x.cu";
    location.line = 7;
    location.inlined = inlined;
    return location;
  }
  std::uint32_t module(const std::string& path) {
    const auto [at, added] = modules_.try_emplace(path, 0);
    const bool program = path.find(".so") == std::string::npos;
    if (added) at->second = dump_.add_module(path, {}, program ? static_cast<std::uint32_t>(kModuleExecutable) : 0);
    return at->second;
  }

  DumpBuilder dump_;
  FakeSymbols symbols_;
  std::map<std::string, std::uint32_t> modules_;
  std::vector<std::uint64_t> frames_;
  std::uint64_t at_ = 0;
};

// step() of train.py, called from main() there, allocates through ctypes; below pytest where `tested`.
OneLeak ctypes_leak(int minor, bool tested) {
  const std::string version = "3." + std::to_string(minor);
  const std::string abi = "3" + std::to_string(minor);
  const std::string lib = "/usr/lib/python" + version + "/";
  const std::string python = minor % 2 == 0 ? "/usr/bin/python" + version : "/usr/lib/libpython" + version + ".so.1.0";
  const auto qualified = [minor](const std::string& before, const std::string& name) {
    return minor < 11 ? name : before + name;
  };
  OneLeak leak;
  leak.native(minor < 12 ? "/usr/lib/libffi.so.7" : "/opt/wheel.libs/libffi-9c61262e.so.8.1.0", "ffi_call_unix64");
  leak.stripped(lib + "lib-dynload/_ctypes.cpython-" + abi + "-x86_64-linux-gnu.so", "PyInit__ctypes");
  if (minor < 12)
    leak.native(python, "_PyEval_EvalFrameDefault").python("/a/train.py", qualified("step.<locals>.", "<listcomp>"));
  leak.native(python, minor < 11 ? "_PyFunction_Vectorcall" : "_PyEval_Vector");
  leak.python("/a/train.py", qualified("Trainer.", "step"), 7);
  if (minor < 11) leak.native(python, "function_code_fastcall");
  leak.python(minor < 11 ? lib + "contextlib.py" : "/usr/lib/python" + version + "/contextlib.py",
              qualified("ContextDecorator.__call__.<locals>.", "inner"));
  leak.python("/a/train.py", qualified("main.<locals>.", "<lambda>"), 20);
  if (tested) {
    const std::string site = "/venv/lib/python" + version + "/site-packages/";
    leak.python(site + "_pytest/python.py", qualified("Function.", "runtest"));
    leak.python(site + "pluggy/_callers.py", "_multicall");
    leak.python(minor < 11 ? lib + "runpy.py" : "<frozen runpy>", "_run_code");
  } else {
    leak.python(lib + "unittest/case.py", qualified("TestCase.", "run"));
    leak.python(lib + "threading.py", qualified("Thread.", "_bootstrap_inner"));
  }
  leak.native(python, "Py_BytesMain").native("/lib/libc.so.6", "__libc_start_main").native(python, "_start");
  return leak;
}

}  // namespace

TEST_CASE("the cause of a leak and its neighbours leave its id as it is", "[report][ids]") {
  CauseProgram alone;
  alone.allocate(alone.made);
  const std::string id = alone.report().leaks.at(0).id;
  struct Row {
    const char* name;
    void (*happened)(CauseProgram& p);
  };
  const Row rows[] = {{"an exception", [](CauseProgram& p) { p.allocate(p.made, p.thrown()); }},
                      {"an error return", [](CauseProgram& p) { p.allocate(p.made, p.failed_call()); }},
                      {"a refused free", [](CauseProgram& p) { p.allocate(p.made, p.refused_free()); }},
                      {"held", [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9000); }},
                      {"went with its context", [](CauseProgram& p) { p.tear_down(); }},
                      {"a leak a line above", [](CauseProgram& p) { p.allocate(p.at_line(30)), p.allocate(p.made); }},
                      {"two causes", [](CauseProgram& p) { p.allocate(p.made), p.allocate(p.made, p.thrown()); }},
                      {"another device", [](CauseProgram& p) {
                         AllocationRecord record = live_allocation(p.made, 64);
                         record.device = 1;
                         p.dump.add_allocation(record);
                         record.device = 0;
                         p.dump.add_allocation(record);
                       }}};
  for (const Row& row : rows) {
    CauseProgram program;
    row.happened(program);
    INFO(row.name);
    const Report report = program.report();
    REQUIRE_FALSE(report.leaks.empty());
    for (const Group& group : report.leaks) CHECK(group.id == id);
  }
  CauseProgram managed;
  managed.allocate(managed.made, 0, 0, Kind::kManaged);
  CHECK(managed.report().leaks.at(0).id != id);
  CauseProgram elsewhere;
  elsewhere.allocate(elsewhere.stack({"other", "main"}));
  CHECK(elsewhere.report().leaks.at(0).id != id);
}

TEST_CASE("inlined functions, start-up and the CUDA runtime are in no id", "[report][ids]") {
  const std::string id = OneLeak().native("/bin/app", "step").native("/bin/app", "main").id();
  CHECK(OneLeak().native("/bin/app", "step", "helper").native("/bin/app", "main", "run").id() == id);
  CHECK(OneLeak().native("/bin/app", "step").native("/bin/app", "run").native("/bin/app", "main").id() != id);
  for (const bool full : {false, true}) {
    INFO("full stacks: " << full);
    CHECK(OneLeak()
              .native("/usr/lib/libculprit.so", "hook")
              .native("/usr/lib/libcudart.so.13", "internal")
              .native("/usr/lib/libcudart.so.13", "cudaMalloc")
              .native("/bin/app", "cudaMalloc<float>")
              .native("/bin/app", "step", "helper")
              .native("/bin/app", "main")
              .native("/lib/libc.so.6", "__libc_start_call_main")
              .native("/lib/libc.so.6", "__libc_start_main_impl")
              .native("/bin/app", "_start")
              .id(full) == id);
    // A runtime inside of the program: its functions have no names of their own.
    CHECK(OneLeak()
              .native("/usr/lib/libculprit.so", "hook")
              .stripped("/bin/app", "step")
              .native("/bin/app", "cudaMalloc")
              .native("/bin/app", "step")
              .native("/bin/app", "main")
              .stripped("/lib/libc.so.6", "__libc_init_first")
              .stripped("/bin/app", "main")
              .id(full) == id);
  }
  // A thread that libstdc++ or the C library started.
  const std::string worker = OneLeak().native("/bin/app", "step").id();
  CHECK(OneLeak()
            .native("/bin/app", "step")
            .native("/usr/lib/libstdc++.so.6", "execute_native_thread_routine")
            .native("/lib/libc.so.6", "start_thread")
            .native("/lib/libc.so.6", "clone3")
            .id(true) == worker);
}

TEST_CASE("modules are named without version, ABI tag and wheel's hash", "[report][ids]") {
  const auto id = [](const std::string& path) { return OneLeak().native(path, "f").native("/bin/app", "main").id(); };
  const auto same = [&](std::initializer_list<const char*> paths) {
    std::set<std::string> ids;
    for (const char* path : paths) ids.insert(id(path));
    INFO(*paths.begin());
    CHECK(ids.size() == 1);
  };
  same({"/a/libfoo.so", "/b/libfoo.so.1", "/b/libfoo.so.1.2.3", "/w/foo.libs/libfoo-1a2b3c4d.so.1",
        "/w/foo.libs/libfoo-1a2b3c4d-5e6f7a8b.so.1.2", "/usr/lib/libfoo-2.31.so", "/usr/lib/libfoo-2.0.so.0"});
  same({"/p/solver.so", "/p/solver.cpython-39-x86_64-linux-gnu.so", "/p/solver.cpython-314-x86_64-linux-gnu.so",
        "/p/solver.cpython-313t-x86_64-linux-gnu.so", "/p/solver.abi3.so"});
  same({"/usr/lib/libhelper_python39.so.1.74.0", "/usr/lib/libhelper_python312.so.1.83.0"});
  same({"/opt/solver-1.2/bin/solver-1.2", "/opt/solver-1.3/bin/solver-1.3.1", "/opt/bin/solver"});
  CHECK(id("/a/libfoo.so") != id("/a/libfoo2.so"));
  CHECK(id("/a/libfoo.so") != id("/a/libfoo-debug.so"));
  CHECK(id("/bin/solver-3") != id("/bin/solver-4"));
}

TEST_CASE("a Python leak has one id with CPython 3.9 to 3.14, and below each runner of tests", "[report][ids]") {
  std::set<std::string> ids;
  for (int minor = 9; minor <= 14; ++minor) {
    for (const bool tested : {false, true}) {
      for (const bool full : {false, true}) ids.insert(ctypes_leak(minor, tested).id(full));
    }
  }
  CHECK(ids.size() == 1);
  CHECK(*ids.begin() == OneLeak().python("/b/train.py", "step", 9).python("/b/train.py", "<lambda>", 99).id());
  CHECK(*ids.begin() != OneLeak().python("/b/train.py", "step").python("/b/train.py", "main").id());
  CHECK(*ids.begin() != OneLeak().python("/b/other.py", "step").python("/b/train.py", "<lambda>").id());
}

TEST_CASE("an extension of Python is part of the id, the glue to it is not", "[report][ids]") {
  const auto leak = [](int minor) {
    const std::string tag = ".cpython-3" + std::to_string(minor) + "-x86_64-linux-gnu.so";
    return OneLeak()
        .native("/s/_driver" + tag, "pycuda::mem_alloc")
        .native("/s/_driver" + tag, "boost::python::objects::caller_py_function_impl")
        .native("/usr/lib/libboost_python3" + std::to_string(minor) + ".so.1.74.0",
                "boost::python::objects::function::call")
        .native("/s/fast" + tag, minor < 12 ? "__Pyx_PyObject_Call" : "__Pyx_PyObject_FastCallDict.constprop.0")
        .native("/s/fast" + tag, "__pyx_pw_4fast_1step")
        .python("/a/train.py", "step")
        .id();
  };
  CHECK(leak(9) == leak(13));
  CHECK(leak(9) != OneLeak().python("/a/train.py", "step").id());
}

TEST_CASE("a leak has an id when all of its frames belong to others", "[report][ids]") {
  const std::string first = OneLeak().python("/usr/lib/python3.11/timeit.py", "inner").id();
  CHECK(first.size() == 16);
  CHECK(first != OneLeak().python("/usr/lib/python3.11/trace.py", "runctx").id());
  CHECK(OneLeak().id().size() == 16);
}

// A folder of the user's that is named as a library of Python is.
TEST_CASE("the user's own files are not taken for Python's", "[report][ids]") {
  for (const char* file :
       {"/home/me/unittest/test_it.py", "/home/me/pytest/conftest.py", "/home/me/python3.11/train.py",
        "/usr/lib/python3/dist-packages/mine.py", "/v/lib/python3.11/site-packages/torch/cuda.py", "/home/me/pluggy.py",
        "/home/me/culprit/solver.py", "<string>", "<stdin>"}) {
    INFO(file);
    CHECK(OneLeak().python(file, "step").python("/a/main.py", "main").id() !=
          OneLeak().python("/a/main.py", "main").id());
  }
  for (const char* file :
       {"/usr/lib/python3.11/unittest/case.py", "/opt/py/lib64/python3.12/runpy.py", "<frozen runpy>",
        "/v/lib/python3.11/site-packages/_pytest/runner.py", "/v/x/site-packages/pytest/__main__.py",
        "/v/lib/python3.9/site-packages/pytest_asyncio/plugin.py", "/tmp/target/_pytest/python.py",
        "/usr/lib/python3/dist-packages/xdist/remote.py", "/usr/share/culprit/python/culprit/_use.py",
        "/v/lib/python3.9/site-packages/culprit/_plugin.py", "/x/lib/python311.zip/threading.py"}) {
    INFO(file);
    CHECK(OneLeak().python("/a/main.py", "main").python(file, "run").id() ==
          OneLeak().python("/a/main.py", "main").id());
  }
}

TEST_CASE("a cell of a notebook has the same id in each session", "[report][ids]") {
  CHECK(OneLeak().python("/tmp/ipykernel_4242/1234567.py", "<module>").id() ==
        OneLeak().python("/tmp/ipykernel_77/89.py", "<module>").id());
  CHECK(OneLeak().python("<ipython-input-3-abcdef012345>", "step").id() ==
        OneLeak().python("<ipython-input-14-0123abcd>", "step").id());
}
