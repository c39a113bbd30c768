#include "report/attach/library_for_target.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "report/attach/read_ahead.h"

namespace culprit::report {

namespace fs = std::filesystem;

LibraryForTarget::LibraryForTarget(const TracedProcess& process, const std::string& library) : path_(library) {
  if (fs::path(library).filename().string().rfind("libculprit.so", 0) != 0) {
    throw AttachError(library +
                      ": cannot be loaded into a running process under this name, which must begin with "
                      "libculprit.so");
  }
  const std::string seen = process.path_from_here(library);
  struct stat here = {};
  struct stat there = {};
  if (::stat(library.c_str(), &here) == 0 && ::stat(seen.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
      here.st_ino == there.st_ino) {
    read_file_ahead(library);
    return;
  }
  std::string why;
  for (const char* place : {"/tmp", "/var/tmp", "/dev/shm", "/run"}) {
    const std::string problem = copy_to(process, library, place);
    if (problem.empty()) return;
    why += (why.empty() ? "" : "; ") + std::string(place) + ": " + problem;
  }
  throw AttachError(process.name() + " has other files than culprit (a container), and libculprit.so cannot be put " +
                    "among them (" + why +
                    "): make one of these places writable, or start the program with culprit run");
}

// Returns the error; empty on success.
std::string LibraryForTarget::copy_to(const TracedProcess& process, const std::string& library,
                                      const std::string& place) {
  struct statvfs file_system = {};
  std::string folder = process.path_from_here(place + "/culprit-XXXXXX");
  if (::statvfs(process.path_from_here(place).c_str(), &file_system) != 0) return std::strerror(errno);
  if ((file_system.f_flag & ST_NOEXEC) != 0) return "mounted noexec";
  if (::mkdtemp(folder.data()) == nullptr) return std::strerror(errno);
  folder_ = folder;
  std::error_code error;
  fs::copy_file(library, folder + "/libculprit.so", error);
  ::chmod(folder.c_str(), 0755);
  ::chmod((folder + "/libculprit.so").c_str(), 0755);
  path_ = folder.substr(process.path_from_here("").size()) + "/libculprit.so";
  if (!error) return {};
  remove();
  return error.message();
}

void LibraryForTarget::remove() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  folder_.clear();
}

}  // namespace culprit::report
