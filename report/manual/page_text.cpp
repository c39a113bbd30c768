#include "report/manual/page_text.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

#include "report/base/text_width.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

constexpr std::size_t kWidestFirstColumn = 36;

// Whether the words are the name of the page, "Exit codes" for exit-codes.
bool is_name_of(const std::string& page, std::string words) {
  for (char& c : words) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return words == page;
}

// A link as words. The address of a file of the repository means nothing here.
std::string link_text(const std::string& words, const std::string& target) {
  if (begins_with(target, "http")) return words + " (" + target + ")";
  const std::string file = target.substr(0, target.find('#'));
  if (file.find('/') != std::string::npos || file.size() <= 3 || file.substr(file.size() - 3) != ".md") return words;
  const std::string page = file.substr(0, file.size() - 3);
  return is_name_of(page, words) ? "culprit help " + page : words + " (culprit help " + page + ")";
}

// Without the marks of links and of bold words. Code keeps its backquotes, and everything between them.
std::string plain(const std::string& text) {
  std::string result;
  bool code = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    code ^= text[i] == '`';
    if (!code && text.compare(i, 2, "**") == 0) {
      ++i;
      continue;
    }
    const std::size_t middle = !code && text[i] == '[' ? text.find("](", i) : std::string::npos;
    const std::size_t end = middle == std::string::npos ? middle : text.find(')', middle);
    if (end == std::string::npos) {
      result += text[i];
      continue;
    }
    result += link_text(text.substr(i + 1, middle - i - 1), text.substr(middle + 2, end - middle - 2));
    i = end;
  }
  return result;
}

// `text` broken at blanks: `first` stands before the first line, `rest` before all others.
std::string broken(const std::string& text, const std::string& first, const std::string& rest, std::size_t columns) {
  std::istringstream in(text);
  std::string result;
  std::string line = first;
  bool empty = true;
  for (std::string word; in >> word;) {
    if (!empty && columns_of(line) + 1 + columns_of(word) > columns) {
      result += line + "\n";
      line = rest;
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
  }
  return result + line + "\n";
}

// "| a | b |" as "a" and "b".
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line.compare(i, 2, "\\|") == 0) {
      cells.back() += line[++i];
    } else if (line[i] == '|') {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  cells.pop_back();
  for (std::string& cell : cells) {
    const std::size_t begin = std::min(cell.find_first_not_of(' '), cell.size());
    cell = plain(cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
  }
  return cells;
}

std::string table_text(const std::vector<std::string>& lines, std::size_t columns) {
  std::vector<std::vector<std::string>> rows;
  std::size_t width = 0;
  for (const std::string& line : lines) {
    if (begins_with(line, "| ---") || begins_with(line, "|---")) continue;
    rows.push_back(cells_of(line));
    const std::size_t first = columns_of(rows.back().front());
    if (first <= kWidestFirstColumn) width = std::max(width, first);
  }
  const std::string indent(width + 4, ' ');
  std::string result;
  for (const std::vector<std::string>& row : rows) {
    std::string head = "  " + row.front();
    if (columns_of(row.front()) > width) {
      result += head + "\n";
      head.clear();
    }
    std::string text;
    for (std::size_t i = 1; i < row.size(); ++i) text += row[i] + " ";
    result += broken(text, padded_to_width(head, indent.size()), indent, columns);
  }
  return result;
}

std::string heading(const std::string& line) {
  const std::string words = plain(line.substr(std::min(line.find_first_not_of("# "), line.size())));
  return words + "\n" + std::string(columns_of(words), begins_with(line, "## ") ? '-' : '=') + "\n";
}

// Lines that belong together: a paragraph, an item of a list, the rows of a table.
class Writer {
 public:
  explicit Writer(std::size_t columns) : columns_(columns) {}

  void add(const std::string& line) {
    if (begins_with(line, "```")) {
      end_part();
      in_code_ = !in_code_;
      in_commands_ = line == "```sh";
    } else if (in_code_) {
      result_ += line.empty() ? "\n" : (in_commands_ ? "    $ " : "    ") + line + "\n";
    } else if (begins_with(line, "<!--")) {
      end_part();  // for the test that runs the commands of the page
    } else if (line.empty()) {
      end_part();
      if (result_.size() > 1 && result_.substr(result_.size() - 2) != "\n\n") result_ += "\n";
    } else if (line[0] == '#') {
      end_part();
      result_ += heading(line);
    } else {
      if (begins_with(line, "- ")) end_part();
      part_.push_back(line);
    }
  }

  std::string text() {
    end_part();
    return std::move(result_);
  }

 private:
  void end_part() {
    if (part_.empty()) return;
    if (part_.front()[0] == '|') {
      result_ += table_text(part_, columns_);
    } else {
      std::string joined;
      for (const std::string& line : part_) joined += line + " ";
      const bool item = begins_with(joined, "- ");
      result_ += broken(plain(item ? joined.substr(2) : joined), item ? "- " : "", item ? "  " : "", columns_);
    }
    part_.clear();
  }

  std::size_t columns_;
  bool in_code_ = false;
  bool in_commands_ = false;
  std::vector<std::string> part_;
  std::string result_;
};

}  // namespace

std::string page_text(std::string_view markdown, std::size_t columns) {
  Writer writer(columns);
  std::istringstream in{std::string(markdown)};
  for (std::string line; std::getline(in, line);) writer.add(line);
  return writer.text();
}

}  // namespace culprit::report
