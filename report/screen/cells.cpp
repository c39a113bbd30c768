#include "report/screen/cells.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/base/text_width.h"

namespace culprit::report {
namespace {

const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr int kMostBlock = static_cast<int>(std::size(kBlocks)) - 1;

struct Substitute {
  const char* from;
  char to;
};
constexpr Substitute kSubstitutes[] = {{"▁", '_'}, {"▂", '.'}, {"▃", '-'}, {"▄", '='}, {"▅", '+'},
                                       {"▆", '*'}, {"▇", '%'}, {"█", '#'}, {"▒", '='}, {"░", ':'},
                                       {"·", '-'}, {"▾", 'v'}, {"▴", '^'}, {"→", '>'}, {"…", '.'}};

std::size_t length_at(const std::string& text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(length, text.size() - at);
}

}  // namespace

std::string text_of(const PictureLine& line) {
  std::string text;
  for (const Span& span : line) text += span.text;
  return text;
}

PictureLine fitted(const PictureLine& line, std::size_t width) {
  PictureLine result;
  std::size_t used = 0;
  for (const Span& span : line) {
    if (used >= width) break;
    Span cut = {cut_to_width(span.text, width - used), span.style};
    used += columns_of(cut.text);
    if (!cut.text.empty()) result.push_back(std::move(cut));
  }
  if (used < width)
    result.push_back({std::string(width - used, ' '), result.empty() ? Style::kPlain : result.back().style});
  return result;
}

std::string in_ascii(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string one = text.substr(at, length_at(text, at));
    at += one.size();
    if (one.size() == 1) {
      result += static_cast<unsigned char>(one[0]) < 0x80 ? one[0] : '?';
      continue;
    }
    const auto known = std::find_if(std::begin(kSubstitutes), std::end(kSubstitutes),
                                    [&](const Substitute& row) { return one == row.from; });
    // As wide as the character was.
    result += known != std::end(kSubstitutes) ? std::string(1, known->to) : std::string(columns_of(one), '?');
  }
  return result;
}

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  std::vector<double> shown(values.end() - static_cast<std::ptrdiff_t>(std::min(width, values.size())), values.end());
  if (shown.empty()) return "";
  for (double& value : shown) value = std::isfinite(value) ? value : 0;
  const auto [low, high] = std::minmax_element(shown.begin(), shown.end());
  const double least = *low;
  const double range = *high - least;
  std::string line;
  for (const double value : shown) {
    const int block = range > 0 ? static_cast<int>(std::lround((value - least) / range * kMostBlock)) : 0;
    line += kBlocks[std::clamp(block, 0, kMostBlock)];
  }
  return line;
}

PictureLine bar(const std::vector<BarPart>& parts, std::uint64_t total, std::size_t width, const std::string& blank) {
  double sum = 0;
  for (const BarPart& part : parts) sum += static_cast<double>(part.bytes);
  const double whole = std::max(sum, static_cast<double>(total));
  PictureLine line;
  std::size_t used = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const BarPart& one = parts[i];
    if (one.bytes == 0 || used >= width) continue;
    const auto exact =
        static_cast<std::size_t>(std::lround(static_cast<double>(one.bytes) / whole * static_cast<double>(width)));
    // Later parts need room, too.
    const auto later =
        static_cast<std::size_t>(std::count_if(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end(),
                                               [](const BarPart& part) { return part.bytes != 0; }));
    const std::size_t most = width - used > later ? width - used - later : 1;
    const std::size_t columns = std::clamp<std::size_t>(exact, 1, most);
    std::string text;
    for (std::size_t column = 0; column < columns; ++column) text += one.sign;
    line.push_back({std::move(text), one.style});
    used += columns;
  }
  std::string rest;
  for (; used < width; ++used) rest += blank;
  if (!rest.empty()) line.push_back({std::move(rest), Style::kFaint});
  return line;
}

}  // namespace culprit::report
