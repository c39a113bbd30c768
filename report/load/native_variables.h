// Names of the variables of libraries whose C++ objects lead to memory of a framework's cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct NativeVariable {
  std::string path;           // of the file
  std::string build_id;       // hex digits; empty: not recorded, the file is trusted
  std::uint64_t address = 0;  // in the file; format::kHolderThreadLocal marks one in a thread-local segment
  std::string name;           // "g_cache of libext.so"; without a symbol "a variable of libext.so"
};

// Fills in the names, from the files on this machine. Reads each file once. A file with another build ID has none.
void name_variables(std::vector<NativeVariable>* variables);

}  // namespace culprit::report
