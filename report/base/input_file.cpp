#include "report/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "report/base/file_error.h"
#include "report/base/forked_child.h"

namespace culprit::report {
namespace {

// A file may be longer than it was at its opening; a report's text beyond this is no report.
constexpr std::uint64_t kMostBytes = 4ULL << 30;

std::string reason(int error) { return std::string(" (") + std::strerror(error) + ")"; }

std::string name_in_proc(const Descriptor& file) { return "/proc/self/fd/" + std::to_string(file.get()); }

InputFile open_as(const std::string& path) {
  InputFile input;
  // O_NONBLOCK, so that opening a pipe does not block.
  input.file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info = {};
  if (!input.file.is_open() || ::fstat(input.file.get(), &info) != 0) {
    input.error = errno;
    input.problem = "cannot be read" + reason(input.error);
    // A socket cannot be opened at all.
    if (input.error == ENXIO) input.problem = "is not a regular file";
    input.file.close();
  } else if (!S_ISREG(info.st_mode)) {
    input.problem = "is not a regular file";
    input.file.close();
  } else {
    input.bytes = static_cast<std::uint64_t>(info.st_size);
  }
  return input;
}
}  // namespace

InputFile open_input(const std::string& path) { return open_as(path); }

std::string real_path(const Descriptor& file) {
  char path[PATH_MAX];
  const ssize_t length = ::readlink(name_in_proc(file).c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

InputFile open_input_below(const std::string& folder, const std::string& path) {
  InputFile input;
  char root[PATH_MAX];
  // A descriptor of the name only: nothing is opened by it, so that a device or a FIFO elsewhere notices nothing.
  const Descriptor found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.is_open() || ::realpath(folder.c_str(), root) == nullptr) {
    input.error = errno;
    input.problem = "cannot be read" + reason(input.error);
    return input;
  }
  std::string begin = root;
  if (begin.back() != '/') begin += '/';
  struct stat info = {};
  if (real_path(found).compare(0, begin.size(), begin) != 0) {
    input.problem = "lies outside of " + folder;
  } else if (::fstat(found.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    input.problem = "is not a regular file";
  } else {
    return open_as(name_in_proc(found));
  }
  return input;
}
std::string read_input(const std::string& path) { return read_input(open_input(path), path); }

std::string read_input(const InputFile& input, const std::string& path) {
  if (!input.file.is_open()) throw FileError(path + ": " + input.problem);
  if (input.bytes > kMostBytes) throw FileError(path + ": too large to be read (more than 4 GiB)");
  std::string text(input.bytes, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(input.file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(path + ": cannot be read" + reason(errno));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

bool read_beginning(const std::string& path, void* data, std::size_t bytes) {
  const InputFile input = open_input(path);
  return input.file.is_open() && input.bytes >= bytes && read_whole(input.file.get(), data, bytes);
}

}  // namespace culprit::report
