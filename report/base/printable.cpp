#include "report/base/printable.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace culprit::report {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Sorted.
constexpr Range kUnprintable[] = {
    {0x0000, 0x001f},    // C0
    {0x007f, 0x009f},    // DEL and C1
    {0x00ad, 0x00ad},    // soft hyphen
    {0x061c, 0x061c},    // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x180e, 0x180e},    // Mongolian vowel separator
    {0x200b, 0x200b},    // zero width space
    {0x200e, 0x200f},    // left-to-right and right-to-left mark
    {0x2028, 0x202e},    // line and paragraph separator, bidi embeddings and overrides
    {0x2060, 0x206f},    // invisible operators, bidi isolates
    {0x3164, 0x3164},    // Hangul filler
    {0xfdd0, 0xfdef},    // noncharacters
    {0xfeff, 0xfeff},    // byte order mark
    {0xfff0, 0xfffb},    // interlinear annotation
    {0xfffe, 0xffff},    // noncharacters
    {0xe0000, 0xe0fff},  // tags and further invisible characters
};

bool is_unprintable(std::uint32_t code) {
  const auto* after = std::upper_bound(std::begin(kUnprintable), std::end(kUnprintable), code,
                                       [](std::uint32_t value, const Range& range) { return value < range.first; });
  if (after != std::begin(kUnprintable) && code <= std::prev(after)->last) return true;
  return (code & 0xfffe) == 0xfffe;
}

// The character at `at`: returns its number of bytes, 0 when they are no UTF-8.
std::size_t decode(std::string_view text, std::size_t at, std::uint32_t* code) {
  const auto first = static_cast<unsigned char>(text[at]);
  *code = first;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return 0;
  *code = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (next & 0x3fU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < kSmallest[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }

// Calls bad(code, &result) for each unprintable character that is not in `kept`; `code` is 0 for a byte that is no
// UTF-8.
template <typename Bad>
std::string replaced(std::string_view text, std::string_view kept, Bad bad) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto* end = std::find_if_not(text.begin() + at, text.end(), is_plain);
    result.append(text.begin() + at, end);
    at = static_cast<std::size_t>(end - text.begin());
    if (at == text.size()) break;
    std::uint32_t code = 0;
    const std::size_t length = decode(text, at, &code);
    if (length == 0) {
      bad(std::uint32_t{0}, &result);
    } else if (!is_unprintable(code) || (length == 1 && kept.find(text[at]) != std::string_view::npos)) {
      result.append(text, at, length);
    } else {
      bad(code, &result);
    }
    at += std::max<std::size_t>(length, 1);
  }
  return result;
}

void question_mark(std::uint32_t, std::string* result) { *result += '?'; }

void append_escape(std::uint32_t unit, std::string* result) {
  char text[8];
  std::snprintf(text, sizeof(text), "\\u%04x", unit & 0xffffU);
  *result += text;
}

// JSON as nlohmann writes it has line feeds only between its members.
constexpr std::string_view kBetweenMembers = "\n";

}  // namespace

std::string printable(std::string_view text) { return replaced(text, "", question_mark); }

std::string printable_lines(std::string_view text) { return replaced(text, "\n", question_mark); }

std::string with_escapes(std::string json) {
  if (std::all_of(json.begin(), json.end(), [](char c) { return is_plain(c) || c == '\n'; })) return json;
  return replaced(json, kBetweenMembers, [](std::uint32_t code, std::string* result) {
    if (code < 0x10000) {
      append_escape(code == 0 ? 0xfffd : code, result);
    } else {
      append_escape(0xd800 + ((code - 0x10000) >> 10), result);
      append_escape(0xdc00 + ((code - 0x10000) & 0x3ff), result);
    }
  });
}

std::string with_printable_strings(std::string json) {
  const bool plain = std::all_of(json.begin(), json.end(), [](char c) { return is_plain(c) || c == '\n'; });
  if (!plain) json = replaced(json, kBetweenMembers, question_mark);
  // Control characters, which stand as escape sequences.
  std::size_t to = 0;
  for (std::size_t from = 0; from < json.size();) {
    const char next = json[from] == '\\' && from + 1 < json.size() ? json[from + 1] : '\0';
    if (next == 'u') {
      json[to++] = '?';
      from += 6;
    } else if (next == 'b' || next == 'f' || next == 'r') {
      json[to++] = '?';
      from += 2;
    } else if (next != '\0') {
      json[to++] = json[from++];
      json[to++] = json[from++];
    } else {
      json[to++] = json[from++];
    }
  }
  json.resize(to);
  return json;
}

}  // namespace culprit::report
