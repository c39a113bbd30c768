#include "report/base/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "report/base/file_error.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;

// The path behind all links; the file itself may be missing.
std::string without_links(const std::string& path) {
  std::error_code error;
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(target, error); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target.string();
}

// Makes a file beside `path`. Returns its path; empty, with errno set, when that is not possible.
std::string make_beside(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return {};
  ::close(fd);
  return temporary;
}

bool is_special(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

// The permissions of a file that is there; else those of the file `like`, and without one those of the umask.
mode_t permissions_for(const std::string& path, const std::string& like) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) return info.st_mode & 07777;
  if (!like.empty() && ::stat(like.c_str(), &info) == 0) return info.st_mode & 0666;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// A file without write permission stays, although its folder would allow a rename.
bool is_protected(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0 && ::access(path.c_str(), W_OK) != 0;
}

std::string cannot_be_written(const std::string& name, int error) {
  return name + ": cannot be written (" + (error != 0 ? std::strerror(error) : "not all of it was taken") +
         "); choose another file";
}

}  // namespace

OutputFile::OutputFile(const std::string& path, std::string like)
    : name_(path), path_(without_links(path)), like_(std::move(like)) {
  errno = 0;
  if (is_special(path_)) {
    stream_.open(path_, std::ios::binary);
  } else if (fs::is_directory(path_)) {
    throw FileError(name_ + ": is a folder; name a file in it");
  } else if (is_protected(path_)) {
    fail(EACCES);
  } else {
    temporary_ = make_beside(path_);
    if (temporary_.empty()) fail(errno);
    at_end_.emplace(temporary_);
    stream_.open(temporary_, std::ios::binary);
  }
  if (!stream_) fail(errno);
}

OutputFile::~OutputFile() {
  if (at_end_) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int error) {
  if (at_end_) ::unlink(temporary_.c_str());
  at_end_.reset();
  throw FileError(cannot_be_written(name_, error));
}

void OutputFile::commit() {
  if (stream_) errno = 0;  // else it is of the write that failed
  stream_.close();
  if (!stream_) fail(errno);
  if (temporary_.empty()) return;
  ::chmod(temporary_.c_str(), permissions_for(path_, like_));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  at_end_.reset();
}

void check_output_file(const std::string& path, const std::vector<std::string>& inputs) {
  if (path.empty()) return;
  std::error_code ignored;
  for (const std::string& input : inputs) {
    if (!is_special(path) && fs::equivalent(path, input, ignored))
      throw FileError(path + ": is an input of this command, and would be lost; choose another file");
  }
  if (!is_special(path)) OutputFile attempt(path);  // opening a pipe would wait for its reader
}

}  // namespace culprit::report
