// Which variables of functions were assigned anew: what the search found, and what speaks against it.
#include <functional>

#include "report/model/overwritten.h"
#include "tests/catch.h"
#include "tests/unit/report/judge/cause_program.h"

using namespace culprit::report;
using namespace culprit::format;
using culprit::test::CauseProgram;

namespace {

constexpr std::int64_t kBuffer = -24;    // of main()
constexpr std::int64_t kInner = -40;     // of a block in step()
constexpr std::int64_t kOneOfAll = -64;  // an element of an array
constexpr std::uint32_t kMain = 1;       // depths of the functions
constexpr std::uint32_t kStep = 2;

// Three allocations of one line, of which the search calls two lost.
struct OverwritingProgram : CauseProgram {
  Ref last = 0;

  OverwritingProgram() {
    symbols.add_local("/bin/app", kBuffer, named("buffer", "main"));
    PointerPathName inner = named("inner", "step");
    inner.in_block = true;
    symbols.add_local("/bin/app", kInner, inner);
    PointerPathName element = named("all[1]", "main");
    element.one_of_several = true;
    symbols.add_local("/bin/app", kOneOfAll, element);
  }

  static PointerPathName named(const char* name, const char* function) {
    PointerPathName path;
    path.exact = name;
    path.function = function;
    path.typed = true;
    return path;
  }

  void lose_two(Ref evidence = 0) {
    for (int i = 0; i < 2; ++i) lose(allocate(made, evidence));
    last = allocate(made);
  }

  void found_in(std::int64_t offset, std::uint32_t depth = kMain, std::uint32_t generation = 1) {
    LastHolderRecord record = {};
    record.state = generation << kStateBits | 1;
    record.allocation = last;
    record.place = main_frame;
    record.offset = offset;
    record.depth = depth;
    dump.add_last_holder(record);
  }

  std::string overwritten() {
    std::string text;
    for (const Overwritten& one : report().overwritten) {
      text += std::string(overwritten_place_name(one.place)) + " " + one.variable + " of " + one.function + " in " +
              one.module + ", " + std::to_string(one.count) + "x " + std::to_string(one.bytes) + ";";
    }
    return text;
  }
};

struct OverwrittenRow {
  const char* name;
  std::function<void(OverwritingProgram& p)> happened;
  const char* overwritten;
};

}  // namespace

TEST_CASE("a variable of a function is overwritten where nothing speaks against it", "[report][overwritten]") {
  const OverwrittenRow rows[] = {
      {"a variable",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kBuffer);
       },
       "local buffer of main in /bin/app, 2x 128;"},
      {"one of a block",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kInner, kStep);
       },
       "block inner of step in /bin/app, 2x 128;"},
      {"two functions have it: the outer one",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kInner, kStep);
         p.found_in(kBuffer);
       },
       "local buffer of main in /bin/app, 2x 128;"},
      {"a place without a name beside it",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(-8);
         p.found_in(kBuffer);
       },
       "local buffer of main in /bin/app, 2x 128;"},
      {"no name",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(-8);
       },
       ""},
      {"an element of an array",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kOneOfAll);
       },
       ""},
      {"a function that is not in the stack",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kBuffer, 3);
         p.found_in(kBuffer, 0);
         p.found_in(kBuffer, 0xffffffff);
       },
       ""},
      {"the record was used again",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kBuffer, kMain, 2);
       },
       ""},
      {"another one of the line is left",
       [](OverwritingProgram& p) {
         p.lose_two();
         p.found_in(kBuffer);
         p.allocate(p.made);
       },
       ""},
      {"an exception lost them",
       [](OverwritingProgram& p) {
         p.lose_two(p.thrown());
         p.found_in(kBuffer);
       },
       ""},
      {"none is lost",
       [](OverwritingProgram& p) {
         p.last = p.allocate(p.made);
         p.found_in(kBuffer);
       },
       ""},
  };
  for (const OverwrittenRow& row : rows) {
    INFO(row.name);
    OverwritingProgram program;
    row.happened(program);
    CHECK(program.overwritten() == row.overwritten);
  }
}
