// One line of /proc/*/maps.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace culprit {

struct Mapping {
  std::uint64_t begin;
  std::uint64_t end;
  int protection;  // PROT_READ | PROT_WRITE | PROT_EXEC
  bool shared;
  bool device;  // of a file in /dev
  bool file;
  bool program_break;  // the heap that grows by brk()
  bool main_stack;
  bool kernel;  // the kernel's own: vdso, vvar, vsyscall
  bool nvidia;  // of a file of NVIDIA's driver
};

// Reads the hexadecimal number (without 0x) at `*text`, and moves `*text` behind it.
inline std::uint64_t parse_hex(const char** text) {
  std::uint64_t value = 0;
  for (;; ++*text) {
    char c = **text;
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

// "7f1200000000-7f1200021000 rw-p 00000000 00:00 0 /path": returns false for any other line. `line` ends with a newline
// or NUL. `*path`: the path in it, or its end.
inline bool parse_maps_line(const char* line, Mapping* mapping, const char** path) {
  mapping->begin = parse_hex(&line);
  if (*line++ != '-') return false;
  mapping->end = parse_hex(&line);
  if (*line++ != ' ') return false;
  for (int i = 0; i < 4; ++i) {
    if (line[i] == '\n' || line[i] == '\0') return false;
  }
  mapping->protection =
      (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) | (line[2] == 'x' ? PROT_EXEC : 0);
  mapping->shared = line[3] == 's';
  while (*line != '/' && *line != '[' && *line != '\n' && *line != '\0') ++line;
  mapping->program_break = std::strncmp(line, "[heap]", 6) == 0;
  mapping->kernel = std::strncmp(line, "[v", 2) == 0;
  mapping->main_stack = std::strncmp(line, "[stack]", 7) == 0;
  while (*line != '/' && *line != '\n' && *line != '\0') ++line;
  mapping->file = *line == '/';
  mapping->device = std::strncmp(line, "/dev/", 5) == 0;
  mapping->nvidia = std::strncmp(line, "/dev/nvidia", 11) == 0;
  *path = line;
  return true;
}

}  // namespace culprit
