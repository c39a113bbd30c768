// A picture of the screen as text with styles: what a terminal shows, without a terminal. Sparklines and bars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

enum class Style {
  kPlain,
  kTitle,
  kFaint,
  kHeader,
  kSelected,
  kBad,   // grows
  kGood,  // shrinks
  kWarn,
  kAllocated,  // parts of a bar
  kCached,
  kDriver,
  kOthers,
};

// A part of a line.
struct Span {
  std::string text;
  Style style = Style::kPlain;
};
using PictureLine = std::vector<Span>;

struct Picture {
  std::vector<PictureLine> lines;
  // Where the cursor stands in the last line, while the user types; -1: nowhere.
  int cursor = -1;
};

struct ScreenSize {
  int rows = 0;
  int columns = 0;
};

// The text of a line, for tests and for widths.
std::string text_of(const PictureLine& line);

// At most `width` columns of the line, and blanks up to them: `width` columns exactly.
PictureLine fitted(const PictureLine& line, std::size_t width);

// The text in ASCII, for a terminal of another character set: the characters of sparklines and bars as similar ones,
// others as '?'.
std::string in_ascii(const std::string& text);

// The newest values as a line of `width` columns at most, from the lowest (a low block) to the highest one. All equal:
// low blocks. Values that are not finite count as 0.
std::string sparkline(const std::vector<double>& values, std::size_t width);

struct BarPart {
  std::uint64_t bytes = 0;
  Style style = Style::kPlain;
  std::string sign;  // one column
};

// Parts of `total` as a bar of `width` columns. A part that is not empty has at least one column where there is room;
// the rest is `blank`. Parts that are more than the total share the width.
PictureLine bar(const std::vector<BarPart>& parts, std::uint64_t total, std::size_t width, const std::string& blank);

}  // namespace culprit::report
