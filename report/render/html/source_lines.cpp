#include "report/render/html/source_lines.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "report/base/input_file.h"
#include "report/base/text_width.h"

namespace culprit::report {
namespace {

constexpr unsigned kAround = 4;  // lines before and after the requested one
constexpr std::size_t kLongestLine = 300;
constexpr std::size_t kLargestFile = 8 << 20;
constexpr std::size_t kMostBytes = 4 << 20;  // of all files together

constexpr std::string_view kEndings[] = {
    "c",  "cc",  "cp",  "cpp", "cppm",  "cxx", "c++", "cu",  "cuh", "f",   "f03", "f08", "f90", "f95", "go",
    "h",  "hh",  "hip", "hpp", "hxx",   "h++", "inc", "inl", "ipp", "ixx", "jl",  "m",   "mm",  "nim", "pxd",
    "py", "pyi", "pyx", "rs",  "swift", "tcc", "tpp", "txx", "zig", "cl",  "d",   "ii",  "def",
};

bool is_source_name(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 when there is no slash
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name) return false;
  std::string ending = path.substr(dot + 1);
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

struct Text {
  std::string bytes;
  std::uint64_t changed_ns = 0;
};

// The content of a regular text file below `root`; empty for anything else.
std::optional<Text> read_text(const std::string& root, const std::string& path) {
  const InputFile input = open_input_below(root.empty() ? "/" : root, root + path);
  struct stat status = {};
  // The ending once more: a link may have another name than its file.
  if (!input.file.is_open() || input.bytes > kLargestFile || !is_source_name(real_path(input.file)) ||
      ::fstat(input.file.get(), &status) != 0)
    return {};
  Text text;
  text.changed_ns = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1000000000ULL +
                    static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  text.bytes.resize(input.bytes);
  std::size_t have = 0;
  while (have < text.bytes.size()) {
    const ssize_t got = ::read(input.file.get(), text.bytes.data() + have, text.bytes.size() - have);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.bytes.resize(have);
  if (text.bytes.find('\0') != std::string::npos) return {};
  return text;
}

std::optional<Text> find_text(const std::string& path, const SourcePlaces& places) {
  if (places.own_paths) {
    const std::string absolute = path.front() == '/' ? path : places.folder + "/" + path;
    if (std::optional<Text> text = read_text(places.sysroot, absolute)) return text;
  }
  for (const std::string& folder : places.searched) {
    for (std::size_t tail = path.find('/'); tail != std::string::npos; tail = path.find('/', tail + 1)) {
      if (std::optional<Text> text = read_text(folder, path.substr(tail))) return text;
    }
    if (std::optional<Text> text = read_text(folder, "/" + path)) return text;
  }
  return {};
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

SourceLines::SourceLines(SourcePlaces places, std::uint64_t run_began_ns)
    : places_(std::move(places)), run_began_ns_(run_began_ns) {}

void SourceLines::want(const std::string& file, unsigned line) {
  if (line != 0 && is_source_name(file)) wanted_[file].insert(line);
}

std::vector<SourceFile> SourceLines::read() const {
  std::vector<SourceFile> files;
  std::size_t bytes = 0;
  for (const auto& [path, wanted] : wanted_) {
    const std::optional<Text> text = find_text(path, places_);
    if (!text) continue;
    const std::vector<std::string_view> lines = lines_of(text->bytes);
    SourceFile file;
    file.path = path;
    file.changed = run_began_ns_ != 0 && text->changed_ns > run_began_ns_;
    unsigned done = 0;  // the last line that is in a block; 0: none
    for (const unsigned line : wanted) {
      if (line > lines.size() || bytes > kMostBytes) break;
      const unsigned from = std::max(line > kAround ? line - kAround : 1, done + 1);
      const unsigned to = static_cast<unsigned>(std::min<std::size_t>(lines.size(), line + kAround));
      if (file.blocks.empty() || from > done + 1) {
        file.blocks.emplace_back();
        file.blocks.back().first = from;
      }
      for (unsigned number = from; number <= to; ++number) {
        file.blocks.back().lines.emplace_back(cut_to_bytes(lines[number - 1], kLongestLine));
        bytes += file.blocks.back().lines.back().size() + 4;
      }
      done = std::max(done, to);
    }
    if (!file.blocks.empty()) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace culprit::report
