// The lines in which two texts differ, for a test whose texts are too long to be printed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace culprit::test {

struct LineDifferences {
  std::vector<std::string> lines;  // "12 - expected", "12 + found", by the number in the text that has the line

  // The longest list of lines that both texts have in the same order stays out. The table of its lengths grows with the
  // square of the number of lines: beyond kMostLines, lines are compared by their numbers.
  LineDifferences(const std::string& expected, const std::string& found) {
    const std::vector<std::string> old_lines = lines_of(expected);
    const std::vector<std::string> new_lines = lines_of(found);
    std::size_t begin = 0;
    const std::size_t shorter = std::min(old_lines.size(), new_lines.size());
    while (begin < shorter && old_lines[begin] == new_lines[begin]) ++begin;
    std::size_t end = 0;
    while (end < shorter - begin && old_lines[old_lines.size() - 1 - end] == new_lines[new_lines.size() - 1 - end])
      ++end;
    compare(old_lines, begin, old_lines.size() - end, new_lines, begin, new_lines.size() - end);
  }

  // At most `most` lines, long ones cut off around the first column that differs from the line before.
  std::string text(std::size_t most = 40) const {
    std::ostringstream out;
    for (std::size_t i = 0; i < std::min(most, lines.size()); ++i) out << shortened(i) << "\n";
    if (lines.size() > most) out << "... and " << lines.size() - most << " more lines\n";
    return out.str();
  }

 private:
  static constexpr std::size_t kMostLines = 2000;
  static constexpr std::size_t kMostColumns = 160;

  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> result;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) result.push_back(std::move(line));
    if (!text.empty() && text.back() != '\n') result.back() += " (without an end of line)";
    return result;
  }

  void add(std::size_t index, char sign, const std::string& line) {
    lines.push_back(std::to_string(index + 1) + " " + sign + " " + line);
  }

  void compare(const std::vector<std::string>& old_lines, std::size_t old_at, std::size_t old_end,
               const std::vector<std::string>& new_lines, std::size_t new_at, std::size_t new_end) {
    const std::size_t rows = old_end - old_at;
    const std::size_t columns = new_end - new_at;
    const bool by_number = rows > kMostLines || columns > kMostLines;
    // same[r][c]: the length of the longest common list of the lines from r and c on.
    std::vector<std::vector<std::size_t>> same(by_number ? 1 : rows + 1, std::vector<std::size_t>(columns + 1));
    for (std::size_t r = by_number ? 0 : rows; r-- > 0;) {
      for (std::size_t c = columns; c-- > 0;) {
        same[r][c] = old_lines[old_at + r] == new_lines[new_at + c] ? same[r + 1][c + 1] + 1
                                                                    : std::max(same[r + 1][c], same[r][c + 1]);
      }
    }
    std::size_t r = 0;
    std::size_t c = 0;
    while (r < rows || c < columns) {
      const bool both = r < rows && c < columns;
      if (both && old_lines[old_at + r] == new_lines[new_at + c]) {
        ++r;
        ++c;
      } else if (r < rows && (c == columns || by_number || same[r + 1][c] >= same[r][c + 1])) {
        add(old_at + r, '-', old_lines[old_at + r]);
        ++r;
        if (!by_number || c == columns) continue;
        add(new_at + c, '+', new_lines[new_at + c]);
        ++c;
      } else {
        add(new_at + c, '+', new_lines[new_at + c]);
        ++c;
      }
    }
  }

  // A line that replaces another one follows it: they begin to differ at one column.
  std::string shortened(std::size_t index) const {
    const std::string& line = lines[index];
    if (line.size() <= kMostColumns) return line;
    const std::size_t sign = line.find_first_of("-+");
    const std::size_t other_index = line[sign] == '+' && index > 0 ? index - 1 : index + 1;
    std::size_t differs = sign + 1;
    if (other_index < lines.size()) {
      const std::string& other = lines[other_index];
      const std::size_t other_sign = other.find_first_of("-+");
      std::size_t i = 1;
      while (sign + i < line.size() && other_sign + i < other.size() && line[sign + i] == other[other_sign + i]) ++i;
      differs = sign + i;
    }
    const std::size_t from = std::max(sign + 2, differs > kMostColumns / 2 ? differs - kMostColumns / 2 : 0);
    std::string part = line.substr(0, sign + 2) + (from > sign + 2 ? "..." : "") + line.substr(from, kMostColumns);
    if (from + kMostColumns < line.size()) part += "...";
    return part;
  }
};

}  // namespace culprit::test
