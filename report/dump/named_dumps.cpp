#include "report/dump/named_dumps.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/words.h"
#include "report/dump/run_dumps.h"
#include "report/dump/side_files.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNestedEntries = 20000;  // a named folder may be the root of a file system
constexpr std::size_t kMostNamed = 20;             // files of a folder in sentences

bool has_name_of_dump(const fs::path& path) { return path.extension() == ".dump"; }

// Why a file with the name of a dump is not read.
std::string problem_of(const std::string& path) {
  const InputFile input = open_input(path);
  if (!input.file.is_open()) return input.problem;
  return input.bytes == 0 ? "is empty" : "is damaged: it does not begin as a dump does";
}

// Whether a file with the name of a dump is one, or was one: others have such names, too.
bool may_be_dump(const std::string& path) {
  const InputFile input = open_input(path);
  return !input.file.is_open() || input.bytes == 0 || header_of_dump(path).has_value();
}

// One device and inode for each folder: links may lead round in a circle.
using FolderId = std::pair<dev_t, ino_t>;

std::optional<FolderId> folder_id(const fs::path& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  return FolderId(info.st_dev, info.st_ino);
}

class Folders {
 public:
  explicit Folders(NamedDumps* found) : found_(*found) {}

  void name(const std::string& path) {
    if (const auto id = folder_id(path)) named_.insert(*id);
  }

  void add(const std::string& path) {
    found_.folders.push_back(path);
    std::vector<std::pair<std::uint64_t, std::string>> dumps;
    std::vector<std::string> problems;
    const std::size_t files_before = found_.run_files.size();
    for_each(path, [&](const fs::path& entry) {
      if (folder_id(entry)) {
        look_below(entry, path);
      } else if (is_side_file(entry.string())) {
        if (!run_id_of_file(entry.filename().string()).empty()) found_.run_files.push_back(entry.string());
      } else if (const std::optional<format::Header> header = header_of_dump(entry.string())) {
        dumps.emplace_back(header->start_realtime_ns, entry.string());
      } else if (has_name_of_dump(entry)) {
        problems.push_back(entry.string() + ": " + problem_of(entry.string()));
      }
    });
    if (dumps.empty() && files_before == found_.run_files.size()) {
      std::sort(problems.begin(), problems.end());
      problems.insert(problems.end(), found_.left_out.begin(), found_.left_out.end());
      std::string text = path + ": a folder without dumps (culprit.*.dump)";
      for (const std::string& problem : problems) text += "; " + problem;
      throw FileError(text);
    }
    std::sort(dumps.begin(), dumps.end());
    for (auto& [start, dump] : dumps) {
      found_.of_folders.insert(dump);
      found_.paths.push_back(std::move(dump));
    }
    tell(problems, "");
  }

  // When all folders are known.
  void finish() {
    for (auto& [folder, dumps] : nested_) {
      if (const auto id = folder_id(folder); id && named_.count(*id) != 0) continue;
      tell(dumps, " lies in a folder below the one that was named, and is not read: name " + folder + ", too");
    }
    if (entries_ >= kMostNestedEntries)
      found_.left_out.push_back(
          "below the folders that were named are so many files that not all of them were looked at");
  }

 private:
  template <typename Use>
  static void for_each(const fs::path& folder, Use use) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) use(at->path());
    if (error) throw FileError(folder.string() + ": cannot be read (" + error.message() + ")");
  }

  void look_below(const fs::path& folder, const std::string& named) {
    const auto id = folder_id(folder);
    if (!id || !seen_.insert(*id).second) return;
    try {
      for_each(folder, [&](const fs::path& entry) {
        if (++entries_ >= kMostNestedEntries) return;
        if (folder_id(entry)) {
          look_below(entry, named);
        } else if (has_name_of_dump(entry) && may_be_dump(entry.string())) {
          nested_[folder.string()].push_back(entry.string());
        }
      });
    } catch (const FileError& error) {
      // A folder that went meanwhile, for example that of the ranks of another merge, has no dumps.
      if (folder_id(folder)) found_.left_out.emplace_back(error.what());
    }
  }

  void tell(std::vector<std::string> files, const std::string& behind) {
    std::sort(files.begin(), files.end());
    for (std::size_t i = 0; i < files.size() && i < kMostNamed; ++i) found_.left_out.push_back(files[i] + behind);
    if (files.size() > kMostNamed)
      found_.left_out.push_back("the same holds for " + plural(files.size() - kMostNamed, "other file", "other files"));
  }

  NamedDumps& found_;
  std::set<FolderId> named_;
  std::set<FolderId> seen_;
  std::map<std::string, std::vector<std::string>> nested_;
  std::size_t entries_ = 0;
};

}  // namespace

NamedDumps named_dumps(const std::vector<std::string>& paths) {
  NamedDumps found;
  Folders folders(&found);
  for (const std::string& path : paths) folders.name(path);
  const bool only_side_files = std::all_of(paths.begin(), paths.end(), is_side_file);
  for (const std::string& path : paths) {
    if (folder_id(path)) {
      folders.add(path);
    } else if (!run_id_of_file(fs::path(path).filename().string()).empty()) {
      found.run_files.push_back(path);
    } else if (only_side_files || !is_side_file(path)) {
      found.paths.push_back(path);
    }
  }
  folders.finish();
  return found;
}

}  // namespace culprit::report
