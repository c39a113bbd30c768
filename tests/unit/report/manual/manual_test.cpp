// The pages of the manual, and their text on a terminal.
#include "report/manual/manual.h"

#include <algorithm>
#include <string>
#include <vector>

#include "report/manual/page_text.h"
#include "tests/catch.h"
#include "tests/support/pattern.h"
#include "tests/support/text.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::test;

TEST_CASE("culprit help shows each page of the manual", "[report][manual][one-thread]") {
  const std::vector<std::string> topics = manual_topics();
  CHECK(topics.size() >= 15);
  const std::string general = shell("CULPRIT help").out;
  const std::string completion = shell("CULPRIT completion bash").out;
  for (const std::string& topic : topics) {
    INFO(topic);
    CHECK(matches(manual_title(topic), "[A-Z].*: .*"));
    CHECK(has(general, topic));
    CHECK(has(completion, " " + topic));
    const Finished page = shell("CULPRIT help " + topic);
    CHECK(page.exit_code == 0);
    CHECK(has(page.out, manual_title(topic) + "\n===="));
    // Links lead to pages that exist, and nothing of the marks of Markdown and of the test stays.
    for (const std::string& link : first_groups(page.out, "culprit help ([a-z-]+)")) {
      INFO(link);
      CHECK(std::count(topics.begin(), topics.end(), link) == 1);
    }
    for (const char* mark : {"<!--", "](", "```", "| ---", "**"}) {
      INFO(mark);
      CHECK_FALSE(contains(page.out, mark));
    }
  }
  CHECK(manual_page("no-such-page").empty());
  CHECK(manual_title("no-such-page").empty());
}

TEST_CASE("a command's options come before the page of its name", "[report][manual]") {
  const std::string out = shell("CULPRIT help attach").out;
  const std::string options = shell("CULPRIT attach --help").out;
  CHECK(out == options + "\n" + page_text(manual_page("attach"), 100));
  const Finished similar = shell("CULPRIT help troubelshooting");
  CHECK(similar.exit_code == 2);
  CHECK(has(similar.err, "troubelshooting is no command (did you mean troubleshooting?)"));
}

TEST_CASE("a page becomes plain text of a width", "[report][manual]") {
  const std::string page =
      "# Title: of a page\n\n<!-- setup: hidden -->\n```text\na line that is wider than the columns | a | b |\n```\n\n"
      "A paragraph with [words](page.md), [a file](../x.cpp),\n[the web](https://a.org/b) and `[code](x)` in "
      "**bold**.\n\n"
      "- one item that needs\n  two lines\n- two\n\n## Part\n\n| head | meaning |\n| --- | --- |\n| `a\\|b` | words "
      "that are broken at blanks |\n\n```sh\ncommand\n```\n";
  CHECK(page_text(page, 30) ==
        "Title: of a page\n================\n\n"
        "    a line that is wider than the columns | a | b |\n\n"
        "A paragraph with words\n(culprit help page), a file,\nthe web (https://a.org/b) and\n`[code](x)` in bold.\n\n"
        "- one item that needs two\n  lines\n- two\n\n"
        "Part\n----\n\n"
        "  head   meaning\n  `a|b`  words that are broken\n         at blanks\n\n    $ command\n");
  CHECK(page_text("[Exit codes](exit-codes.md#gates)", 30) == "culprit help exit-codes\n");
  CHECK(page_text("", 30).empty());
  CHECK(page_text("word", 1) == "word\n");
  CHECK(page_text("[no link](", 30) == "[no link](\n");
}
