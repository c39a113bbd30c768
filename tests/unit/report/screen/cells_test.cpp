// Sparklines, bars, and their characters.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "report/base/text_width.h"
#include "report/screen/cells.h"
#include "tests/catch.h"

using namespace culprit::report;

TEST_CASE("a sparkline goes from the lowest to the highest value", "[report][screen]") {
  CHECK(sparkline({}, 10).empty());
  CHECK(sparkline({5}, 0).empty());
  CHECK(sparkline({7, 7, 7}, 10) == "▁▁▁");
  CHECK(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 10) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline({9, 0, 7}, 2) == "▁█");
  CHECK(sparkline({std::nan(""), std::numeric_limits<double>::infinity(), 7}, 3) == "▁▁█");
  CHECK(in_ascii(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8)) == "_.-=+*%#");
}

TEST_CASE("a bar has a column for each part that is not empty, and no more than its width", "[report][screen]") {
  const std::vector<BarPart> parts = {
      {1, Style::kAllocated, "#"}, {0, Style::kCached, "="}, {1000000, Style::kDriver, ":"}, {1, Style::kOthers, "o"}};
  CHECK(text_of(bar(parts, 2000000, 10, " ")) == "#:::::o   ");
  CHECK(text_of(bar(parts, 0, 10, " ")) == "#::::::::o");
  CHECK(text_of(bar(parts, 1, 3, " ")) == "#:o");
  for (std::size_t width = 0; width < 30; ++width) CHECK(columns_of(text_of(bar(parts, 1500000, width, "."))) == width);
  CHECK(text_of(bar({}, 0, 3, ".")) == "...");
}

TEST_CASE("lines are cut and filled by columns", "[report][screen]") {
  CHECK(text_of(fitted({{"abc", Style::kPlain}, {"def", Style::kBad}}, 4)) == "abcd");
  CHECK(text_of(fitted({{"a", Style::kPlain}}, 4)) == "a   ");
  CHECK(text_of(fitted({{"漢字", Style::kPlain}}, 3)) == "漢 ");
  CHECK(text_of(fitted({}, 2)) == "  ");
}

TEST_CASE("another character set gets signs as wide as the characters", "[report][screen]") {
  CHECK(in_ascii("a · b▾") == "a - bv");
  CHECK(in_ascii("漢x") == "??x");
  CHECK(in_ascii("\xff\xfe") == "??");
}
