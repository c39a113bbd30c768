#include "report/base/printable_stream.h"

#include <algorithm>

#include "report/base/printable.h"

namespace culprit::report {
namespace {

// How many bytes at the end of the text begin a character without ending it.
std::size_t begun_at_end(std::string_view text) {
  for (std::size_t count = 1; count <= std::min<std::size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return count < (byte >= 0xf0 ? 4U : byte >= 0xe0 ? 3U : 2U) ? count : 0;
  }
  return 0;
}

// The length of a sequence at the beginning of `text` that culprit writes itself: "\x1b[1;31m", "\x1b[K"; else 0.
std::size_t own_sequence(std::string_view text) {
  if (text.substr(0, 2) != "\x1b[") return text.substr(0, 1) == "\r" ? 1 : 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && std::string_view("mKHJ").find(text[end]) != std::string_view::npos ? end + 1
                                                                                                             : 0;
}

}  // namespace

PrintableBuffer::~PrintableBuffer() {
  if (!begun_.empty()) to_->sputc('?');
}

std::string PrintableBuffer::filtered(std::string_view text) const {
  std::string result;
  while (!text.empty()) {
    const std::size_t special = text.find_first_of("\t\x1b\r");
    result += printable_lines(text.substr(0, special));
    if (special == std::string_view::npos) break;
    text.remove_prefix(special);
    const std::size_t own = text[0] == '\t' ? 1 : terminal_ ? own_sequence(text) : 0;
    if (own != 0) {
      result += text.substr(0, own);
    } else {
      result += '?';
    }
    text.remove_prefix(std::max<std::size_t>(own, 1));
  }
  return result;
}

bool PrintableBuffer::write(std::string_view text) {
  const auto size = static_cast<std::streamsize>(text.size());
  return to_->sputn(text.data(), size) == size;
}

std::streamsize PrintableBuffer::xsputn(const char* data, std::streamsize count) {
  std::string_view text(data, static_cast<std::size_t>(count));
  const auto is_plain = [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n'; };
  if (everything_ || (begun_.empty() && std::all_of(text.begin(), text.end(), is_plain)))
    return write(text) ? count : 0;
  const std::string whole = begun_ + std::string(text);
  text = whole;
  const std::size_t begun = begun_at_end(text);
  begun_ = text.substr(text.size() - begun);
  text.remove_suffix(begun);
  return write(filtered(text)) ? count : 0;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (c == traits_type::eof()) return 0;
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

void pass_everything(std::ostream& out) {
  if (auto* buffer = dynamic_cast<PrintableBuffer*>(out.rdbuf())) buffer->pass_everything();
}

}  // namespace culprit::report
