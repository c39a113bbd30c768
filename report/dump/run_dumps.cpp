#include "report/dump/run_dumps.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <utility>

#include "report/base/descriptor.h"
#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/log.h"
#include "report/dump/side_files.h"

namespace culprit::report {
namespace {

// "a.%p.dump" -> "a.*.dump": every conversion matches any text, and so does the place of a number before the extension.
std::string glob_of(const std::string& pattern) {
  const std::size_t name = pattern.rfind('/') + 1;  // 0 without a slash
  std::size_t extension = pattern.rfind('.');
  if (extension == std::string::npos || extension <= name) extension = pattern.size();
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (i == extension) result += '*';
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
  return extension == pattern.size() ? result + "*" : result;
}

// "/x/%q{RANK}/a.dump" -> "/x/a.dump": where the variable is not set the folder has no name.
std::string without_empty_folders(const std::string& pattern) {
  std::string result;
  for (std::size_t begin = 0; begin < pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', begin), pattern.size() - 1);
    const std::string part = pattern.substr(begin, end + 1 - begin);
    const bool may_be_empty = part.compare(0, 3, "%q{") == 0 && part.find('}') + 2 == part.size() && part.back() == '/';
    if (!may_be_empty) result += part;
    begin = end + 1;
  }
  return result;
}

// Start time of the process that wrote the dump; 0 when the file is not a dump.
std::uint64_t start_of_dump(const std::string& path) {
  const std::optional<format::Header> header = header_of_dump(path);
  return header ? header->start_realtime_ns : 0;
}

}  // namespace

std::optional<format::Header> header_of_dump(const std::string& path) {
  format::Header header = {};
  if (!read_beginning(path, &header, sizeof(header))) return {};
  if (std::memcmp(header.magic, format::kMagic, sizeof(header.magic)) != 0) return {};
  return header;
}

std::string pattern_of_path(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

std::string absolute_pattern(const std::string& pattern) {
  if (pattern.empty() || pattern[0] == '/') return pattern;
  return pattern_of_path(std::filesystem::current_path().string()) + "/" + pattern;
}

std::string fixed_folder_of(const std::string& pattern) {
  const std::size_t name = pattern.rfind('/') + 1;
  std::string folder;
  for (std::size_t i = 0; i < name; ++i) {
    if (pattern[i] == '%' && pattern[++i] != '%') {
      folder.resize(folder.rfind('/') + 1);
      break;
    }
    folder += pattern[i];
  }
  return folder;
}

void try_pattern(const std::string& pattern) {
  const std::size_t name = pattern.rfind('/') + 1;
  const std::string folder = fixed_folder_of(pattern);
  const auto refuse = [&](int error) {
    throw FileError(folder + ": no dump can be made there (" + std::strerror(error) + "); choose another --out");
  };
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) refuse(error.value());
  if (name == pattern.size() || std::filesystem::is_directory(pattern, error))
    throw FileError(pattern + ": is a folder; name a file in it, for example " + pattern +
                    (name == pattern.size() ? "" : "/") + kDefaultPattern);
  struct stat info = {};
  if (::stat(pattern.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw FileError(pattern + ": is no regular file, and cannot hold a dump; choose another --out");
  std::string file = folder + (folder.empty() || folder.back() != '/' ? "/" : "") + ".culprit.XXXXXX";
  const Descriptor made(::mkstemp(file.data()));
  if (!made.is_open()) refuse(errno);
  const int full = ::posix_fallocate(made.get(), 0, format::kHeaderBytes);
  ::unlink(file.c_str());
  if (full != 0) refuse(full);
}

std::vector<std::string> numbered_siblings(const std::string& path) {
  const std::filesystem::path file(path);
  std::filesystem::path base = file;
  // "app.3.dump" is the fourth only if there is a first one: its number may be that of a process, too.
  const std::string number = file.stem().extension().string();
  if (number.size() > 1 && number.find_first_not_of("0123456789", 1) == std::string::npos) {
    const std::filesystem::path first = file.parent_path() / (file.stem().stem().string() + file.extension().string());
    if (start_of_dump(first.string()) != 0) base = first;
  }
  std::vector<std::string> siblings;
  constexpr int kMost = 1000;
  std::error_code error;
  if (base != file) siblings.push_back(base.string());
  for (int i = 1; i <= kMost; ++i) {
    const std::filesystem::path one =
        base.parent_path() / (base.stem().string() + "." + std::to_string(i) + base.extension().string());
    if (!std::filesystem::exists(one, error)) break;
    if (one != file) siblings.push_back(one.string());
  }
  return siblings;
}

namespace {

// Why the dump at `path` is none of the run; nullptr: it is one. `start`: of its process.
const char* reason_not_of(const RunOfDumps& run, const std::string& path, std::uint64_t* start) {
  const std::optional<format::Header> header = header_of_dump(path);
  if (!header || header->start_realtime_ns == 0) return ": is no dump";
  *start = header->start_realtime_ns;
  if (*start < run.since_realtime_ns) return ": is a dump of an earlier run";
  const std::string id = run_id_of(*header);
  return id.empty() || run.id.empty() || id == run.id ? nullptr : ": is a dump of another run";
}

// `tell`: called with a line for each file that is left out.
std::vector<std::string> dumps_of_run(const std::string& pattern, const RunOfDumps& run,
                                      const std::function<void(const std::string&)>& tell) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const std::string& variant : {pattern, without_empty_folders(pattern)}) {
    ::glob_t matches = {};
    const int problem = ::glob(glob_of(variant).c_str(), GLOB_PERIOD, nullptr, &matches);
    if (problem == GLOB_NOSPACE) throw std::bad_alloc();
    if (problem == 0) {
      for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
        std::uint64_t start = 0;
        const char* const reason = reason_not_of(run, matches.gl_pathv[i], &start);
        if (reason == nullptr) {
          found.emplace_back(start, matches.gl_pathv[i]);
        } else {
          tell(std::string(matches.gl_pathv[i]) + reason);
        }
      }
    }
    ::globfree(&matches);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (auto& [start, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

std::vector<std::string> find_dumps(const std::string& pattern, const RunOfDumps& run) {
  std::vector<std::string> paths = dumps_of_run(pattern, run, log::trace);
  for (const std::string& path : paths) log::debug("dump found: " + path);
  if (paths.empty()) log::debug("no dump found: " + pattern);
  return paths;
}

std::vector<std::string> find_dumps_quietly(const std::string& pattern, const RunOfDumps& run) {
  return dumps_of_run(pattern, run, [](const std::string&) {});
}

}  // namespace culprit::report
