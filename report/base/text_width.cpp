#include "report/base/text_width.h"

#include <utf8proc.h>

#include <algorithm>

namespace culprit::report {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// A character that asks for the picture of the one before it, which takes two columns.
constexpr utf8proc_int32_t kAsPicture = 0xfe0f;
constexpr std::size_t kWidest = 2;

// Goes through a text by the characters that a reader sees (grapheme clusters).
class Clusters {
 public:
  explicit Clusters(std::string_view text) : text_(text) { next_length_ = decode(&next_); }

  // Goes on to the next cluster; false when there is none.
  bool next() {
    if (end_ == text_.size()) return false;
    columns_ = 0;
    utf8proc_int32_t state = 0;
    for (;;) {
      const utf8proc_int32_t code = next_;
      columns_ += width_of(code);
      end_ += next_length_;
      next_length_ = decode(&next_);
      if (next_length_ == 0 || code < 0 || next_ < 0 || utf8proc_grapheme_break_stateful(code, next_, &state)) break;
      if (next_ == kAsPicture) columns_ = kWidest;
    }
    // The parts of an emoji or of a Korean syllable are shown in one place.
    columns_ = std::min(columns_, kWidest);
    return true;
  }

  std::size_t end() const { return end_; }
  std::size_t columns() const { return columns_; }

 private:
  static std::size_t width_of(utf8proc_int32_t code) {
    return code < 0 ? 1 : static_cast<std::size_t>(std::max(0, utf8proc_charwidth(code)));
  }

  // The character at end_, -1 for a byte that is no UTF-8: returns its bytes, 0 at the end of the text.
  std::size_t decode(utf8proc_int32_t* code) const {
    if (end_ == text_.size()) return 0;
    const std::string_view rest = text_.substr(end_, 4);
    const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(rest.data()),
                                                     static_cast<utf8proc_ssize_t>(rest.size()), code);
    if (length > 0) return static_cast<std::size_t>(length);
    *code = -1;
    return 1;
  }

  std::string_view text_;
  std::size_t end_ = 0;
  std::size_t columns_ = 0;
  utf8proc_int32_t next_ = -1;
  std::size_t next_length_ = 0;
};

}  // namespace

std::size_t columns_of(std::string_view text) {
  if (is_ascii(text)) return text.size();
  std::size_t columns = 0;
  for (Clusters at(text); at.next();) columns += at.columns();
  return columns;
}

std::string cut_to_width(std::string_view text, std::size_t width, std::string_view mark) {
  if (text.size() <= width) return std::string(text);  // no character has more columns than bytes
  std::size_t columns = 0;
  std::size_t end = 0;
  for (Clusters at(text); at.next(); end = at.end()) {
    columns += at.columns();
    if (columns > width) return std::string(text.substr(0, end)).append(mark);
  }
  return std::string(text);
}

std::string shortened(std::string_view text, std::size_t width) {
  constexpr std::string_view kMark = "...";
  return columns_of(text) <= width ? std::string(text) : cut_to_width(text, width - kMark.size(), kMark);
}

std::string padded_to_width(std::string text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  if (columns < width) text.append(width - columns, ' ');
  return text;
}

std::string_view cut_to_bytes(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t end = bytes;
  // Back to the first byte of the character that the cut would divide. One of invalid UTF-8 has no more than 4 bytes.
  while (end > 0 && bytes - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace culprit::report
