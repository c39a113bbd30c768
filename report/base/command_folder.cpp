#include "report/base/command_folder.h"
#include "report/base/environment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <stdexcept>

namespace culprit::report {
namespace {

namespace fs = std::filesystem;

constexpr char kNameStart[] = "culprit.";
constexpr std::size_t kRandomLetters = 6;
constexpr char kLockName[] = ".in-use";
constexpr char kNewLockName[] = ".in-use.new";  // until it is locked: another run could lock it first
constexpr std::time_t kGraceSeconds = 60;       // between the making of a folder and of its lock

bool has_no_lock_and_nothing_else(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() != kNewLockName) return false;
  }
  return !error;
}

// A process that ended without removing the folder has lost its lock.
bool is_abandoned(const fs::path& folder) {
  struct stat info = {};
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) return false;
  const Descriptor lock(::open((folder / kLockName).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (lock.is_open()) return ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  return std::time(nullptr) - info.st_mtime > kGraceSeconds && has_no_lock_and_nothing_else(folder);
}

void remove_abandoned(const fs::path& base) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.compare(0, sizeof(kNameStart) - 1, kNameStart) != 0 ||
        name.size() != sizeof(kNameStart) - 1 + kRandomLetters || !is_abandoned(entry->path()))
      continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

CommandFolder::CommandFolder() {
  const fs::path base = fs::absolute(value_or("TMPDIR", "/tmp"));
  remove_abandoned(base);
  path_ = (base / kNameStart).string() + std::string(kRandomLetters, 'X');
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error(path_ + ": no temporary folder can be made there (" + std::strerror(errno) +
                             "); set TMPDIR to a folder that can be written");
  }
  at_end_.emplace(path_);
  const std::string made = path_ + "/" + kNewLockName;
  lock_ = Descriptor(::open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock_.is_open()) return;
  ::flock(lock_.get(), LOCK_EX | LOCK_NB);
  ::rename(made.c_str(), (path_ + "/" + kLockName).c_str());
}

// A process may make a file in the folder at any moment, as long as the folder has its name: what is made while the
// content is removed would stay, with the folder and without the lock. The new name is one that the next run removes,
// if this one is killed meanwhile.
CommandFolder::~CommandFolder() {
  if (!at_end_) return;
  try {
    std::error_code ignored;
    std::string renamed = path_;
    renamed.back() = '~';
    fs::remove_all(::rename(path_.c_str(), renamed.c_str()) == 0 ? renamed : path_, ignored);
  } catch (const std::bad_alloc&) {  // the next run removes it
  }
}

void CommandFolder::keep() {
  at_end_.reset();
  ::unlink((path_ + "/" + kLockName).c_str());
}

}  // namespace culprit::report
