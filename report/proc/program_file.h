// How the kernel starts a program: the facts that stand in its file.
#pragma once

#include <elf.h>

#include <string>
#include <string_view>

namespace culprit::report {

#if defined(__x86_64__)
inline constexpr unsigned kThisMachine = EM_X86_64;
inline constexpr char kThisMachineName[] = "x86-64";
#else
inline constexpr unsigned kThisMachine = EM_AARCH64;
inline constexpr char kThisMachineName[] = "aarch64";
#endif

struct ProgramFile {
  enum class Kind { kOther, kScript, kElf };
  Kind kind = Kind::kOther;
  std::string interpreter;         // of a script; empty: none is named
  std::string argument;            // of a script: the rest of its first line
  bool for_this_processor = true;  // an ELF file with 64 bits for this machine
  std::string loader;              // PT_INTERP; empty: a static program, which no library can be preloaded into
};

// `head`: the beginning of the file; 4 KiB have all of it in files that a linker has made.
ProgramFile read_program(std::string_view head);

}  // namespace culprit::report
