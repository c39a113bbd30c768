// Words of commands to type: a shell reads each word as the text that it was made from.
#include "report/base/shell_words.h"

#include "report/base/printable.h"
#include "tests/catch.h"
#include "tests/support/run_program.h"

using namespace culprit::report;

TEST_CASE("a shell reads a word as its text", "[report][shell]") {
  const std::string texts[] = {"",
                               "a",
                               "a b",
                               "it's",
                               "$HOME",
                               "`id`",
                               "a\"b",
                               "a\\b",
                               "*",
                               "~",
                               "#a",
                               "a;b",
                               "a&b",
                               "a>b",
                               "-n",
                               "caf\xc3\xa9",
                               "a\nb",
                               "a\x1b[2Jb",
                               "\xff\xfe",
                               "'\n'",
                               "\\\x01'",
                               "!a",
                               "{a,b}",
                               "\xe2\x80\xae"
                               "a",
                               "a=b",
                               "(a)",
                               "a\tb",
                               "[a]"};
  for (const std::string& text : texts) {
    const std::string word = shell_word(text);
    INFO(word);
    CHECK(printable(word) == word);
    const auto read = culprit::test::run_program({"/bin/bash", "-c", "printf '%s.' " + word}, {});
    CHECK(read.out == text + ".");
  }
}

TEST_CASE("plain words stay as they are, and no path is an option", "[report][shell]") {
  CHECK(shell_word("./a-b_c.dump") == "./a-b_c.dump");
  CHECK(shell_word("-n") == "-n");
  CHECK(shell_path("-n") == "./-n");
  CHECK(shell_path("-n o") == "'./-n o'");
  CHECK(shell_path("/tmp/my runs/a.dump") == "'/tmp/my runs/a.dump'");
  CHECK(shell_path("it's") == R"('it'\''s')");
  CHECK(shell_path("a\nb") == R"($'a\012b')");
  CHECK(shell_command({"./app", "--name", "a b", ""}) == "./app --name 'a b' ''");
}
