// Columns of a terminal: wide characters, combining marks, emoji of several parts.
#include "report/base/text_width.h"

#include "tests/catch.h"

using namespace culprit::report;

namespace {

constexpr char kFamily[] = "\U0001f468\u200d\U0001f469\u200d\U0001f467";  // one picture of three
constexpr char kFlag[] = "\U0001f1e9\U0001f1ea";
constexpr char kAccents[] = "e\u0301\u0323";

}  // namespace

TEST_CASE("columns are those that a terminal shows", "[report][width]") {
  const struct {
    const char* text;
    std::size_t columns;
  } kCases[] = {
      {"", 0},
      {"Solver::step", 12},
      {"größe", 5},
      {"память", 6},
      {"漢字", 4},
      {"メモリ", 6},
      {"ﾒﾓﾘ", 3},  // half width
      {"한국", 4},
      {"\u1112\u1161\u11ab", 2},  // one syllable of three parts
      {kAccents, 1},
      {"\U0001f44d\U0001f3fd", 2},  // with a colour of the skin
      {kFamily, 2},
      {kFlag, 2},
      {"\u2764\ufe0f", 2},
      {"a · b → c", 9},
      {"\xff\xe3\x83", 3},  // no UTF-8
  };
  for (const auto& one : kCases) {
    INFO(one.text);
    CHECK(columns_of(one.text) == one.columns);
    CHECK(columns_of(padded_to_width(one.text, 20)) == 20);
    CHECK(padded_to_width(one.text, one.columns) == one.text);
    CHECK(cut_to_width(one.text, one.columns, "...") == one.text);
  }
}

TEST_CASE("text is cut between the characters that a reader sees", "[report][width]") {
  CHECK(cut_to_width("abcdef", 3) == "abc");
  CHECK(cut_to_width("abcdef", 3, "...") == "abc...");
  CHECK(cut_to_width("漢字列", 4) == "漢字");
  CHECK(cut_to_width("漢字列", 5) == "漢字");
  CHECK(cut_to_width("漢字列", 0, "…") == "…");
  CHECK(cut_to_width(std::string(kAccents) + kAccents, 1) == kAccents);
  CHECK(cut_to_width(std::string("a") + kFamily + "b", 2) == "a");
  CHECK(cut_to_width(std::string("a") + kFamily + "b", 3) == std::string("a") + kFamily);
  CHECK(cut_to_width(std::string(kFlag) + kFlag, 3) == kFlag);
}

TEST_CASE("text is cut to bytes between two code points", "[report][width]") {
  CHECK(cut_to_bytes("abc", 3) == "abc");
  CHECK(cut_to_bytes("abcd", 3) == "abc");
  CHECK(cut_to_bytes("a漢字", 3) == "a");
  CHECK(cut_to_bytes("a漢字", 4) == "a漢");
  CHECK(cut_to_bytes("\U0001f44d", 3).empty());
  CHECK(cut_to_bytes("\x80\x80\x80\x80\x80\x80", 5).size() >= 2);
}
