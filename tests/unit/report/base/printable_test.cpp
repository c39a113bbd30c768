// The text that printable() lets pass, and that streams pass on nothing else.
#include <sstream>

#include "report/base/printable.h"
#include "report/base/printable_stream.h"
#include "tests/catch.h"

using namespace culprit::report;

TEST_CASE("text of any language is printable", "[report][printable]") {
  for (const char* text : {"", "Solver::step(int)", "größe", "メモリ", "память", "👍🏽", "a\u200db"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("controls, overrides and bytes that are no UTF-8 are not", "[report][printable]") {
  CHECK(printable("a\x1b[31mb\n\t\r\x7f") == "a?[31mb????");
  CHECK(printable("\u009b31m\u009d0;x\u0085") == "?31m?0;x?");
  CHECK(printable("a\u202eb\u2066c\u200fd\u2028e\u061cf\ufeffg\U000e0041h") == "a?b?c?d?e?f?g?h");
  CHECK(printable("\xff|\xc3|\xe3\x83|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\x9b") == "?|?|??|??|???|????|?");
  CHECK(printable("\uffff") == "?");
  CHECK(printable_lines("a\nb\x1b") == "a\nb?");
}

TEST_CASE("JSON keeps what it escapes", "[report][printable]") {
  CHECK(with_escapes("{\"a\": \"x\u009b\u202e\x7fy\U000e0041\"}\n") ==
        "{\"a\": \"x\\u009b\\u202e\\u007fy\\udb40\\udc41\"}\n");
  CHECK(with_printable_strings("\"x\u202e\\u001b\\\\u001b\\n\\t\\\"\\b\"") == "\"x??\\\\u001b\\n\\t\\\"?\"");
}

TEST_CASE("a stream passes on printable text only", "[report][printable]") {
  const auto passed = [](const std::vector<std::string>& parts, bool terminal, bool everything = false) {
    std::ostringstream out;
    {
      const PrintableStream guard(out, terminal);
      if (everything) pass_everything(out);
      for (const std::string& part : parts) out << part;
    }
    return out.str();
  };
  CHECK(passed({"\x1b[31mred\x1b[0m\r\u009b\n\t"}, false) == "?[31mred?[0m??\n\t");
  CHECK(passed({"\x1b[1;31mred\x1b[0m\r\x1b[K"}, true) == "\x1b[1;31mred\x1b[0m\r\x1b[K");
  CHECK(passed({"\x1b]0;title\x07\x1b[5n\x1b"}, true) == "?]0;title??[5n?");
  CHECK(passed({"\xe3", "\x83", "\xa1 \xc2", "\x9b \xe3\x83"}, false) == "メ ? ?");
  CHECK(passed({"\x1b\xff"}, false, true) == "\x1b\xff");
}
