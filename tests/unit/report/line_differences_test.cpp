// The text of a golden test that fails.
#include "tests/support/line_differences.h"

#include <string>
#include <vector>

#include "tests/catch.h"

using culprit::test::LineDifferences;

TEST_CASE("a golden test that fails prints the lines that differ", "[report][golden]") {
  using Lines = std::vector<std::string>;
  CHECK(LineDifferences("a\nb\nc\n", "a\nb\nc\n").lines.empty());
  CHECK(LineDifferences("a\nb\nc\n", "a\nx\nc\n").lines == Lines{"2 - b", "2 + x"});
  CHECK(LineDifferences("a\nb\nc\n", "a\nc\n").lines == Lines{"2 - b"});
  CHECK(LineDifferences("a\nc\n", "a\nb\nc\n").lines == Lines{"2 + b"});
  CHECK(LineDifferences("", "a\n").lines == Lines{"1 + a"});
  CHECK(LineDifferences("a\n", "a").lines == Lines{"1 - a", "1 + a (without an end of line)"});
  // A change at both ends of a text leaves the middle out.
  CHECK(LineDifferences("1\n2\n3\n4\n5\n", "x\n2\n3\n4\ny\n").lines == Lines{"1 - 1", "1 + x", "5 - 5", "5 + y"});

  std::string many;
  std::string others;
  for (int i = 0; i < 5000; ++i) {
    many += "line " + std::to_string(i) + "\n";
    others += "other " + std::to_string(i) + "\n";
  }
  const LineDifferences large(many, others);
  CHECK(large.lines.size() == 10000);
  CHECK(large.lines[1] == "1 + other 0");
  const std::string text = large.text();
  CHECK(text.size() < 2000);
  CHECK(text.find("... and 9960 more lines\n") != std::string::npos);

  const std::string before(5000, 'x');
  const std::string long_text = LineDifferences(before + "old" + before, before + "new" + before).text();
  CHECK(long_text.size() < 500);
  CHECK(long_text.find("xxold") != std::string::npos);
  CHECK(long_text.find("xxnew") != std::string::npos);
}
