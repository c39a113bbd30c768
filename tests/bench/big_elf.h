// Writes shared libraries that `culprit report` takes long to read. Writing one takes a second; compiling one would
// take much longer than reading it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct BigLibrary {
  std::string path;
  std::vector<std::uint8_t> build_id;
  std::uint64_t code_begin = 0;  // virtual addresses of the functions, which are all of one size
  std::uint64_t code_end = 0;
};

constexpr std::uint64_t kFunctionBytes = 256;

// A library of `file_bytes` (most of them a hole in the file) with `symbols` functions in its symbol table, mangled C++
// names of about 60 characters. Throws std::runtime_error when it cannot be written.
BigLibrary write_symbol_library(const std::string& path, std::uint64_t symbols, std::uint64_t file_bytes);

// A library with `units` compile units of `functions` functions each, with DWARF 4 as GCC -O2 -g writes it: classes
// with members, abstract functions, definitions with parameters, inlined calls two deep, call sites, and a line table.
// About 800 bytes a function, code and symbols included. Throws std::runtime_error when it cannot be written.
BigLibrary write_dwarf_library(const std::string& path, unsigned units, unsigned functions);

}  // namespace bench
