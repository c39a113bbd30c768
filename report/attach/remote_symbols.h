// Addresses of functions of a mapped ELF file in another process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// A file that the process has mapped.
struct RemoteModule {
  std::string path;  // inside the process
  std::string file;  // from this process
  std::uint64_t begin = 0;
};

// The first loaded library whose name begins with one of `names`; an empty path when there is none. Throws AttachError
// when the file was replaced on disk and cannot be opened in another way.
RemoteModule find_module(const TracedProcess& process, const std::vector<MappedRange>& mappings,
                         const std::vector<std::string>& names);

// The address of an exported function; 0 when the module does not define it. Throws AttachError when the file cannot be
// read.
std::uint64_t find_function(const RemoteModule& module, const std::string& name);
// The same for a variable.
std::uint64_t find_variable(const RemoteModule& module, const std::string& name);

}  // namespace culprit::report
