#include "interpose/python_stacks/python_layout.h"

#include "interpose/format/python_versions.h"

namespace culprit {
namespace {

constexpr PythonLayout kPythonLayout39 = {
    {0, 24, 176}, {}, {}, {32, 24, 48, 104, 1}, {104, 112, 120, 40, 0, 0, 48, 0, LineTable::kSteps}, {48, 72}};
constexpr PythonLayout kPythonLayout310 = {
    {48, 24, 176}, {0, 8}, {}, {32, 24, 48, 96, 2}, {104, 112, 120, 40, 0, 0, 48, 0, LineTable::kRanges}, {48, 72}};

// _Py_DebugOffsets: a cookie, the version, whether the build has no GIL, then offsets, all of 8 bytes. This struct has
// the indexes of the necessary offsets, for each version.
struct DebugOffsets {
  std::uint8_t thread_current_frame, thread_id;
  std::uint8_t frame_previous, frame_executable, frame_instruction, frame_owner;
  std::uint8_t code_file, code_qualified_name, code_line_table, code_first_line, code_instructions;
  std::uint8_t object_type, ascii_size;  // the last
  std::uint8_t executable_tags;          // tag bits of frame_executable, outside the pointer
  std::uint8_t code_local_names;         // co_localsplusnames, which follows the int co_version; 0 = not known
};
constexpr DebugOffsets kDebugOffsets313 = {23, 24, 29, 30, 31, 33, 35, 37, 38, 39, 43, 45, 70, 0, 41};
constexpr DebugOffsets kDebugOffsets314 = {26, 27, 32, 33, 34, 36, 40, 42, 43, 44, 48, 51, 80, 3, 0};
constexpr int kVersion = 1;
constexpr int kFreeThreaded = 2;

// How many entries of the interpreter's table a row needs; the most of all rows.
constexpr int entries_of(const PythonLayout&) { return 0; }
constexpr int entries_of(const DebugOffsets& numbers) { return numbers.ascii_size + 1; }
constexpr int most_entries() {
  int most = 0;
#define PYTHON_VERSION(minor, layout) most = entries_of(layout) > most ? entries_of(layout) : most;
#include "interpose/format/python_versions.def"
  return most;
}

bool make_layout(const PythonLayout& table, unsigned long, std::uint64_t, PythonLayout* layout) {
  *layout = table;
  return true;
}

bool make_layout(const DebugOffsets& numbers, unsigned long version, std::uint64_t runtime, PythonLayout* layout) {
  std::uint64_t offsets[most_entries()];
  __builtin_memcpy(offsets, reinterpret_cast<const void*>(runtime), (numbers.ascii_size + 1) * sizeof(offsets[0]));
  if (__builtin_memcmp(offsets, "xdebugpy", 8) != 0 || offsets[kVersion] >> 16 != version >> 16 ||
      offsets[kFreeThreaded] != 0 || offsets[numbers.object_type] != kPythonTypeOffset) {
    return false;
  }
  for (int i = numbers.thread_current_frame; i <= numbers.ascii_size; ++i) {
    if (offsets[i] >> 16 != 0) return false;
  }
  auto at = [&](std::uint8_t number) { return static_cast<std::uint16_t>(offsets[number]); };
  const std::uint16_t local_names = numbers.code_local_names == 0 ? 0 : at(numbers.code_local_names);
  *layout = {};
  layout->thread = {0, at(numbers.thread_current_frame), at(numbers.thread_id)};
  // Not in _Py_DebugOffsets: f_globals, the fourth pointer of _PyInterpreterFrame (which has no PyObject_HEAD);
  // _co_firsttraceable, an int that is followed by a pointer and then the instructions.
  layout->frame = {at(numbers.frame_executable),  at(numbers.frame_previous), 24,
                   at(numbers.frame_instruction), at(numbers.frame_owner),    0,
                   numbers.executable_tags};
  layout->code = {at(numbers.code_file),
                  at(numbers.code_qualified_name),
                  at(numbers.code_line_table),
                  at(numbers.code_first_line),
                  static_cast<std::uint16_t>(offsets[numbers.code_instructions] - 16),
                  at(numbers.code_instructions),
                  0,
                  static_cast<std::uint16_t>(local_names < 4 ? 0 : local_names - 4),
                  LineTable::kLocations};
  layout->text = {at(numbers.ascii_size), static_cast<std::uint16_t>(offsets[numbers.ascii_size] + 16)};
  return true;
}

// The table's numbers: six bits per byte, bit 6 = more follows.
std::uint64_t read_varint(const unsigned char** at, const unsigned char* end) {
  std::uint64_t value = 0;
  for (int shift = 0; *at < end && shift < 60; shift += 6) {
    unsigned char byte = *(*at)++;
    value |= static_cast<std::uint64_t>(byte & 63) << shift;
    if ((byte & 64) == 0) break;
  }
  return value;
}

std::int64_t read_signed_varint(const unsigned char** at, const unsigned char* end) {
  std::uint64_t value = read_varint(at, end);
  auto magnitude = static_cast<std::int64_t>(value >> 1);
  return (value & 1) != 0 ? -magnitude : magnitude;
}

std::uint32_t line_by_locations(const unsigned char* table, const unsigned char* end, std::int64_t line,
                                std::int64_t offset) {
  std::int64_t begin = 0;
  while (offset >= 0 && table < end) {
    unsigned char head = *table++;
    unsigned code = head >> 3 & 15;
    bool has_line = true;
    if (code == 15) {
      has_line = false;
    } else if (code == 14 || code == 13) {
      line += read_signed_varint(&table, end);
    } else if (code >= 10) {
      line += code - 10;
    }
    while (table < end && (*table & 0x80) == 0) ++table;  // columns
    begin += 2 * ((head & 7) + 1);
    if (offset < begin) return has_line && line > 0 ? static_cast<std::uint32_t>(line) : 0;
  }
  return 0;
}

// Pairs: a number of instruction bytes, and the line increment for them (-128: no line).
std::uint32_t line_by_ranges(const unsigned char* table, const unsigned char* end, std::int64_t line,
                             std::int64_t offset) {
  std::int64_t begin = 0;
  for (; end - table >= 2; table += 2) {
    auto step = static_cast<signed char>(table[1]);
    if (step != -128) line += step;
    begin += table[0];
    if (offset < begin) return step != -128 && line > 0 ? static_cast<std::uint32_t>(line) : 0;
  }
  return 0;
}

// Pairs: a number of instruction bytes, and the line increment after them.
std::uint32_t line_by_steps(const unsigned char* table, const unsigned char* end, std::int64_t line,
                            std::int64_t offset) {
  std::int64_t begin = 0;
  for (; end - table >= 2; table += 2) {
    begin += table[0];
    if (begin > offset) break;
    line += static_cast<signed char>(table[1]);
  }
  return line > 0 ? static_cast<std::uint32_t>(line) : 0;
}

// Appends one character. False when it does not fit.
bool append_utf8(std::uint32_t character, char* text, std::size_t capacity, std::size_t* used) {
  if ((character >= 0xd800 && character <= 0xdfff) || character > 0x10ffff) character = 0xfffd;
  std::size_t bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  if (capacity - *used < bytes) return false;
  if (bytes == 1) {
    text[(*used)++] = static_cast<char>(character);
    return true;
  }
  constexpr unsigned char kFirst[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (std::size_t i = bytes - 1; i > 0; --i) {
    text[*used + i] = static_cast<char>(0x80 | (character & 63));
    character >>= 6;
  }
  text[*used] = static_cast<char>(kFirst[bytes] | character);
  *used += bytes;
  return true;
}

}  // namespace

bool python_layout(unsigned long version, std::uint64_t runtime, PythonLayout* layout) {
  switch (version >> 16) {
#define PYTHON_VERSION(minor, table) \
  case 0x300 + (minor):              \
    return make_layout(table, version, runtime, layout);
#include "interpose/format/python_versions.def"
  }
  return false;
}

std::uint32_t python_line(LineTable kind, const unsigned char* table, std::size_t bytes, std::int32_t first_line,
                          std::int64_t offset) {
  if (kind == LineTable::kLocations) return line_by_locations(table, table + bytes, first_line, offset);
  if (offset < 0) return static_cast<std::uint32_t>(first_line);
  return kind == LineTable::kRanges ? line_by_ranges(table, table + bytes, first_line, offset)
                                    : line_by_steps(table, table + bytes, first_line, offset);
}

std::size_t python_text(const PythonLayout& layout, std::uint64_t object, char* text, std::size_t capacity) {
  constexpr std::size_t kStateOffset = 32;
  auto state = python_field<std::uint32_t>(object, kStateOffset);
  unsigned width = state >> 2 & 7;
  bool compact = (state >> 5 & 1) != 0;
  bool ascii = (state >> 6 & 1) != 0;
  auto length = python_field<std::int64_t>(object, kPythonSizeOffset);
  if (!compact || length < 0 || (width != 1 && width != 2 && width != 4)) return 0;
  std::uint64_t characters = object + (ascii ? layout.text.ascii : layout.text.compact);
  std::size_t used = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(length); ++i) {
    std::uint32_t character = width == 1   ? python_field<std::uint8_t>(characters, i)
                              : width == 2 ? python_field<std::uint16_t>(characters, 2 * i)
                                           : python_field<std::uint32_t>(characters, 4 * i);
    if (!append_utf8(character, text, capacity, &used)) break;
  }
  return used;
}

}  // namespace culprit
