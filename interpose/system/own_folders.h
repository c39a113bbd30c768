// Folders of this process in /proc.
#pragma once

#include <fcntl.h>

#include <cstdint>

#include "interpose/system/os.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {

// getdents64(2).
struct FolderEntry {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t bytes;
  std::uint8_t type;
  char name[];
};

// Calls visit(name) for each entry of a folder of this process in /proc, until it returns false. Returns whether all
// were visited.
template <typename Visit>
bool for_each_entry(const char* folder, Visit visit) {
  if (calls_restricted_now()) return false;
  const int fd = open_own_file(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return false;
  alignas(8) char buffer[2048] = {};
  bool all = true;
  for (;;) {
    const long got = system_call(SYS_getdents64, fd, buffer, sizeof(buffer));
    if (got <= 0) {
      all = all && got == 0;
      break;
    }
    for (long at = 0; at < got && all;) {
      const auto* entry = reinterpret_cast<const FolderEntry*>(buffer + at);
      if (entry->name[0] != '.') all = visit(static_cast<const char*>(entry->name));
      at += entry->bytes;
    }
    if (!all) break;
  }
  os.close_file(fd);
  return all;
}

}  // namespace culprit
