#include "interpose/base/process_names.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "interpose/base/auxiliary.h"
#include "interpose/base/maps_line.h"
#include "interpose/base/os.h"
#include "interpose/base/own_files.h"
#include "interpose/base/restrictions.h"
#include "interpose/base/text_writer.h"

namespace culprit {
namespace {

// The path in a line of /proc/*/maps whose mapping holds `address`, or nullptr.
const char* path_in_line(const char* line, std::uint64_t address) {
  Mapping mapping;
  const char* path = nullptr;
  if (!parse_maps_line(line, &mapping, &path) || address < mapping.begin || address >= mapping.end) return nullptr;
  return *path == '/' ? path : nullptr;
}

// The first mapping of the program has its path.
std::size_t mapped_program_path(char* path, std::size_t capacity) {
  const std::uint64_t entry = auxiliary_value(AT_ENTRY);
  const int fd = open_own_file("maps", O_RDONLY);
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
    const long read = syscall(SYS_readlink, "/proc/thread-self/exe", path, capacity - 1);
    length = read > 0 ? static_cast<std::size_t>(read) : mapped_program_path(path, capacity);
  }
  // In a root directory without /proc: the name by which the program was started, in the last bytes of the stack,
  // behind which the kernel has put zeros.
  const auto* name = reinterpret_cast<const char*>(length == 0 ? auxiliary_value(AT_EXECFN) : 0);
  if (name != nullptr) {
    length = ::strnlen(name, capacity - 1);
    std::memcpy(path, name, length);
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

std::size_t command_line(char* text, std::size_t capacity) { return read_own_file("cmdline", text, capacity); }

// Field 22 of /proc/self/stat, which is there also when main() has ended by pthread_exit(): the thread's own file has
// the start of the thread. The program's name in field 2 may hold spaces and parentheses.
std::uint64_t start_time_ticks() {
  char text[1024];
  if (read_small_file("/proc/self/stat", text, sizeof(text)) == 0) return 0;
  const char* place = std::strrchr(text, ')');
  if (place == nullptr) return 0;
  for (int field = 2; field < 22 && place != nullptr; ++field) place = std::strchr(place + 1, ' ');
  return place == nullptr ? 0 : std::strtoull(place + 1, nullptr, 10);
}

std::uint64_t pid_namespace() {
  FileId space = {};
  const int fd = open_own_file("ns/pid", O_RDONLY);
  if (fd < 0) return 0;
  const bool known = os.identify(fd, &space) == 0;
  os.close_file(fd);
  return known ? space.inode : 0;
}

void boot_id(char* text, std::size_t capacity) {
  constexpr std::size_t kLength = 36;
  if (read_small_file("/proc/sys/kernel/random/boot_id", text, capacity) > kLength) text[kLength] = '\0';
}

bool quick_thread_name(char* name) {
  if (calls_restricted_now()) return thread_name(0, name, 16);
  return syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0) == 0 && name[0] != '\0';
}

// Not prctl(PR_GET_NAME): a seccomp filter may kill the process for it; every filter allows opening and reading files.
bool thread_name(std::uint32_t thread, char* name, std::size_t capacity) {
  char file[32] = "comm";
  if (thread != 0)
    TextWriter(file, sizeof(file)) << "../" << thread << "/comm";  // a neighbour in the folder of threads
  const std::size_t length = read_own_file(file, name, capacity);
  if (length > 0 && name[length - 1] == '\n') name[length - 1] = '\0';
  return length > 0;
}

}  // namespace culprit
