#include "report/attach/program_kind.h"

#include <elf.h>

#include <cstring>

namespace culprit::report {
namespace {

constexpr std::size_t kHeadBytes = 4096;

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#else
constexpr unsigned kMachine = EM_AARCH64;
#endif

// A tool that runs the program's code through a translator of its own; a call that is put into a thread's registers
// would run outside of it.
struct Translator {
  const char* file;  // beginning of a mapped file's name
  const char* name;
};
constexpr Translator kTranslators[] = {
    {"vgpreload_", "valgrind"}, {"libdynamorio.so", "DynamoRIO"}, {"libpinvm", "Intel Pin"}, {"pinbin", "Intel Pin"},
    {"qemu-", "QEMU"},          {"FEXInterpreter", "FEX"},        {"librrpreload.so", "rr"},
};

bool is_for_this_processor(const TracedProcess& process, const MappedRange& libc) {
  Elf64_Ehdr header = {};
  if (!process.read_memory(libc.begin, &header, sizeof(header))) return true;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine == kMachine;
}

}  // namespace

bool names_loader(const std::string& head) {
  Elf64_Ehdr header = {};
  if (head.size() < sizeof(header)) return false;
  std::memcpy(&header, head.data(), sizeof(header));
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part = {};
    const std::size_t at = header.e_phoff + i * sizeof(part);
    if (at > head.size() || head.size() - at < sizeof(part)) return false;
    std::memcpy(&part, head.data() + at, sizeof(part));
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

void check_libc(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  MappedRange libc;
  bool musl = false;
  bool loader = false;
  for (const MappedRange& range : mappings) {
    for (const Translator& translator : kTranslators) {
      if (!range.file_begins_with(translator.file)) continue;
      throw AttachError(process.name() + " runs under " + translator.name +
                        ", which does not run code that is put into it from outside: start the program without it");
    }
    musl = musl || range.file_begins_with("ld-musl") || range.file_begins_with("libc.musl");
    loader = loader || range.file_begins_with("ld-linux") || range.file_begins_with("ld-2.");
    if (libc.path.empty() && range.offset == 0 &&
        (range.file_begins_with("libc.so.6") || range.file_begins_with("libc-2.")))
      libc = range;
  }
  const std::string head = process.folder().living().program_head(kHeadBytes);
  const bool has_loader = head.empty() || names_loader(head);
  if (libc.path.empty()) {
    if (musl) throw AttachError(process.name() + " runs on musl, libculprit.so needs glibc");
    if (loader || has_loader) {
      throw StillStarting(process.name() +
                          " has not loaded glibc (does it still start?): nothing was changed; try again later");
    }
    throw AttachError(process.name() + " is a static program: nothing can be loaded into it");
  }
  if (!is_for_this_processor(process, libc)) {
    throw AttachError(process.name() + " is a program for another processor, in an emulator: libculprit.so is for " +
                      (kMachine == EM_X86_64 ? "x86-64" : "aarch64"));
  }
  if (!has_loader && !loader) {
    throw AttachError(process.name() +
                      " is a static program that has loaded a libc by itself (an emulator, or a program under one): a "
                      "call that is put into it from outside would not run in there");
  }
}

}  // namespace culprit::report
