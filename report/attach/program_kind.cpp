#include "report/attach/program_kind.h"

#include <elf.h>

#include <cstring>

#include "report/proc/loaded_library.h"
#include "report/proc/program_file.h"

namespace culprit::report {
namespace {

constexpr std::size_t kHeadBytes = 4096;

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
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine == kThisMachine;
}

}  // namespace

void check_libc(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  const MappedRange* libc = find_loaded(mappings, {"libc.so.6", "libc-2."});
  const std::string head = process.folder().living().program_head(kHeadBytes);
  const std::string interpreter = head.empty() ? "" : read_program(head).loader;
  // Its loader is a link to its libc, whose name may be libc.so.
  const bool musl = find_loaded(mappings, {"ld-musl", "libc.musl"}) != nullptr ||
                    (libc == nullptr && interpreter.find("/ld-musl") != std::string::npos);
  const bool loader = find_loaded(mappings, {"ld-linux", "ld-2."}) != nullptr;
  for (const MappedRange& range : mappings) {
    for (const Translator& translator : kTranslators) {
      if (!range.file_begins_with(translator.file)) continue;
      throw AttachError(process.name() + " runs under " + translator.name +
                        ", which does not run code that is put into it from outside: start the program without it");
    }
  }
  const bool has_loader = head.empty() || !interpreter.empty();
  if (libc == nullptr) {
    if (musl) throw AttachError(process.name() + " runs on musl, libculprit.so needs glibc");
    if (loader || has_loader) {
      throw StillStarting(process.name() +
                          " has not loaded glibc (does it still start?): nothing was changed; try again later");
    }
    throw AttachError(process.name() + " is a static program: nothing can be loaded into it");
  }
  if (!is_for_this_processor(process, *libc)) {
    throw AttachError(process.name() + " is a program for another processor, in an emulator: libculprit.so is for " +
                      kThisMachineName);
  }
  if (!has_loader && !loader) {
    throw AttachError(process.name() +
                      " is a static program that has loaded a libc by itself (an emulator, or a program under one): a "
                      "call that is put into it from outside would not run in there");
  }
}

}  // namespace culprit::report
