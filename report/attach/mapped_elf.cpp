#include "report/attach/mapped_elf.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "report/base/descriptor.h"

namespace culprit::report {
namespace {

constexpr std::size_t kComparedBytes = 4096;  // headers and the build ID

// A device that is mapped (/dev/nvidia0) is no library; opening one has effects, and may wait for ever.
int open_regular(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return -1;
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

}  // namespace

MappedElf::MappedElf(const TracedProcess& process)
    : process_(process),
      root_(process.path_from_here("")),
      thread_(process.living_thread()),
      mappings_(process.mappings()) {}

// By its number, which some file systems tell in another way in /proc/PID/maps (overlay, btrfs), or by its beginning,
// which nothing has changed in memory.
bool MappedElf::is_mapped_one(int file, const MappedRange& range) const {
  struct stat facts = {};
  if (::fstat(file, &facts) != 0) return false;
  if (facts.st_ino == range.inode && facts.st_dev == range.device) return true;
  char here[kComparedBytes];
  char there[kComparedBytes];
  const std::size_t size = std::min<std::uint64_t>(sizeof(there), static_cast<std::uint64_t>(facts.st_size));
  return ::pread(file, here, size, static_cast<off_t>(range.offset)) == static_cast<ssize_t>(size) &&
         process_.read_memory(range.begin, there, size) && std::memcmp(here, there, size) == 0;
}

int MappedElf::open_file(const MappedRange& range, std::string* path) const {
  // The last path is that of a program that has changed its root: what it had loaded before is outside.
  for (const std::string& each : {root_ + range.path, process_.mapped_file(range), range.path}) {
    Descriptor file(open_regular(each));
    if (!file.is_open() || !is_mapped_one(file.get(), range)) continue;
    *path = each;
    return file.release();
  }
  return -1;
}

int MappedElf::find(Dwfl_Module* module, const char* name, Dwarf_Addr base, char** file_name, Elf** elf) const {
  if (name[0] != '/') return ::dwfl_linux_proc_find_elf(module, nullptr, name, base, file_name, elf);
  const auto range =
      std::find_if(mappings_.begin(), mappings_.end(), [&](const MappedRange& each) { return each.contains(base); });
  const auto end = std::find_if(
      range, mappings_.end(), [&](const MappedRange& each) { return !each.path.empty() && each.path != range->path; });
  // Shared memory and data files have no frames.
  if (std::none_of(range, end, [](const MappedRange& each) { return each.executable; })) return -1;
  std::string path;
  const int file = open_file(*range, &path);
  if (file >= 0) *file_name = ::strdup(path.c_str());
  if (file >= 0) return file;
  // libdwfl reads the kernel's library from memory, by this name.
  const std::string from_memory = "[vdso: " + std::to_string(thread_) + "]";
  return ::dwfl_linux_proc_find_elf(module, nullptr, from_memory.c_str(), base, file_name, elf);
}

}  // namespace culprit::report
