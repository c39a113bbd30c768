// Texts are cut between two characters.
#include "interpose/base/utf8.h"

#include <string>

#include "tests/catch.h"

using culprit::length_up_to;

TEST_CASE("a text is cut before the character that does not fit", "[text]") {
  CHECK(length_up_to("", 4) == 0);
  CHECK(length_up_to("abc", 4) == 3);
  CHECK(length_up_to("abcdef", 4) == 4);
  for (const std::string character : {"\u00e4", "\u6f22", "\U0001f44d"}) {
    for (std::size_t before = 0; before < 5; ++before) {
      const std::string text = std::string(before, 'a') + character + "b";
      for (std::size_t most = 0; most <= text.size(); ++most) {
        const std::size_t length = length_up_to(text.c_str(), most);
        const bool divided = most > before && most < before + character.size();
        CHECK(length == (divided ? before : most));
      }
    }
  }
}

TEST_CASE("bytes that are no UTF-8 are cut anywhere", "[text]") {
  CHECK(length_up_to("\x80\x80\x80\x80\x80", 4) == 4);
  CHECK(length_up_to("\xff\x80\x80\x80\x80", 5) == 5);
}
