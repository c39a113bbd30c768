#include "report/base/random_text.h"

#include <sys/random.h>

#include <vector>

namespace culprit::report {

std::string random_text(std::size_t digits) {
  std::vector<unsigned char> bytes((digits + 1) / 2);
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  text.resize(digits);
  return text;
}

}  // namespace culprit::report
