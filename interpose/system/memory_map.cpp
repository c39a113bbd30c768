#include "interpose/system/memory_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "interpose/base/maps_line.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {
MemoryMap::~MemoryMap() {
  if (mappings_ != nullptr) unmap_private(mappings_, kMost * sizeof(Mapping));
}

bool MemoryMap::read() {
  int error = 0;
  // Pages that are never written take no memory.
  if (mappings_ == nullptr) mappings_ = static_cast<Mapping*>(map_private(kMost * sizeof(Mapping), &error));
  auto* text = static_cast<char*>(map_private(kText, &error));
  text_begin_ = reinterpret_cast<std::uint64_t>(text);
  count_ = 0;
  if (mappings_ == nullptr || text == nullptr) return false;
  int fd = open_own_file("maps", O_RDONLY);
  std::uint64_t length = 0;
  while (fd >= 0 && length + 1 < kText) {
    long got = syscall(SYS_read, fd, text + length, kText - 1 - length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    length += static_cast<std::uint64_t>(got);
  }
  if (fd >= 0) os.close_file(fd);
  for (const char* line = text; line < text + length && count_ < kMost;) {
    const char* path = nullptr;
    if (parse_maps_line(line, &mappings_[count_], &path)) ++count_;
    const void* newline = std::memchr(line, '\n', static_cast<std::size_t>(text + length - line));
    if (newline == nullptr) break;
    line = static_cast<const char*>(newline) + 1;
  }
  unmap_private(text, kText);
  return count_ != 0;
}

const Mapping* MemoryMap::find(std::uint64_t address) const {
  std::uint64_t low = 0, high = count_;
  while (low < high) {
    std::uint64_t middle = (low + high) / 2;
    if (address >= mappings_[middle].end) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count_ && address >= mappings_[low].begin ? &mappings_[low] : nullptr;
}

}  // namespace culprit
