#include "report/proc/program_file.h"

#include <algorithm>
#include <cstring>

namespace culprit::report {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin));
}

// "#!/usr/bin/env -S python3 -u": the interpreter, and the rest as one argument, as the kernel passes it.
ProgramFile script(std::string_view line) {
  ProgramFile file;
  file.kind = ProgramFile::Kind::kScript;
  const std::string words = trimmed(line.substr(0, line.find('\n')));
  const std::size_t end = std::min(words.find_first_of(" \t"), words.size());
  file.interpreter = words.substr(0, end);
  file.argument = trimmed(std::string_view(words).substr(end));
  return file;
}

std::string loader_of(std::string_view head, const Elf64_Ehdr& header) {
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part = {};
    const std::size_t at = header.e_phoff + i * sizeof(part);
    if (at > head.size() || head.size() - at < sizeof(part)) return "";
    std::memcpy(&part, head.data() + at, sizeof(part));
    if (part.p_type != PT_INTERP) continue;
    // A name that lies beyond the head is not known; the program has a loader even so.
    if (part.p_offset >= head.size()) return "ld.so";
    const std::string_view name = head.substr(part.p_offset, part.p_filesz);
    return std::string(name.substr(0, name.find('\0')));
  }
  return "";
}

}  // namespace

ProgramFile read_program(std::string_view head) {
  if (head.substr(0, 2) == "#!") return script(head.substr(2));
  ProgramFile file;
  if (head.size() < SELFMAG || std::memcmp(head.data(), ELFMAG, SELFMAG) != 0) return file;
  file.kind = ProgramFile::Kind::kElf;
  Elf64_Ehdr header = {};
  if (head.size() < sizeof(header)) {
    file.for_this_processor = false;
    return file;
  }
  std::memcpy(&header, head.data(), sizeof(header));
  file.for_this_processor = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kThisMachine;
  if (header.e_ident[EI_CLASS] == ELFCLASS64) file.loader = loader_of(head, header);
  return file;
}

}  // namespace culprit::report
