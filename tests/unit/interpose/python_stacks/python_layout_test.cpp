// Tables of lines and texts of CPython, byte by byte.
#include "interpose/python_stacks/python_layout.h"

#include "interpose/python_stacks/python_hash.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace culprit;

namespace {

std::uint32_t line(const std::vector<unsigned char>& table, std::int32_t first, std::int64_t offset,
                   LineTable kind = LineTable::kLocations) {
  return python_line(kind, table.data(), table.size(), first, offset);
}

// The head of an entry of the table: its code, and the number of code units.
unsigned char head(int code, int units) { return static_cast<unsigned char>(0x80 | code << 3 | (units - 1)); }

// A str: header, then characters of `width` bytes.
template <typename Character>
std::string text_of(const std::basic_string<Character>& characters, bool ascii, std::size_t capacity = 100) {
  PythonLayout layout = {};
  layout.text = {40, 56};
  std::vector<char> object(56 + characters.size() * sizeof(Character) + 8);
  const std::uint64_t length = characters.size();
  std::memcpy(&object[16], &length, sizeof(length));
  const std::uint32_t state = static_cast<std::uint32_t>(sizeof(Character) << 2 | 1U << 5 | (ascii ? 1U << 6 : 0));
  std::memcpy(&object[32], &state, sizeof(state));
  std::memcpy(&object[ascii ? 40 : 56], characters.data(), characters.size() * sizeof(Character));
  std::string text(capacity, '?');
  text.resize(python_text(layout, reinterpret_cast<std::uint64_t>(object.data()), text.data(), capacity));
  return text;
}

// Two frames of Python 3.11 or 3.12 in memory; the inner one's code object and table of lines can be changed.
struct TwoFrames {
  explicit TwoFrames(const PythonLayout& used) : layout(used) {
    for (int i = 0; i < 2; ++i) {
      put(tables[i], kPythonSizeOffset, 40);
      put(codes[i], layout.code.line_table, at(tables[i]));
      put(codes[i], layout.code.name, 0x5000);
      put(frames[i], layout.frame.code, at(codes[i]));
      put(frames[i], layout.frame.instruction, at(codes[i]) + layout.code.instructions + 20);
    }
    put(frames[0], layout.frame.previous, at(frames[1]));
  }
  static std::uint64_t at(const unsigned char* object) { return reinterpret_cast<std::uint64_t>(object); }
  static void put(unsigned char* object, std::size_t offset, std::uint64_t value) {
    std::memcpy(object + offset, &value, sizeof(value));
  }
  std::uint64_t hash(unsigned long version, int depth = 64) const {
    return python_hash(version, layout)(layout, at(frames[0]), depth);
  }

  const PythonLayout layout;
  alignas(8) unsigned char frames[2][128] = {}, codes[2][256] = {}, tables[2][128] = {};
};

}  // namespace

TEST_CASE("each difference between Python stacks changes their number", "[python_layout]") {
  for (const unsigned long version : {0x030b07f0UL, 0x030c03f0UL}) {
    PythonLayout layout;
    REQUIRE(python_layout(version, 0, &layout));
    TwoFrames stack(layout);
    const std::uint64_t first = stack.hash(version);
    CHECK(first != 0);
    CHECK(stack.hash(version) == first);
    CHECK(stack.hash(0x030d00f0) == first);  // the same without knowing the layout beforehand
    CHECK(stack.hash(version, 1) != first);
    stack.put(stack.frames[1], layout.frame.instruction, stack.at(stack.codes[1]) + layout.code.instructions + 22);
    CHECK(stack.hash(version) != first);
    stack.put(stack.frames[1], layout.frame.instruction, stack.at(stack.codes[1]) + layout.code.instructions + 20);
    CHECK(stack.hash(version) == first);
    // Another code object at the same address: each time one member differs.
    for (const std::size_t offset : {std::size_t{0}, std::size_t{16}, std::size_t{32}}) {
      unsigned char& byte = stack.tables[0][kPythonBytesOffset + offset];
      byte ^= 1;
      CHECK(stack.hash(version) != first);
      byte ^= 1;
    }
    stack.put(stack.codes[0], layout.code.name, 0x5008);
    CHECK(stack.hash(version) != first);
    stack.put(stack.codes[0], layout.code.name, 0x5000);
    stack.codes[0][layout.code.first_line] ^= 1;
    CHECK(stack.hash(version) != first);
    stack.codes[0][layout.code.first_line] ^= 1;
    CHECK(stack.hash(version) == first);
    stack.tables[0][kPythonSizeOffset] = 7;  // a short table
    CHECK(stack.hash(version) != first);
    // Addresses that are not frames.
    CHECK(python_hash(version, layout)(layout, 0, 64) == 0);
    CHECK(python_hash(version, layout)(layout, 0x7001, 64) == 0);
    stack.put(stack.frames[1], layout.frame.code, 12);
    CHECK(stack.hash(version) == 0);
  }
}

TEST_CASE("where code objects have versions nothing else is asked for", "[python_layout]") {
  constexpr unsigned long kVersion = 0x030c03f0;
  PythonLayout layout;
  REQUIRE(python_layout(kVersion, 0, &layout));
  TwoFrames stack(layout);
  const std::uint64_t without = stack.hash(kVersion);
  auto set_version = [&](int code, unsigned char version) { stack.codes[code][layout.code.version] = version; };
  set_version(0, 1);
  set_version(1, 2);
  const std::uint64_t first = stack.hash(kVersion);
  CHECK(first != without);
  CHECK(stack.hash(0x030d00f0) == first);
  set_version(1, 3);
  CHECK(stack.hash(kVersion) != first);
  set_version(1, 2);
  stack.put(stack.codes[1], layout.code.line_table, 12);  // not read
  stack.put(stack.codes[1], layout.code.name, 12);
  CHECK(stack.hash(kVersion) == first);
  stack.put(stack.frames[0], layout.frame.instruction, stack.at(stack.codes[0]) + layout.code.instructions + 22);
  CHECK(stack.hash(kVersion) != first);
}

TEST_CASE("each kind of entry of Python's table of lines is read", "[python_layout]") {
  const std::vector<unsigned char> table = {
      head(0, 1),  0x12,                        // same line, short columns
      head(11, 2), 1,           2,              // one line on, columns
      head(13, 1), 0x05,                        // two lines back, no columns
      head(14, 8), 0x40 | 0x20, 0x02, 0, 1, 2,  // 80 lines on, all columns
      head(15, 1),                              // no line
      head(10, 1), 0,           0,              // the same as before that
  };
  CHECK(line(table, 100, 0) == 100);
  CHECK(line(table, 100, 2) == 101);
  CHECK(line(table, 100, 5) == 101);
  CHECK(line(table, 100, 6) == 99);
  CHECK(line(table, 100, 8) == 179);
  CHECK(line(table, 100, 23) == 179);
  CHECK(line(table, 100, 24) == 0);
  CHECK(line(table, 100, 26) == 179);
  CHECK(line(table, 100, 28) == 0);
  CHECK(line({}, 100, 0) == 0);
}

TEST_CASE("the tables of lines of Python 3.9 and 3.10 are read", "[python_layout]") {
  const auto steps = [](std::int64_t offset) {
    return line({0, 1, 6, 255, 255, 0, 3, 127, 0, 2, 9}, 100, offset, LineTable::kSteps);
  };
  CHECK(steps(-1) == 100);
  CHECK(steps(0) == 101);
  CHECK(steps(5) == 101);
  CHECK(steps(6) == 100);
  CHECK(steps(263) == 100);
  CHECK(steps(264) == 229);  // 129 lines in two steps; the odd byte at the end is none
  CHECK(line({}, 100, 0, LineTable::kSteps) == 100);

  const auto ranges = [](std::int64_t offset) {
    return line({4, 1, 0, 127, 2, 3, 2, 128, 6, 250, 1}, 100, offset, LineTable::kRanges);
  };
  CHECK(ranges(-2) == 100);
  CHECK(ranges(0) == 101);
  CHECK(ranges(3) == 101);
  CHECK(ranges(4) == 231);
  CHECK(ranges(6) == 0);  // entries without a line
  CHECK(ranges(8) == 225);
  CHECK(ranges(14) == 0);  // past the end
}

TEST_CASE("a table of lines that is cut off is read to its end only", "[python_layout]") {
  CHECK(line({head(14, 1), 0x40}, 100, 0) == 100);
  CHECK(line({head(14, 1)}, 100, 2) == 0);
}

TEST_CASE("Python's texts become UTF-8", "[python_layout]") {
  CHECK(text_of<char>("train.py", true) == "train.py");
  CHECK(text_of<char>("gr\xf6\xdf"
                      "e.py",
                      false) ==
        "gr\xc3\xb6\xc3\x9f"
        "e.py");
  CHECK(text_of<char16_t>(u"\u6f22.py", false) == "\xe6\xbc\xa2.py");
  CHECK(text_of<char32_t>(U"\U0001f600", false) == "\xf0\x9f\x98\x80");
  // An undecodable byte of a file name.
  CHECK(text_of<char16_t>(std::u16string(1, 0xdcff), false) == "\xef\xbf\xbd");
  CHECK(text_of<char>("train.py", true, 5) == "train");
  CHECK(text_of<char16_t>(u"a\u6f22", false, 3) == "a");  // no half characters
}

TEST_CASE("only versions whose layout is known are read", "[python_layout]") {
  PythonLayout layout;
  CHECK(python_layout(0x030900f0, 0, &layout));
  CHECK(layout.code.lines == LineTable::kSteps);
  CHECK(python_layout(0x030a00f0, 0, &layout));
  CHECK(layout.code.lines == LineTable::kRanges);
  CHECK(python_layout(0x030b07f0, 0, &layout));
  CHECK(layout.frame.is_entry != 0);
  CHECK(layout.frame_object.unit == 0);
  CHECK(python_layout(0x030c03f0, 0, &layout));
  CHECK_FALSE(python_layout(0x030800f0, 0, &layout));
  CHECK_FALSE(python_layout(0x030f00f0, 0, &layout));
  CHECK_FALSE(python_layout(0x040b00f0, 0, &layout));
}

TEST_CASE("Python 3.13 and 3.14 say where they keep things", "[python_layout]") {
  struct Version {
    unsigned long number;
    int current_frame, object_type, ascii_size;
    std::uint16_t tags;
    int local_names;
  };
  for (const Version& version : {Version{0x030d00f0, 23, 45, 70, 0, 41}, Version{0x030e0af0, 26, 51, 80, 3, 0}}) {
    PythonLayout layout;
    std::uint64_t offsets[128] = {};
    const auto runtime = reinterpret_cast<std::uint64_t>(offsets);
    CHECK_FALSE(python_layout(version.number, runtime, &layout));
    std::memcpy(offsets, "xdebugpy", 8);
    offsets[1] = version.number;
    offsets[version.current_frame] = 72;
    offsets[version.object_type] = 8;
    offsets[version.ascii_size] = 40;
    if (version.local_names != 0) offsets[version.local_names] = 96;
    CHECK(python_layout(version.number, runtime, &layout));
    CHECK(layout.thread.current_frame == 72);
    CHECK(layout.text.compact == 56);
    CHECK(layout.frame.tags == version.tags);
    CHECK(layout.code.version == (version.local_names == 0 ? 0 : 92));
    if (version.local_names != 0) {
      offsets[version.local_names] = 0;
      CHECK(python_layout(version.number, runtime, &layout));
      CHECK(layout.code.version == 0);
    }
    offsets[version.ascii_size] = 1ULL << 40;  // nonsense
    CHECK_FALSE(python_layout(version.number, runtime, &layout));
    offsets[version.ascii_size] = 40;
    offsets[2] = 1;  // without the GIL
    CHECK_FALSE(python_layout(version.number, runtime, &layout));
  }
}
