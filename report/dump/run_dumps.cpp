#include "report/dump/run_dumps.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "interpose/format/dump_file.h"
#include "report/base/input_file.h"

namespace culprit::report {
namespace {

// "a.%p.dump" -> "a.*.dump": every conversion matches any text.
std::string glob_of(const std::string& pattern) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '%' && i + 1 < pattern.size()) {
      ++i;
      if (pattern[i] == '%') {
        result += '%';
        continue;
      }
      result += '*';
      if (pattern[i] == 'q' && i + 1 < pattern.size() && pattern[i + 1] == '{') {
        const std::size_t end = pattern.find('}', i);
        i = end == std::string::npos ? pattern.size() : end;
      }
      continue;
    }
    if (std::strchr("*?[\\", c) != nullptr) result += '\\';
    result += c;
  }
  return result + "*";  // for the numbered suffix
}

// Start time of the process that wrote the dump; 0 when the file is not a dump.
std::uint64_t start_of_dump(const std::string& path) {
  format::Header header = {};
  if (!read_beginning(path, &header, sizeof(header))) return 0;
  return std::memcmp(header.magic, format::kMagic, sizeof(header.magic)) == 0 ? header.start_realtime_ns : 0;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::filesystem::absolute(base != nullptr && base[0] != '\0' ? base : "/tmp") / "culprit.XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error(path_ + ": no temporary folder can be made there (" + std::strerror(errno) +
                             "); set TMPDIR to a folder that can be written");
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string absolute_pattern(const std::string& pattern) {
  if (pattern.empty() || pattern[0] == '/' || pattern.compare(0, 3, "%q{") == 0) return pattern;
  return (std::filesystem::current_path() / pattern).string();
}

std::vector<std::string> find_dumps(const std::string& pattern, std::uint64_t since_realtime_ns) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  ::glob_t matches = {};
  if (::glob(glob_of(pattern).c_str(), 0, nullptr, &matches) == 0) {
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
      const std::uint64_t start = start_of_dump(matches.gl_pathv[i]);
      if (start != 0 && start >= since_realtime_ns) found.emplace_back(start, matches.gl_pathv[i]);
    }
  }
  ::globfree(&matches);
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (auto& [start, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace culprit::report
