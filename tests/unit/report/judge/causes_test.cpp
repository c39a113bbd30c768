// The words for each cause: the evidence as text, the hint of what to change, and the history of the call.
#include <sstream>

#include "report/causes/group_words.h"
#include "report/render/text/evidence_text.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/judge/cause_program.h"

using namespace culprit::report;
using namespace culprit::format;
using culprit::test::CauseProgram;
using culprit::test::has;
using culprit::test::live_allocation;

namespace {

std::string text_of(const Group& group) {
  const Palette palette(false);
  std::ostringstream out;
  const RenderOptions options;
  TextFields fields(palette, options, out);
  for (const Evidence& evidence : group.evidence) print_evidence(group, evidence, &fields);
  return out.str();
}

void refuse(CauseProgram& p, int code) { p.allocate(p.made, p.refused_free(code), kFlagFreeFailed); }

}  // namespace

TEST_CASE("the text of a leak has its evidence with the places, then a hint", "[report][causes]") {
  struct Row {
    const char* name;
    void (*happened)(CauseProgram& p);
    const char* text;
    const char* hint;
  };
  const Row rows[] = {
      {"no evidence", [](CauseProgram& p) { p.allocate(p.made); }, "", ""},
      {"a throw", [](CauseProgram& p) { p.allocate(p.made, p.thrown()); },
       "   thrown     app.cu:33  std::runtime_error \"residual is NaN\"\n"
       "   caught     app.cu:42  main\n",
       "no free on the path thrown at line 33: give the pointer an owner (RAII) before it"},
      {"a graph's launch",
       [](CauseProgram& p) {
         p.launch(p.stack({"run", "main"}, 21), 1);
       },
       "   launched   app.cu:21  run\n",
       "free it after the last launch: by cudaFreeAsync, or by a graph with a node that frees it"},
      {"launches of a graph",
       [](CauseProgram& p) {
         p.launch(p.stack({"run", "main"}, 21), 3);
       },
       "   launched   app.cu:21  run, 3 times\n",
       "free it after the last launch: by cudaFreeAsync, or by a graph with a node that frees it"},
      {"a throw that was not caught",
       [](CauseProgram& p) { p.allocate(p.made, p.thrown(p.throw_record(kThrowUncaught))); },
       "   thrown     app.cu:33  std::runtime_error \"residual is NaN\"\n"
       "   caught     nowhere: the program was terminated\n",
       "catch std::runtime_error in main: an uncaught exception runs no destructor"},
      {"forced unwinding",
       [](CauseProgram& p) {
         ThrowRecord record = p.throw_record(kThrowForced);
         record.type = record.what = 0;
         p.allocate(p.made, p.thrown(record));
       },
       "   unwound    app.cu:33  by pthread_exit or cancellation\n",
       "free it in a destructor or with pthread_cleanup_push: the thread is unwound without reaching the free"},
      {"a throw of unknown type, rethrown, with a second handler for it",
       [](CauseProgram& p) {
         ThrowRecord record = p.throw_record(kThrowCaught | kThrowRethrown);
         record.type = record.what = 0;
         p.allocate(p.made, p.thrown(record, kEvidenceAmbiguous));
       },
       "   thrown     app.cu:33  an exception of unknown type, rethrown\n"
       "   caught     app.cu:42  main (or another handler for the same type)\n",
       "no free on the path thrown at line 33: give the pointer an owner (RAII) before it"},
      {"a throw deep in a callee, through a library",
       [](CauseProgram& p) {
         const char* path = "/lib/libstdc++.so.6";
         const std::uint64_t inside = p.frame(path, p.dump.add_module(path), "std::__throw_length_error", 0);
         const std::uint64_t leaf = p.frame("/bin/app", p.module, "leaf", 5);
         const std::uint64_t middle = p.frame("/bin/app", p.module, "middle", 9);
         const std::uint64_t step = p.frame("/bin/app", p.module, "step", 34);
         ThrowRecord record = p.throw_record();
         record.stack = p.dump.add_stack({inside, leaf, middle, step, p.main_frame});
         p.allocate(p.made, p.thrown(record));
       },
       "   thrown     app.cu:5   std::runtime_error \"residual is NaN\"\n"
       "              app.cu:9  middle\n"
       "   caught     app.cu:42  main\n",
       "no free on the path thrown at line 5: give the pointer an owner (RAII) before it"},
      {"a failed call that CULPRIT_FAIL made fail",
       [](CauseProgram& p) { p.allocate(p.made, p.failed_call(0, 2, kFailedInjected)); },
       "   failed     app.cu:36  cuMemcpyHtoD: CUDA_ERROR_INVALID_VALUE (injected)\n",
       "no free on the path after cuMemcpyHtoD failed at line 36: free before returning, or give the pointer an owner "
       "(RAII)"},
      {"a global", [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9008); }, "   held by    g_cache+0x8 in app\n",
       "`g_cache` still has the pointer at exit: free it before main returns"},
      {"eight pointers in a global",
       [](CauseProgram& p) {
         for (std::uint64_t i = 0; i < 8; ++i) p.hold(p.allocate(p.made), 0x9000 + i * 8);
       },
       "   held by    g_cache in app, 8 pointers\n",
       "`g_cache` still has the pointers at exit: free them before main returns"},
      {"a global without a symbol", [](CauseProgram& p) { p.hold(p.allocate(p.made), 0x9800); },
       "   held by    app+0x9800 (a global without a symbol)\n",
       "a global of app still has the pointer at exit: free it before main returns"},
      {"a global, and a throw", [](CauseProgram& p) { p.hold(p.allocate(p.made, p.thrown()), 0x9000); },
       "   held by    g_cache in app\n"
       "   thrown     app.cu:33  std::runtime_error \"residual is NaN\"\n"
       "   caught     app.cu:42  main\n",
       "`g_cache` still has the pointer at exit: free it before main returns"},
      {"the end of its context", [](CauseProgram& p) { p.tear_down(); },
       "   ended by   cuDevicePrimaryCtxReset at 0.00 ms\n"
       "              app.cu:77  reset\n"
       "              app.cu:77  main\n",
       "free it before cuDevicePrimaryCtxReset at line 77"},
      {"a refused free", [](CauseProgram& p) { refuse(p, 1); },
       "   refused    cuMemFree: CUDA_ERROR_INVALID_VALUE, 2 times\n"
       "              app.cu:50  drop\n"
       "              app.cu:50  main\n",
       ""},
      {"a free refused after an illegal address", [](CauseProgram& p) { refuse(p, 700); },
       "   refused    cuMemFree: CUDA_ERROR_ILLEGAL_ADDRESS, 2 times\n"
       "              app.cu:50  drop\n"
       "              app.cu:50  main\n",
       "cuMemFree returned 700 from an earlier kernel error: the memory stays until the context ends"},
      {"a free refused after a launch failure", [](CauseProgram& p) { refuse(p, 719); },
       "   refused    cuMemFree: CUDA_ERROR_LAUNCH_FAILED, 2 times\n"
       "              app.cu:50  drop\n"
       "              app.cu:50  main\n",
       "cuMemFree fails since a kernel failed: find it with compute-sanitizer; the memory stays until the context "
       "ends"},
      {"a free refused after the end of the context", [](CauseProgram& p) { refuse(p, 709); },
       "   refused    cuMemFree: CUDA_ERROR_CONTEXT_IS_DESTROYED, 2 times\n"
       "              app.cu:50  drop\n"
       "              app.cu:50  main\n",
       "cuMemFree came after the end of the memory's context: free before the context is destroyed"},
  };
  for (const Row& row : rows) {
    CauseProgram program;
    row.happened(program);
    const Report report = program.report();
    INFO(row.name);
    REQUIRE(report.leaks.size() == 1);
    CHECK(text_of(report.leaks[0]) == row.text);
    CHECK(hint_for(report.leaks[0], false) == row.hint);
  }
}

TEST_CASE("the hint names a thread that ended without a free, of a program that has ended", "[report][causes]") {
  CauseProgram program;
  AllocationRecord record = live_allocation(program.made, 64);
  const std::uint32_t alive = program.dump.add_thread(10, "main");
  record.thread = program.dump.add_thread(11, "worker-3", ThreadState::kEnded);
  program.dump.add_allocation(record);
  const Report ended = program.report();
  CHECK(has(hint_for(ended.leaks.at(0), false), "thread \"worker-3\" ended without a free"));
  CHECK(hint_for(ended.leaks.at(0), true).empty());
  record.thread = alive;
  program.dump.add_allocation(record);
  CHECK(hint_for(program.report().leaks.at(0), false).empty());
}

TEST_CASE("the owner of memory is the frame at the recorded depth, counted from the outermost", "[report][causes]") {
  CauseProgram program;
  program.allocate(program.stack({"make", "step", "main"}), program.failed_call(0, 2));
  CHECK(program.report().leaks.at(0).evidence.at(0).owner->function == "step");
  CauseProgram thrown;
  thrown.allocate(thrown.stack({"make", "step", "main"}), thrown.thrown(thrown.throw_record(), 0, 3));
  CHECK(thrown.report().leaks.at(0).evidence.at(0).owner->function == "make");
}

TEST_CASE("the history says how often the call was freed, and how the others were lost", "[report][causes]") {
  struct Row {
    const char* name;
    int thrown, held, never_freed;
    std::uint64_t calls;
    std::map<Cause, std::string> histories;
  };
  const Row rows[] = {
      {"none was freed", 1, 0, 0, 0, {{Cause::kException, ""}}},
      {"one was lost",
       1,
       0,
       0,
       100,
       {{Cause::kException,
         "freed in 99 of 100 calls; the one that leaked left through std::runtime_error thrown at app.cu:33"}}},
      {"three were lost in one way",
       3,
       0,
       0,
       100,
       {{Cause::kException,
         "freed in 97 of 100 calls; the 3 that leaked all left through std::runtime_error thrown at app.cu:33"}}},
      {"five were lost in three ways",
       3,
       1,
       1,
       100,
       {{Cause::kException,
         "freed in 95 of 100 calls; 3 of the 5 that leaked left through std::runtime_error thrown at app.cu:33"},
        {Cause::kHeld, "freed in 95 of 100 calls; 1 of the 5 that leaked is held by `g_cache`"},
        {Cause::kNeverFreed, "freed in 95 of 100 calls"}}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CauseProgram program;
    const Ref stack = program.made_in(row.calls);
    const Ref thrown = program.thrown();
    for (int i = 0; i < row.thrown; ++i) program.allocate(stack, thrown);
    for (int i = 0; i < row.held; ++i) program.hold(program.allocate(stack), 0x9000);
    for (int i = 0; i < row.never_freed; ++i) program.allocate(stack);
    std::map<Cause, std::string> histories;
    const Report report = program.report();
    for (const Group& group : report.leaks) histories[group.cause] = history_text(group);
    CHECK(histories == row.histories);
  }
}

TEST_CASE("lost memory has its sum, its fate and a hint", "[report][causes]") {
  CauseProgram program;
  const Ref stack = program.made_in(10);
  program.lose(program.allocate(stack));
  program.lose(program.allocate(stack), kOnlyLostPointerLeft);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  const Group& group = report.leaks[0];
  CHECK(group.evidence.at(0).count == 2);
  CHECK(group.evidence.at(0).indirectly == 1);
  CHECK(history_text(group) == "freed in 8 of 10 calls; the 2 that leaked all are lost");
  CHECK(hint_for(group, false) == "other calls of this line are freed: look for the path that misses the free");
  CauseProgram alone;
  alone.lose(alone.allocate(alone.made));
  CHECK(hint_for(alone.report().leaks.at(0), false) ==
        "no code can free it any more: free where the last pointer is dropped or overwritten, or give it an owner "
        "(RAII)");
}

TEST_CASE("two records of one throw do not count the calls twice", "[report][causes]") {
  CauseProgram program;
  const Ref stack = program.made_in(100);
  const ThrowRecord same = program.throw_record();
  program.allocate(stack, program.thrown(same));
  program.allocate(stack, program.thrown(same));
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].made == 100);
  CHECK(report.leaks[0].freed == 98);
  CHECK(report.leaks[0].evidence.at(0).count == 2);
}

TEST_CASE("text of a hostile dump cannot reach the terminal", "[report][causes]") {
  CauseProgram program;
  ThrowRecord thrown = program.throw_record();
  thrown.type = program.dump.add_string("\x1b[31mType");
  thrown.what = program.dump.add_string("red\x1b[0m\nnext\x07");
  program.allocate(program.made, program.thrown(thrown));
  const Report report = program.report();
  const std::string text = text_of(report.leaks.at(0)) + hint_for(report.leaks[0], false);
  CHECK_FALSE(has(text, "\x1b"));
  CHECK_FALSE(has(text, "\x07"));
  CHECK(has(text, "red?[0m?next?"));
}

TEST_CASE("a leak in a module whose exceptions cannot be seen has a note", "[report][causes]") {
  auto notes_of = [](CauseProgram& program) {
    std::string all;
    for (const std::string& note : program.report().notes) all += note + "\n";
    return all;
  };
  CauseProgram program;
  program.allocate(program.made);
  CHECK_FALSE(has(notes_of(program), "could not be observed"));
  program.symbols.set_own_unwinder("/bin/app");
  CHECK(has(notes_of(program), "exceptions that app throws could not be observed"));
  CauseProgram thrown;
  thrown.symbols.set_own_unwinder("/bin/app");
  thrown.allocate(thrown.made, thrown.thrown());
  CHECK_FALSE(has(notes_of(thrown), "could not be observed"));
}
