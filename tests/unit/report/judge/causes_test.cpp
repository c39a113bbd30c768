// Why memory was not freed: which evidence gives which cause, and the text for the reader.
#include <sstream>

#include "report/causes/group_words.h"
#include "report/render/text/evidence_text.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using culprit::test::DumpBuilder;
using culprit::test::live_allocation;
using culprit::test::Program;

namespace {

// A program whose step() allocates and throws, with main around it.
struct Thrower : Program {
  const std::uint64_t main_frame = frame("/bin/app", module, "main", 40);
  const Ref allocated = dump.add_stack({frame("/bin/app", module, "step", 31), main_frame});

  // With this many calls of the stack in total.
  Ref allocated_of(std::uint64_t calls) {
    return dump.add_stack({frame("/bin/app", module, "step", 31), main_frame}, 0, calls);
  }
  ThrowRecord throw_record() {
    ThrowRecord record = {};
    record.state = 1;
    record.type = dump.add_string("St13runtime_error");
    record.what = dump.add_string("residual is NaN");
    record.stack = dump.add_stack({frame("/bin/app", module, "step", 33), main_frame});
    record.catch_stack = dump.add_stack({frame("/bin/app", module, "main", 42)});
    record.count = 1;
    record.last_ns = 5;
    record.flags = kThrowCaught;
    return record;
  }
  FailedCallRecord failed_record() {
    FailedCallRecord record = {};
    record.state = 1;
    record.code = 1;
    record.api = dump.add_api("cuMemcpyHtoD_v2");
    record.stack = dump.add_stack({frame("/bin/app", module, "step", 36), main_frame});
    record.count = 1;
    return record;
  }
  Ref evidence_of(const ThrowRecord& thrown, std::uint8_t flags = 0, std::uint16_t owner = 2) {
    EvidenceRecord record = {};
    record.state = 1;
    record.thrown = dump.add_throw(thrown);
    record.thrown_owner = owner;
    record.flags = flags;
    return dump.add_evidence(record);
  }
  Ref evidence_of(const FailedCallRecord& failed, std::uint16_t owner = 2, std::uint8_t flags = 0) {
    EvidenceRecord record = {};
    record.state = 1;
    record.failed_call = dump.add_failed_call(failed);
    record.failed_call_owner = owner;
    record.flags = flags;
    return dump.add_evidence(record);
  }
  Ref allocate(Ref stack, Ref evidence = 0, std::uint64_t bytes = 64) {
    AllocationRecord record = live_allocation(stack, bytes);
    record.evidence = evidence;
    return dump.add_allocation(record);
  }
  void hold(Ref allocation, std::uint64_t offset, std::uint32_t generation = 1) {
    HolderRecord record = {};
    record.state = generation << kStateBits | 1;
    record.allocation = allocation;
    record.place = DumpBuilder::frame(module, offset);
    dump.add_holder(record);
  }
};

const Group& with_cause(const Report& report, Cause cause) {
  for (const Group& group : report.leaks) {
    if (group.cause == cause) return group;
  }
  FAIL("no group of cause " << cause_name(cause));
  return report.leaks.front();
}

std::string text_of(const Group& group) {
  const Palette palette(false);
  std::ostringstream out;
  TextFields fields(palette, out);
  for (const Evidence& evidence : group.evidence) print_evidence(group, evidence, &fields);
  return out.str();
}

}  // namespace

TEST_CASE("an exception that abandoned memory is the cause with all that is known of it", "[report][causes]") {
  Thrower program;
  program.allocate(program.allocated, program.evidence_of(program.throw_record()));
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  const Group& group = report.leaks[0];
  CHECK(group.cause == Cause::kException);
  REQUIRE(group.evidence.size() == 1);
  const Evidence& evidence = group.evidence[0];
  CHECK(evidence.type == EvidenceType::kException);
  CHECK(evidence.exception == "std::runtime_error");
  CHECK(evidence.what == "residual is NaN");
  CHECK(evidence.stack->frames.at(0)->line == 33);
  REQUIRE(evidence.caught != nullptr);
  CHECK(evidence.caught->frames.at(0)->line == 42);
  REQUIRE(evidence.owner != nullptr);
  CHECK(evidence.owner->function == "step");
  CHECK_FALSE(evidence.uncaught);
  CHECK(text_of(group) ==
        "   thrown     app.cu:33  std::runtime_error \"residual is NaN\"\n"
        "   caught     app.cu:42  main\n");
  CHECK(hint_for(group, false) == "no free on the path thrown at line 33: give the pointer an owner (RAII) before it");
}

TEST_CASE("an exception that nobody caught or that only unwound says so", "[report][causes]") {
  Thrower program;
  ThrowRecord thrown = program.throw_record();
  thrown.catch_stack = 0;
  SECTION("uncaught") {
    thrown.flags = kThrowUncaught;
    program.allocate(program.allocated, program.evidence_of(thrown));
    const Report report = program.report();
    CHECK(text_of(report.leaks.at(0)).find("nowhere: the program was terminated") != std::string::npos);
    CHECK(hint_for(report.leaks[0], false).find("catch std::runtime_error in main") == 0);
  }
  SECTION("forced unwinding") {
    thrown.flags = kThrowForced;
    thrown.type = thrown.what = 0;
    program.allocate(program.allocated, program.evidence_of(thrown));
    const Report report = program.report();
    CHECK(report.leaks.at(0).cause == Cause::kException);
    CHECK(text_of(report.leaks[0]) == "   unwound    app.cu:33  by pthread_exit or cancellation\n");
  }
  SECTION("of unknown type, passed on, with a second handler") {
    thrown = program.throw_record();
    thrown.flags = kThrowCaught | kThrowRethrown;
    thrown.type = thrown.what = 0;
    program.allocate(program.allocated, program.evidence_of(thrown, kEvidenceAmbiguous));
    const std::string text = text_of(program.report().leaks.at(0));
    CHECK(text.find("an exception of unknown type, rethrown") != std::string::npos);
    CHECK(text.find("main (or another handler for the same type)") != std::string::npos);
  }
}

TEST_CASE("a throw deep in a callee shows the way there and names the program's own frame", "[report][causes]") {
  Thrower program;
  const std::uint32_t runtime = program.dump.add_module("/lib/libstdc++.so.6");
  const std::uint64_t inside = program.frame("/lib/libstdc++.so.6", runtime, "std::__throw_length_error", 0);
  const std::uint64_t leaf = program.frame("/bin/app", program.module, "leaf", 5);
  const std::uint64_t middle = program.frame("/bin/app", program.module, "middle", 9);
  const std::uint64_t step = program.frame("/bin/app", program.module, "step", 34);
  ThrowRecord thrown = program.throw_record();
  thrown.stack = program.dump.add_stack({inside, leaf, middle, step, program.main_frame});
  program.allocate(program.allocated, program.evidence_of(thrown));
  const std::string text = text_of(program.report().leaks.at(0));
  CHECK(text ==
        "   thrown     app.cu:5   std::runtime_error \"residual is NaN\"\n"
        "              app.cu:9  middle\n"
        "   caught     app.cu:42  main\n");
}

TEST_CASE("text of a hostile dump cannot reach the terminal", "[report][causes]") {
  Thrower program;
  ThrowRecord thrown = program.throw_record();
  thrown.type = program.dump.add_string("\x1b[31mType");
  thrown.what = program.dump.add_string("red\x1b[0m\nnext\x07");
  program.allocate(program.allocated, program.evidence_of(thrown));
  const Report report = program.report();
  const std::string text = text_of(report.leaks.at(0)) + hint_for(report.leaks[0], false);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\x07') == std::string::npos);
  CHECK(text.find("red?[0m?next?") != std::string::npos);
}

TEST_CASE("references of evidence that lead nowhere leave the memory never freed", "[report][causes]") {
  Thrower program;
  EvidenceRecord record = {};
  record.state = 1;
  record.thrown = record.failed_call = record.error = 0x7ffffff0;
  record.thrown_owner = record.failed_call_owner = 0xffff;
  program.allocate(program.allocated, program.dump.add_evidence(record));
  program.allocate(program.allocated, 0x7ffffff0);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause == Cause::kNeverFreed);
}

TEST_CASE("an earlier call's allocation is blamed on a throw only when no other lives on", "[report][causes]") {
  Thrower program;
  const Ref earlier = program.evidence_of(program.throw_record(), kEvidenceEarlier);
  program.allocate(program.allocated, earlier);
  SECTION("alone") { CHECK(program.report().leaks.at(0).cause == Cause::kException); }
  SECTION("another one was struck for certain") {
    program.allocate(program.allocated, program.evidence_of(program.throw_record()));
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].cause == Cause::kException);
    CHECK(report.leaks[0].count == 2);
  }
  SECTION("another one lives on without a throw") {
    program.allocate(program.allocated);
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].cause == Cause::kNeverFreed);
    CHECK(report.leaks[0].evidence.empty());
  }
  SECTION("what was struck for certain stays so") {
    program.allocate(program.allocated);
    program.allocate(program.allocated, program.evidence_of(program.throw_record()));
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 2);
    CHECK(with_cause(report, Cause::kException).count == 1);
    CHECK(with_cause(report, Cause::kNeverFreed).count == 2);
  }
  SECTION("another one lived on until its context went") {
    ReleaseRecord release = {};
    release.state = 1;
    release.kind = Kind::kDevice;
    release.stack = program.allocated;
    release.count = 1;
    program.dump.add_release(release);
    CHECK(with_cause(program.report(), Cause::kNeverFreed).count == 1);
  }
  SECTION("another one of another stack is no matter") {
    program.allocate(program.stack({"other", "main"}));
    CHECK(with_cause(program.report(), Cause::kException).count == 1);
  }
}

TEST_CASE("memory left behind when a call failed is an error return", "[report][causes]") {
  Thrower program;
  FailedCallRecord failed = program.failed_record();
  failed.flags = kFailedInjected;
  program.allocate(program.allocated, program.evidence_of(failed));
  const Report report = program.report();
  const Group& group = report.leaks.at(0);
  CHECK(group.cause == Cause::kErrorReturn);
  REQUIRE(group.evidence.size() == 1);
  CHECK(group.evidence[0].api == "cuMemcpyHtoD");
  CHECK(group.evidence[0].code_name == "CUDA_ERROR_INVALID_VALUE");
  CHECK(group.evidence[0].owner->function == "step");
  CHECK(text_of(group) == "   failed     app.cu:36  cuMemcpyHtoD: CUDA_ERROR_INVALID_VALUE (injected)\n");
  CHECK(hint_for(group, false) ==
        "no free on the path after cuMemcpyHtoD failed at line 36: free before returning, or give the pointer an owner "
        "(RAII)");
}

TEST_CASE("an error return needs an owner that is the user's code", "[report][causes]") {
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
    Thrower program;
    const std::uint64_t owner =
        program.frame(row.module, program.dump.add_module(row.module, {}, row.flags), row.owner, 0);
    const Ref stack = program.dump.add_stack({program.frame("/bin/app", program.module, "make", 3), owner});
    program.allocate(stack, program.evidence_of(program.failed_record(), 1));
    const Group group = program.report().leaks.at(0);
    CHECK(group.cause == row.cause);
    CHECK(group.evidence.empty() == (row.cause == Cause::kNeverFreed));
  }

  Thrower program;
  SECTION("the depth counts from the outermost frame") {
    const Ref stack = program.stack({"make", "step", "main"});
    program.allocate(stack, program.evidence_of(program.failed_record(), 2));
    CHECK(program.report().leaks.at(0).evidence.at(0).owner->function == "step");
  }
  SECTION("an earlier call's allocation follows the same rule as for a throw") {
    program.allocate(program.allocated, program.evidence_of(program.failed_record(), 2, kEvidenceEarlierCall));
    program.allocate(program.allocated);
    REQUIRE(program.report().leaks.size() == 1);
    CHECK(program.report().leaks[0].cause == Cause::kNeverFreed);
  }
}

TEST_CASE("memory that a global holds names the variable", "[report][causes]") {
  Thrower program;
  program.symbols.add_variable("/bin/app", 0x9000, 64, "g_cache");
  SECTION("with the offset in it") {
    program.hold(program.allocate(program.allocated), 0x9008);
    const Report report = program.report();
    const Group& group = report.leaks.at(0);
    CHECK(group.cause == Cause::kHeld);
    REQUIRE(group.evidence.at(0).variable != nullptr);
    CHECK(group.evidence[0].variable->name == "g_cache");
    CHECK(text_of(group) == "   held by    g_cache+0x8 in app\n");
    CHECK(hint_for(group, false) == "`g_cache` still has the pointer at exit: free it before main returns");
  }
  SECTION("the pointers of one array are one group") {
    for (std::uint64_t i = 0; i < 8; ++i) program.hold(program.allocate(program.allocated), 0x9000 + i * 8);
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].count == 8);
    CHECK(text_of(report.leaks[0]) == "   held by    g_cache in app, 8 pointers\n");
  }
  SECTION("two variables are two groups") {
    program.symbols.add_variable("/bin/app", 0x9100, 8, "g_other");
    program.hold(program.allocate(program.allocated), 0x9000);
    program.hold(program.allocate(program.allocated), 0x9100);
    CHECK(program.report().leaks.size() == 2);
  }
  SECTION("one that is held and one that is not") {
    program.hold(program.allocate(program.allocated), 0x9000);
    program.allocate(program.allocated);
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 2);
    CHECK(with_cause(report, Cause::kHeld).count == 1);
    CHECK(with_cause(report, Cause::kNeverFreed).count == 1);
  }
  SECTION("without a symbol: module and offset") {
    program.hold(program.allocate(program.allocated), 0x9800);
    const Report report = program.report();
    CHECK(report.leaks.at(0).cause == Cause::kHeld);
    CHECK(text_of(report.leaks[0]) == "   held by    app+0x9800 (a global without a symbol)\n");
    CHECK(hint_for(report.leaks[0], false).find("a global of app still has the pointer") == 0);
  }
  SECTION("the record was used again since: not held") {
    program.hold(program.allocate(program.allocated), 0x9000, 7);
    CHECK(program.report().leaks.at(0).cause == Cause::kNeverFreed);
  }
  SECTION("a module that the dump does not have: not held") {
    HolderRecord record = {};
    record.state = 1 << kStateBits | 1;
    record.allocation = program.allocate(program.allocated);
    record.place = DumpBuilder::frame(77, 0x9000);
    program.dump.add_holder(record);
    CHECK(program.report().leaks.at(0).cause == Cause::kNeverFreed);
  }
}

TEST_CASE("a holder beats an exception and the throw stays as evidence", "[report][causes]") {
  Thrower program;
  program.symbols.add_variable("/bin/app", 0x9000, 8, "g_cache");
  program.hold(program.allocate(program.allocated, program.evidence_of(program.throw_record())), 0x9000);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause == Cause::kHeld);
  CHECK(text_of(report.leaks[0]) ==
        "   held by    g_cache in app\n"
        "   thrown     app.cu:33  std::runtime_error \"residual is NaN\"\n"
        "   caught     app.cu:42  main\n");
}

TEST_CASE("memory abandoned by an exception before its context went keeps both facts", "[report][causes]") {
  Thrower program;
  ReleaseRecord release = {};
  release.state = 1;
  release.kind = Kind::kDevice;
  release.stack = program.allocated;
  release.teardown_stack = program.stack({"reset", "main"}, 77);
  release.teardown_api = program.dump.add_api("cuDevicePrimaryCtxReset_v2");
  release.count = 1;
  release.bytes = 64;
  release.evidence = program.evidence_of(program.throw_record());
  program.dump.add_release(release);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause == Cause::kException);
  REQUIRE(report.leaks[0].evidence.size() == 2);
  CHECK(report.leaks[0].evidence[1].type == EvidenceType::kContextTeardown);
}

TEST_CASE("the history says how those that leaked were lost", "[report][causes]") {
  Thrower program;
  const Ref stack = program.allocated_of(100);
  const Ref thrown = program.evidence_of(program.throw_record());
  SECTION("all through one exception") {
    for (int i = 0; i < 3; ++i) program.allocate(stack, thrown);
    CHECK(history_text(program.report().leaks.at(0)) ==
          "freed in 97 of 100 calls; the 3 that leaked all left through std::runtime_error thrown at app.cu:33");
  }
  SECTION("one") {
    program.allocate(stack, thrown);
    CHECK(history_text(program.report().leaks.at(0)) ==
          "freed in 99 of 100 calls; the one that leaked left through std::runtime_error thrown at app.cu:33");
  }
  SECTION("some, and others in another way") {
    for (int i = 0; i < 3; ++i) program.allocate(stack, thrown);
    program.symbols.add_variable("/bin/app", 0x9000, 8, "g_cache");
    program.hold(program.allocate(stack), 0x9000);
    program.allocate(stack);
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 3);
    CHECK(history_text(with_cause(report, Cause::kException)) ==
          "freed in 95 of 100 calls; 3 of the 5 that leaked left through std::runtime_error thrown at app.cu:33");
    CHECK(history_text(with_cause(report, Cause::kHeld)) ==
          "freed in 95 of 100 calls; 1 of the 5 that leaked is held by `g_cache`");
    CHECK(history_text(with_cause(report, Cause::kNeverFreed)) == "freed in 95 of 100 calls");
  }
  SECTION("two records of one throw do not count the calls twice") {
    ThrowRecord same = program.throw_record();
    Program other;
    program.allocate(stack, program.evidence_of(same));
    program.allocate(stack, program.evidence_of(same));
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].made == 100);
    CHECK(report.leaks[0].freed == 98);
    CHECK(report.leaks[0].evidence.at(0).count == 2);
  }
  SECTION("none was freed") {
    Thrower never;
    never.allocate(never.allocated, never.evidence_of(never.throw_record()));
    CHECK(history_text(never.report().leaks.at(0)).empty());
  }
}

TEST_CASE("a refused free of a broken context has a hint and a plain one has none", "[report][causes]") {
  auto hint_of = [](int code) {
    Program program;
    ErrorRecord error = {};
    error.state = 1;
    error.type = ErrorType::kFailedFree;
    error.code = code;
    error.api = program.dump.add_api("cuMemFree_v2");
    error.count = 1;
    EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.error = program.dump.add_error(error);
    AllocationRecord record = live_allocation(program.stack({"make", "main"}), 64);
    record.flags = kFlagFreeFailed;
    record.evidence = program.dump.add_evidence(evidence);
    program.dump.add_allocation(record);
    return hint_for(program.report().leaks.at(0), false);
  };
  CHECK(hint_of(700) == "cuMemFree returned 700 from an earlier kernel error: the memory stays until the context goes");
  CHECK(hint_of(719).find("cuMemFree fails since a kernel went wrong") == 0);
  CHECK(hint_of(709).find("cuMemFree came after the end of the memory's context") == 0);
  CHECK(hint_of(1).empty());
}

TEST_CASE("the thread that ended is evidence and its bytes are summed up", "[report][causes]") {
  Program program;
  const std::uint32_t first = program.dump.add_thread(10, "main");
  const std::uint32_t second = program.dump.add_thread(11, "worker-3", ThreadState::kEnded);
  AllocationRecord record = live_allocation(program.stack({"make", "main"}), 64);
  record.thread = second;
  program.dump.add_allocation(record);
  SECTION("all of them ended") {
    const Report report = program.report();
    const Group& group = report.leaks.at(0);
    CHECK(group.cause == Cause::kNeverFreed);
    REQUIRE(group.evidence.size() == 1);
    CHECK(group.evidence[0].type == EvidenceType::kThreadEnded);
    CHECK(group.evidence[0].thread->name == "worker-3");
    CHECK(report.summary.thread_ended_bytes == 64);
    CHECK(hint_for(group, false).find("thread \"worker-3\" ended without a free") == 0);
    CHECK(hint_for(group, true).empty());
  }
  SECTION("only some") {
    record.thread = first;
    program.dump.add_allocation(record);
    const Report report = program.report();
    CHECK(report.leaks.at(0).bytes == 128);
    CHECK(report.summary.thread_ended_bytes == 64);
    CHECK(hint_for(report.leaks[0], false).empty());
  }
}

TEST_CASE("each cause of one stack has an id of its own in every run", "[report][causes]") {
  Thrower alone;
  alone.allocate(alone.allocated);
  const std::string never_freed = alone.report().leaks.at(0).id;
  Thrower thrown_only;
  thrown_only.allocate(thrown_only.allocated, thrown_only.evidence_of(thrown_only.throw_record()));
  const std::string thrown = thrown_only.report().leaks.at(0).id;
  Thrower both;
  both.allocate(both.allocated);
  both.allocate(both.allocated, both.evidence_of(both.throw_record()));
  const Report report = both.report();
  CHECK(with_cause(report, Cause::kNeverFreed).id == never_freed);
  CHECK(with_cause(report, Cause::kException).id == thrown);
  CHECK(thrown != never_freed);
}

TEST_CASE("a leak in a module whose exceptions cannot be seen has a note", "[report][causes]") {
  auto notes_of = [](Thrower& program) {
    std::string all;
    for (const std::string& note : program.report().notes) all += note + "\n";
    return all;
  };
  Thrower program;
  program.allocate(program.allocated);
  CHECK(notes_of(program).find("could not be observed") == std::string::npos);
  program.symbols.set_own_unwinder("/bin/app");
  CHECK(notes_of(program).find("exceptions that app throws could not be observed") != std::string::npos);
  Thrower thrown;
  thrown.symbols.set_own_unwinder("/bin/app");
  thrown.allocate(thrown.allocated, thrown.evidence_of(thrown.throw_record()));
  CHECK(notes_of(thrown).find("could not be observed") == std::string::npos);
}
