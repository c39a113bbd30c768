// The judge's rules, one by one: which memory is a leak, with which cause and evidence, and which is not.
#include "report/judge/judge.h"

#include "report/judge/fingerprint.h"
#include "tests/catch.h"
#include "tests/unit/report/judge/cause_program.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

struct VerdictRow {
  const char* name;
  void (*happened)(CauseProgram& p);
  const char* verdicts;
};

void check_verdicts(const std::vector<VerdictRow>& rows) {
  for (const VerdictRow& row : rows) {
    CauseProgram program;
    row.happened(program);
    INFO(row.name);
    CHECK(verdicts(program.report()) == row.verdicts);
  }
}

void load_library(CauseProgram& p, const char* runtime_function) {
  const char* path = "/lib/libcudart.so.13";
  const std::uint64_t inner = p.frame(path, p.dump.add_module(path), runtime_function, 0);
  p.allocate(p.dump.add_stack({inner, p.main_frame}), 0, 0, Kind::kLibrary);
}

void add_context(CauseProgram& p, Kind kind, ContextState state, std::uint32_t thread) {
  p.dump.add_thread(9, "main");
  ContextRecord context = {};
  context.state = state;
  context.stack = p.made;
  context.api = p.dump.add_api("cuCtxCreate_v4");
  context.thread = thread;
  context.kind = kind;
  p.dump.add_context(context);
}

}  // namespace

TEST_CASE("the evidence for a piece of memory decides its cause", "[report][judge]") {
  check_verdicts({
      {"none", [](CauseProgram& p) { p.allocate(p.made); }, "never-freed 1x 64"},
      {"references that lead nowhere",
       [](CauseProgram& p) {
         EvidenceRecord nowhere = {};
         nowhere.state = 1;
         nowhere.thrown = nowhere.failed_call = nowhere.error = 0x7ffffff0;
         nowhere.thrown_owner = nowhere.failed_call_owner = 0xffff;
         p.allocate(p.made, p.dump.add_evidence(nowhere));
         p.allocate(p.made, 0x7ffffff0);
       },
       "never-freed 2x 128"},
      {"a refused free", [](CauseProgram& p) { p.allocate(p.made, p.refused_free(), kFlagFreeFailed); },
       "failed-free 1x 64 (failed-free)"},
      {"a refused free whose record found no room", [](CauseProgram& p) { p.allocate(p.made, 0, kFlagFreeFailed); },
       "failed-free 1x 64 (failed-free)"},
      {"the end of its context", [](CauseProgram& p) { p.tear_down(); }, "context-teardown 3x 300 (context-teardown)"},
      {"a throw", [](CauseProgram& p) { p.allocate(p.made, p.thrown()); }, "exception 1x 64 (exception)"},
      {"a throw before the end of its context", [](CauseProgram& p) { p.tear_down(p.thrown()); },
       "exception 3x 300 (exception, context-teardown)"},
      {"a failed call", [](CauseProgram& p) { p.allocate(p.made, p.failed_call()); },
       "error-return 1x 64 (error-return)"},
      {"a global with its address", [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9008); }, "held 1x 64 (held)"},
      {"a global without a symbol", [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9800); }, "held 1x 64 (held)"},
      {"a global, and a throw", [](CauseProgram& p) { p.hold(p.allocate(p.made, p.thrown()), 0x9000); },
       "held 1x 64 (held, exception)"},
      {"a global, of memory whose record was used again",
       [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9000, 0, 7); }, "never-freed 1x 64"},
      {"a global of a module that the dump lacks", [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9000, 77); },
       "never-freed 1x 64"},
      {"the end of its thread",
       [](CauseProgram& p) {
         AllocationRecord record = live_allocation(p.made, 64);
         record.thread = p.dump.add_thread(11, "worker-3", ThreadState::kEnded);
         p.dump.add_allocation(record);
       },
       "never-freed 1x 64 (thread-ended)"},
  });
}

TEST_CASE("an earlier call's memory is blamed only when no other of its stack lives on", "[report][judge]") {
  check_verdicts({
      {"alone", [](CauseProgram& p) { p.allocate(p.made, p.thrown(kEvidenceEarlier)); }, "exception 1x 64 (exception)"},
      {"beside one that was lost for certain",
       [](CauseProgram& p) {
         p.allocate(p.made, p.thrown(kEvidenceEarlier));
         p.allocate(p.made, p.thrown());
       },
       "exception 2x 128 (exception)"},
      {"beside one that lives on",
       [](CauseProgram& p) {
         p.allocate(p.made, p.thrown(kEvidenceEarlier));
         p.allocate(p.made);
       },
       "never-freed 2x 128"},
      {"beside both",
       [](CauseProgram& p) {
         p.allocate(p.made, p.thrown(kEvidenceEarlier));
         p.allocate(p.made);
         p.allocate(p.made, p.thrown());
       },
       "exception 1x 64 (exception); never-freed 2x 128"},
      {"beside one that lived on until its context went",
       [](CauseProgram& p) {
         p.allocate(p.made, p.thrown(kEvidenceEarlier));
         p.tear_down();
       },
       "context-teardown 3x 300 (context-teardown); never-freed 1x 64"},
      {"beside one of another stack",
       [](CauseProgram& p) {
         p.allocate(p.made, p.thrown(kEvidenceEarlier));
         p.allocate(p.stack({"other", "main"}));
       },
       "exception 1x 64 (exception); never-freed 1x 64"},
      {"of a failed call, beside one that lives on",
       [](CauseProgram& p) {
         p.allocate(p.made, p.failed_call(kEvidenceEarlierCall));
         p.allocate(p.made);
       },
       "never-freed 2x 128"},
  });
}

TEST_CASE("memory of one stack is divided by cause and holder", "[report][judge]") {
  check_verdicts({
      {"a refused free, and memory that was never freed",
       [](CauseProgram& p) {
         p.allocate(p.made, p.refused_free(), kFlagFreeFailed);
         p.allocate(p.made);
       },
       "failed-free 1x 64 (failed-free); never-freed 1x 64"},
      {"pointers in one array",
       [](CauseProgram& p) {
         for (std::uint64_t i = 0; i < 8; ++i) p.hold(p.allocate(p.made), 0x9000 + i * 8);
       },
       "held 8x 512 (held)"},
      {"pointers in two variables",
       [](CauseProgram& p) {
         p.hold(p.allocate(p.made), 0x9000);
         p.hold(p.allocate(p.made), 0x9100);
       },
       "held 1x 64 (held); held 1x 64 (held)"},
      {"one that is held and one that is not",
       [](CauseProgram& p) {
         p.hold(p.allocate(p.made), 0x9000);
         p.allocate(p.made);
       },
       "held 1x 64 (held); never-freed 1x 64"},
      {"no pointer left", [](CauseProgram& p) { p.lose(p.allocate(p.made)); }, "lost 1x 64 (lost)"},
      {"no pointer left to one of two",
       [](CauseProgram& p) {
         p.lose(p.allocate(p.made));
         p.allocate(p.made);
       },
       "never-freed 2x 128 (lost)"},
      {"lost by an exception", [](CauseProgram& p) { p.lose(p.allocate(p.made, p.thrown())); },
       "exception 1x 64 (exception, lost)"},
      {"lost, and held after all",
       [](CauseProgram& p) {
         const Ref allocation = p.allocate(p.made);
         p.lose(allocation);
         p.hold(allocation, 0x9000);
       },
       "held 1x 64 (held)"},
      {"lost, and freed since", [](CauseProgram& p) { p.lose(p.allocate(p.made), kNoPointerLeft, 7); },
       "never-freed 1x 64"},
  });
}

TEST_CASE("the first cause of the order wins", "[report][judge]") {
  CHECK(decide_cause({}) == Cause::kNeverFreed);
  const Cause order[] = {Cause::kCached,      Cause::kFailedFree,      Cause::kHeld, Cause::kException,
                         Cause::kErrorReturn, Cause::kContextTeardown, Cause::kLost, Cause::kNeverFreed};
  for (std::size_t i = 1; i < std::size(order); ++i) {
    std::vector<Evidence> evidence(2);
    evidence[0].points_to = order[i];
    evidence[1].points_to = order[i - 1];
    CHECK(decide_cause(evidence) == order[i - 1]);
  }
}

TEST_CASE("only memory leaks, other things are resources or belong to the runtime", "[report][judge]") {
  check_verdicts({
      {"objects, address ranges and memory of others",
       [](CauseProgram& p) {
         for (Kind kind : {Kind::kStream, Kind::kEvent, Kind::kVmmReservation, Kind::kVmmMapping, Kind::kIpcMemory,
                           Kind::kMemoryPool, Kind::kGraphExec, Kind::kTextureObject}) {
           p.dump.add_allocation(live_allocation(p.made, 0, kind));
         }
       },
       "resource event 1x 0; resource graph-exec 1x 0; resource ipc-memory 1x 0; resource memory-pool 1x 0; resource "
       "stream 1x 0; resource texture-object 1x 0; resource vmm-mapping 1x 0; resource vmm-reservation 1x 0"},
      {"a graph's memory that no launch has made physical",
       [](CauseProgram& p) { p.allocate(p.made, 0, kFlagNotPhysical, Kind::kGraphMemory); },
       "resource graph-memory 1x 0"},
      {"a graph's memory, one of two physical",
       [](CauseProgram& p) {
         p.allocate(p.made, 0, kFlagNotPhysical, Kind::kGraphMemory);
         p.launch(p.stack({"run", "main"}, 21), 1);
       },
       "never-freed 1x 64 (graph-launch); resource graph-memory 1x 0"},
      {"a graph's memory of launches at two places",
       [](CauseProgram& p) {
         p.launch(p.stack({"run", "main"}, 21), 1);
         p.launch(p.stack({"run", "main"}, 22), 1);
       },
       "never-freed 1x 64 (graph-launch); never-freed 1x 64 (graph-launch)"},
      {"a graph's memory that was freed after a launch", [](CauseProgram& p) { p.launch(p.made, 1, kFlagNotPhysical); },
       "resource graph-memory 1x 0"},
      {"a graph's memory, by a library that did not follow launches",
       [](CauseProgram& p) { p.launch(0x7fff0010, 0x5555); }, "never-freed 1x 64"},
      {"a library that the runtime loads for a launch", [](CauseProgram& p) { load_library(p, "cudaLaunchKernel"); },
       ""},
      {"a library that the program asks the runtime for",
       [](CauseProgram& p) { load_library(p, "cudaLibraryLoadData"); }, "resource library 1x 0"},
      {"a library that the program asks the driver for",
       [](CauseProgram& p) { p.allocate(p.made, 0, 0, Kind::kLibrary); }, "resource library 1x 0"},
      {"a context of the program", [](CauseProgram& p) { add_context(p, Kind::kContext, ContextState::kAlive, 0); },
       "resource context 1x 0"},
      {"a context that was destroyed",
       [](CauseProgram& p) { add_context(p, Kind::kContext, ContextState::kDestroyed, 0); }, ""},
      {"a context from before the recording",
       [](CauseProgram& p) { add_context(p, Kind::kContext, ContextState::kAlive, kNoIndex); }, ""},
      {"the primary context", [](CauseProgram& p) { add_context(p, Kind::kPrimaryContext, ContextState::kAlive, 0); },
       ""},
  });
}

TEST_CASE("a group is one stack of one kind, on one device, by one call", "[report][judge]") {
  struct Row {
    const char* name;
    void (*change)(CauseProgram& p, AllocationRecord* second);
    std::size_t groups;
  };
  const Row rows[] = {
      {"nothing else", [](CauseProgram&, AllocationRecord*) {}, 1},
      {"another size", [](CauseProgram&, AllocationRecord* second) { second->bytes = 65; }, 1},
      {"another device", [](CauseProgram&, AllocationRecord* second) { second->device = 1; }, 2},
      {"another kind", [](CauseProgram&, AllocationRecord* second) { second->kind = Kind::kManaged; }, 2},
      {"another call",
       [](CauseProgram& p, AllocationRecord* second) { second->api = p.dump.add_api("cuMemAllocManaged"); }, 2},
      {"another line", [](CauseProgram& p, AllocationRecord* second) { second->stack = p.at_line(32); }, 2},
      {"the same place in a module that was loaded twice",
       [](CauseProgram& p, AllocationRecord* second) {
         const std::uint32_t again = p.dump.add_module("/bin/app");
         const std::uint64_t main_offset = p.main_frame - DumpBuilder::frame(p.module, 0);
         const std::uint64_t step = p.frame("/bin/app", again, "step", 31);
         second->stack = p.dump.add_stack({step, DumpBuilder::frame(again, main_offset)});
       },
       1},
  };
  for (const Row& row : rows) {
    INFO("the second differs by: " << row.name);
    CauseProgram program;
    AllocationRecord record = live_allocation(program.made, 64);
    record.api = program.dump.add_api("cuMemAlloc_v2");
    program.dump.add_allocation(record);
    row.change(program, &record);
    program.dump.add_allocation(record);
    const Report report = program.report();
    REQUIRE(report.leaks.size() == row.groups);
    CHECK(report.leaks[0].count + (row.groups - 1) == 2);
    const bool same_id = report.leaks.front().id == report.leaks.back().id;
    CHECK(same_id == (std::string(row.name) != "another kind"));
  }
}

TEST_CASE("memory that a library holds for itself has its own section", "[report][judge]") {
  struct Row {
    bool strict;
    bool default_suppressions;
    const char* verdicts;
  };
  for (const Row& row : {Row{false, true, "library cuBLAS 1x 64"}, Row{true, true, "never-freed of cuBLAS 1x 64"},
                         Row{false, false, "never-freed 1x 64"}}) {
    INFO("strict: " << row.strict << ", default suppressions: " << row.default_suppressions);
    CauseProgram program;
    const std::uint32_t cublas = program.dump.add_module("/lib/libcublas.so.13");
    const std::uint64_t inner = program.frame("/lib/libcublas.so.13", cublas, "cublasCreate_v2", 0);
    program.allocate(program.dump.add_stack({inner, program.main_frame}));
    JudgeOptions options;
    options.strict = row.strict;
    options.default_suppressions = row.default_suppressions;
    const Report report = program.report(options);
    CHECK(verdicts(report) == row.verdicts);
    CHECK(report.summary.leaked_bytes == (report.leaks.empty() ? 0 : 64));
    CHECK(report.summary.library_bytes == (report.library.empty() ? 0 : 64));
  }
}

TEST_CASE("the summary counts device memory, host memory, threads that ended and refused frees", "[report][judge]") {
  CauseProgram program;
  AllocationRecord record = live_allocation(program.made, 100);
  record.thread = program.dump.add_thread(11, "worker-3", ThreadState::kEnded);
  record.evidence = program.refused_free();
  record.flags = kFlagFreeFailed;
  program.dump.add_allocation(record);
  record = live_allocation(program.stack({"pin", "main"}), 4096, Kind::kPinnedHost);
  record.thread = program.dump.add_thread(10, "main");
  record.device = kNoDevice;
  program.dump.add_allocation(record);
  const Report report = program.report();
  CHECK(report.summary.leaked_bytes == 4196);
  CHECK(report.summary.leaked_host_bytes == 4096);
  CHECK(report.summary.leaked_device_bytes == 100);
  CHECK(report.summary.thread_ended_bytes == 100);
  CHECK(report.summary.errors == 2);
  CHECK(report.summary.totals.size() == 2);
  REQUIRE(report.leaks.size() == 2);
  CHECK_FALSE(report.leaks[0].device.has_value());
  REQUIRE(report.errors.size() == 1);
  REQUIRE(report.errors[0].allocation_stack != nullptr);
  CHECK(report.errors[0].allocation_stack->frames.at(0)->function == "step");
}

TEST_CASE("allocations of one place are one group, worst first", "[report][judge]") {
  Program program;
  const Ref small = program.stack({"small", "main"});
  const Ref big = program.stack({"big", "main"});
  AllocationRecord record = live_allocation(small, 100);
  record.time_ns = 7;
  program.dump.add_allocation(record);
  record.time_ns = 5;
  program.dump.add_allocation(record);
  program.dump.add_allocation(live_allocation(big, 1000));
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 2);
  CHECK(report.leaks[0].bytes == 1000);
  CHECK(report.leaks[1].bytes == 200);
  CHECK(report.leaks[1].count == 2);
  CHECK(report.leaks[1].first_ns == 5);
  CHECK(report.leaks[1].last_ns == 7);
  CHECK(report.leaks[1].cause == Cause::kNeverFreed);
  CHECK(report.summary.leaked_bytes == 1200);
  CHECK(report.summary.leaked_allocations == 3);
  CHECK(report.summary.groups == 2);
}

TEST_CASE("a group says how often its call was freed before", "[report][judge]") {
  Program program;
  program.symbols.add("/bin/app", 0x500, "make", "/src/app.cu", 3);
  const Ref stack = program.dump.add_stack({DumpBuilder::frame(program.module, 0x500)}, 0, 90);
  program.dump.add_allocation(live_allocation(stack, 64));
  program.dump.header().allocations = 100;
  program.dump.header().frees = 50;
  ThreadCounters counters = {};
  counters.allocations = 8;
  counters.frees = 7;
  counters.stacks[5].stack = stack;
  counters.stacks[5].allocations = 8;
  program.dump.add_counters(counters);
  const Report report = program.report();
  CHECK(report.leaks.at(0).made == 98);
  CHECK(report.leaks[0].freed == 97);
  CHECK(report.summary.allocations == 108);
  CHECK(report.summary.frees == 57);
}

TEST_CASE("threads of a group are listed once, with their end", "[report][judge]") {
  Program program;
  const std::uint32_t first = program.dump.add_thread(10, "main");
  const std::uint32_t second = program.dump.add_thread(11, "worker", ThreadState::kEnded);
  AllocationRecord record = live_allocation(program.stack({"make", "main"}), 64);
  for (std::uint32_t thread : {first, second, second}) {
    record.thread = thread;
    program.dump.add_allocation(record);
  }
  const Report report = program.report();
  REQUIRE(report.leaks.at(0).threads.size() == 2);
  CHECK_FALSE(report.leaks[0].threads[0].ended);
  CHECK(report.leaks[0].threads[1].ended);
  CHECK(report.leaks[0].threads[1].name == "worker");
}

TEST_CASE("an error return needs an owner that is the user's code", "[report][judge]") {
  struct Row {
    const char* module;
    const char* owner;
    Cause cause;
    std::uint32_t flags = 0;
  };
  const Row rows[] = {
      {"/lib/libuser.so", "user_function", Cause::kErrorReturn},
      {"/bin/other", "main", Cause::kErrorReturn},
      {"/lib/libc.so.6", "start_thread", Cause::kNeverFreed},
      {"/lib/libc.so.6", "__libc_start_main", Cause::kNeverFreed},
      {"/lib/libstdc++.so.6", "execute_native_thread_routine", Cause::kNeverFreed},
      {"/lib/libcudart.so.13", "cudaMalloc3DArray", Cause::kNeverFreed},
      {"/bin/static", "cudaMalloc", Cause::kNeverFreed},
      {"/bin/static", "libcudart_static_f74e2f2b", Cause::kNeverFreed},
      {"/lib/libcublas.so.13", "cublasCreate_v2", Cause::kNeverFreed},
      {"/lib/libcuda.so.1", "cuLaunchKernel", Cause::kNeverFreed},
      {"/usr/bin/python3.12", "_PyEval_EvalFrameDefault", Cause::kNeverFreed, kModuleExecutable},
      {"/lib/libpython3.12.so.1.0", "_PyEval_EvalFrameDefault", Cause::kNeverFreed},
  };
  for (const Row& row : rows) {
    INFO(row.owner << " of " << row.module);
    CauseProgram program;
    const std::uint64_t owner =
        program.frame(row.module, program.dump.add_module(row.module, {}, row.flags), row.owner, 0);
    const Ref stack = program.dump.add_stack({program.frame("/bin/app", program.module, "make", 3), owner});
    program.allocate(stack, program.failed_call(0, 1));
    const Group group = program.report().leaks.at(0);
    CHECK(group.cause == row.cause);
    CHECK(group.evidence.empty() == (row.cause == Cause::kNeverFreed));
  }
}

TEST_CASE("fingerprints do not depend on addresses, lines, paths and versions", "[report][judge]") {
  auto make = [](const std::string& path, std::uint64_t address, unsigned line, const std::string& function) {
    DumpBuilder dump;
    FakeSymbols symbols;
    const std::uint32_t module = dump.add_module(path);
    symbols.add(path, address, function, "/src/x.cu", line);
    AllocationRecord record = live_allocation(dump.add_stack({DumpBuilder::frame(module, address)}), 100 + line);
    record.api = dump.add_api("cuMemAlloc_v2");
    dump.add_allocation(record);
    return report_of(dump, symbols).leaks.at(0).id;
  };
  const std::string id = make("/usr/lib/libfoo.so.1.2", 0x1000, 5, "foo");
  CHECK(id.size() == 16);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(make("/opt/lib/libfoo.so.1.3", 0x2000, 6, "foo") == id);
  CHECK(make("/usr/lib/libfoo.so.1.2", 0x1000, 5, "bar") != id);
  CHECK(make("/usr/lib/libbar.so.1.2", 0x1000, 5, "foo") != id);
}
