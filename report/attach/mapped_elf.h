// The ELF file that a process has mapped, for libdw. Where the file of that name is another one now (an upgrade of
// packages, another root or other mounts), the mapped one is opened through /proc/PID/map_files, which only some users
// may do, or read from the process's memory, which lacks nothing that unwinding needs.
#pragma once

#include <elfutils/libdwfl.h>

#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

class MappedElf {
 public:
  explicit MappedElf(const TracedProcess& process);

  // As they were when this object was made.
  const std::vector<MappedRange>& mappings() const { return mappings_; }

  // As libdwfl's callback find_elf, for the module of this name at `base`.
  int find(Dwfl_Module* module, const char* name, Dwarf_Addr base, char** file_name, Elf** elf) const;

 private:
  int open_file(const MappedRange& range, std::string* path) const;
  bool is_mapped_one(int file, const MappedRange& range) const;

  const TracedProcess& process_;
  const std::string root_;
  const pid_t thread_;
  const std::vector<MappedRange> mappings_;
};

}  // namespace culprit::report
