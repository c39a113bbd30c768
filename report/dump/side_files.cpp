#include "report/dump/side_files.h"

#include <cstring>
#include <filesystem>

namespace culprit::report {
namespace {

constexpr char kRunFileStart[] = "culprit-run.";
constexpr char kRunFileEnd[] = ".json";

bool is_id(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::string run_id_of(const format::Header& header) {
  const std::string id(header.run_id, ::strnlen(header.run_id, sizeof(header.run_id)));
  return is_id(id) ? id : std::string();
}

std::string run_file_name(const std::string& id) { return kRunFileStart + id + kRunFileEnd; }

std::string run_id_of_file(const std::string& name) {
  constexpr std::size_t kStart = sizeof(kRunFileStart) - 1, kEnd = sizeof(kRunFileEnd) - 1;
  if (name.compare(0, kStart, kRunFileStart) != 0 || !ends_with(name, kRunFileEnd) || name.size() <= kStart + kEnd)
    return {};
  const std::string id = name.substr(kStart, name.size() - kStart - kEnd);
  return is_id(id) ? id : std::string();
}

bool is_side_file(const std::string& path) {
  return ends_with(path, kGpuAnswersEnding) || ends_with(path, kPythonViewEnding) ||
         !run_id_of_file(std::filesystem::path(path).filename().string()).empty();
}

}  // namespace culprit::report
