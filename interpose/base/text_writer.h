// Writes text, numbers and sizes into a buffer of fixed size: longer text is cut off, and always ends with NUL. Calls
// no function that allocates, uses a locale, or may be interposed. Async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

class TextWriter {
 public:
  // `capacity`: at least 1. The first `length` bytes are kept.
  TextWriter(char* text, std::size_t capacity, std::size_t length = 0)
      : text_(text), capacity_(capacity), length_(length) {
    text_[length_] = '\0';
  }

  TextWriter& add(const char* text, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) put(text[i]);
    text_[length_] = '\0';
    return *this;
  }
  TextWriter& operator<<(const char* text) {
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a system call wrote the text
    for (; *text != '\0'; ++text) put(*text);
    text_[length_] = '\0';
    return *this;
  }
  TextWriter& operator<<(std::uint64_t number) { return number_in(number, 10); }
  TextWriter& operator<<(std::uint32_t number) { return number_in(number, 10); }
  TextWriter& operator<<(int number) {
    if (number < 0) *this << "-";
    return number_in(number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number), 10);
  }
  TextWriter& hex(std::uint64_t number) { return number_in(number, 16); }

  // "512 B", "1.50 GiB": two digits, rounded to the nearest.
  TextWriter& bytes(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    int unit = 0;
    while (unit < 4 && bytes >> (10 * unit) >= 1024) ++unit;
    if (unit == 0) return *this << bytes << kUnits[0];
    int shift = 10 * unit;
    std::uint64_t rest = bytes & ((std::uint64_t{1} << shift) - 1);
    // Hundredths of the unit; the shift keeps the product within 64 bits.
    std::uint64_t whole = bytes >> shift;
    std::uint64_t hundredths = ((rest >> (shift - 10)) * 100 + 512) >> 10;
    if (hundredths == 100) ++whole, hundredths = 0;
    *this << whole << (hundredths < 10 ? ".0" : ".") << hundredths;
    return *this << kUnits[unit];
  }

  std::size_t length() const { return length_; }
  // Whether text was cut off.
  bool cut() const { return cut_; }

 private:
  void put(char letter) {
    if (length_ + 1 < capacity_) {
      text_[length_++] = letter;
    } else {
      cut_ = true;
    }
  }
  TextWriter& number_in(std::uint64_t number, unsigned base) {
    char digits[20];
    int count = 0;
    do {
      digits[count++] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    while (count > 0) put(digits[--count]);
    text_[length_] = '\0';
    return *this;
  }

  char* text_;
  std::size_t capacity_;
  std::size_t length_;
  bool cut_ = false;
};

// Copies as much of `text` as fits.
inline void copy_text(char* to, std::size_t capacity, const char* text) { TextWriter(to, capacity) << text; }

}  // namespace culprit
