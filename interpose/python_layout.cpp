#include "interpose/python_layout.h"

namespace culprit {
namespace {

constexpr PythonLayout kLayout311 = {
    {56, 0, 152}, {8, 16}, {32, 48, 8, 56, 69, 68}, {112, 128, 136, 72, 168, 184}, {48, 72}};
constexpr PythonLayout kLayout312 = {
    {56, 0, 136}, {0, 8}, {0, 8, 24, 56, 70, 0}, {112, 128, 136, 68, 176, 192}, {40, 56}};

// _Py_DebugOffsets of 3.13: a cookie, the version, whether the build has no GIL, then offsets, all of 8 bytes. These
// are the numbers of those that matter.
enum DebugOffset {
  kVersion = 1,
  kFreeThreaded = 2,
  kThreadCurrentFrame = 23,
  kThreadId = 24,
  kFramePrevious = 29,
  kFrameExecutable = 30,
  kFrameInstruction = 31,
  kFrameOwner = 33,
  kCodeFile = 35,
  kCodeQualifiedName = 37,
  kCodeLineTable = 38,
  kCodeFirstLine = 39,
  kCodeInstructions = 43,
  kObjectType = 45,
  kAsciiSize = 70,
  kDebugOffsets
};

bool layout_313(std::uint64_t runtime, unsigned long version, PythonLayout* layout) {
  std::uint64_t offsets[kDebugOffsets];
  __builtin_memcpy(offsets, reinterpret_cast<const void*>(runtime), sizeof(offsets));
  if (__builtin_memcmp(offsets, "xdebugpy", 8) != 0 || offsets[kVersion] >> 16 != version >> 16 ||
      offsets[kFreeThreaded] != 0 || offsets[kObjectType] != kPythonTypeOffset) {
    return false;
  }
  auto at = [&](DebugOffset number) { return static_cast<std::uint16_t>(offsets[number]); };
  for (int i = kThreadCurrentFrame; i < kDebugOffsets; ++i) {
    if (offsets[i] >> 16 != 0) return false;
  }
  layout->thread = {0, at(kThreadCurrentFrame), at(kThreadId)};
  layout->cframe = {0, 0};
  // Not among the offsets: f_globals, of PyObject_HEAD-less _PyInterpreterFrame the fourth pointer; _co_firsttraceable,
  // an int before a pointer before the instructions.
  layout->frame = {at(kFrameExecutable), at(kFramePrevious), 24, at(kFrameInstruction), at(kFrameOwner), 0};
  layout->code = {at(kCodeFile),
                  at(kCodeQualifiedName),
                  at(kCodeLineTable),
                  at(kCodeFirstLine),
                  static_cast<std::uint16_t>(offsets[kCodeInstructions] - 16),
                  at(kCodeInstructions)};
  layout->text = {at(kAsciiSize), static_cast<std::uint16_t>(offsets[kAsciiSize] + 16)};
  return true;
}

// The table's numbers: six bits a byte, bit 6 = more follows.
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
    case 0x30b:
      *layout = kLayout311;
      return true;
    case 0x30c:
      *layout = kLayout312;
      return true;
    case 0x30d:
      return layout_313(runtime, version, layout);
  }
  return false;
}

std::uint32_t python_line(const unsigned char* table, std::size_t bytes, std::int32_t first_line,
                          std::uint64_t offset) {
  const unsigned char* end = table + bytes;
  std::int64_t line = first_line;
  std::uint64_t begin = 0;
  while (table < end) {
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
    begin += 2 * ((head & 7U) + 1);
    if (offset < begin) return has_line && line > 0 ? static_cast<std::uint32_t>(line) : 0;
  }
  return 0;
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
