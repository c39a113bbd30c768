#include "interpose/base/process_names.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "interpose/base/loader_modules.h"
#include "interpose/base/os.h"
#include "interpose/base/restrictions.h"
#include "interpose/base/text_writer.h"

namespace culprit {
namespace {

// The path in a line of /proc/self/maps ("begin-end rights offset device inode path") that holds `address`, or nullptr.
const char* path_in_line(char* line, std::uint64_t address) {
  char* after = nullptr;
  const std::uint64_t begin = std::strtoull(line, &after, 16);
  if (*after != '-' || address < begin || address >= std::strtoull(after + 1, nullptr, 16)) return nullptr;
  return std::strchr(line, '/');
}

// The first mapping of the program has its path.
std::size_t mapped_program_path(char* path, std::size_t capacity) {
  const std::uint64_t entry = auxiliary_value(AT_ENTRY);
  const int fd = os.open_file("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  const char* found = nullptr;
  std::size_t length = 0;
  char line[4300];
  std::size_t used = 0;
  char next;
  while (found == nullptr && syscall(SYS_read, fd, &next, 1) == 1) {
    if (next != '\n') {
      if (used + 1 < sizeof(line)) line[used++] = next;
      continue;
    }
    line[used] = '\0';
    used = 0;
    found = path_in_line(line, entry);
  }
  os.close_file(fd);
  if (found != nullptr) length = std::strlen(found);
  if (length >= capacity) length = capacity - 1;
  if (found != nullptr) std::memcpy(path, found, length);
  return length;
}

}  // namespace

std::size_t program_path(char* path, std::size_t capacity) {
  std::size_t length = 0;
  if (calls_restricted()) {
    length = mapped_program_path(path, capacity);
  } else {
    const long read = syscall(SYS_readlink, "/proc/self/exe", path, capacity - 1);
    if (read > 0) length = static_cast<std::size_t>(read);
  }
  path[length] = '\0';
  return length;
}

void host_name(char* name, std::size_t capacity) {
  struct utsname host;
  if (calls_restricted()) {
    const std::size_t length = read_small_file("/proc/sys/kernel/hostname", name, capacity);
    if (length > 0 && name[length - 1] == '\n') name[length - 1] = '\0';
  } else {
    copy_text(name, capacity, uname(&host) == 0 ? host.nodename : "");
  }
  if (name[0] == '\0') copy_text(name, capacity, "unknown");
}

}  // namespace culprit
