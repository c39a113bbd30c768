#include "interpose/stacks/unwind_services.h"

#include "interpose/stacks/walk_reader.h"

namespace {

using culprit::WalkedWords;
using Kind = culprit::WalkedWords::Kind;

// Whether a module's code is at `data`, an address.
int visit_for_code(struct dl_phdr_info* module, std::size_t, void* data) {
  const std::uint64_t address = *static_cast<const std::uint64_t*>(data);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module->dlpi_phdr[i];
    const bool in = address - (module->dlpi_addr + header.p_vaddr) < header.p_memsz;
    if (header.p_type == PT_LOAD && in) return (header.p_flags & PF_X) != 0 ? 1 : -1;
  }
  return 0;
}

}  // namespace

namespace culprit {

bool ends_with_call(std::uint64_t code) {
  const auto byte = [code](int before) { return static_cast<unsigned>(code >> (64 - 8 * before)) & 0xff; };
  if (byte(5) == 0xe8) return true;
  const auto is_indirect = [byte](int length) { return byte(length) == 0xff && (byte(length - 1) >> 3 & 7) == 2; };
  return is_indirect(2) || is_indirect(3) || is_indirect(4) || is_indirect(6) || is_indirect(7);
}

}  // namespace culprit

extern "C" {
int culprit_visit_module_at(unsigned long address, culprit::ModuleVisitor visit, void* data) {
  struct dl_phdr_info module;
  return culprit::find_module(address, &module) ? visit(&module, sizeof(module), data) : 0;
}

__attribute__((weak)) void* culprit_unwind_cache(std::size_t) { return nullptr; }

int culprit_read_word(unsigned long address, unsigned long* value) {
  return culprit::walk_reader != nullptr && culprit::walk_reader->read(address, value) ? 1 : 0;
}

int culprit_can_read(unsigned long address) {
  unsigned long unused;
  return culprit_read_word(address, &unused);
}

void culprit_begin_guessing() {
  if (culprit::walk_reader != nullptr) culprit::walk_reader->begin_guessing();
}

int culprit_is_frame_pointer(unsigned long value, unsigned long cfa) {
  return WalkedWords::is_frame_pointer(value, cfa) ? 1 : 0;
}

int culprit_read_frame_pointer(unsigned long address, unsigned long cfa, unsigned long* value) {
  culprit::WalkReader* reader = culprit::walk_reader;
  if (reader == nullptr || !reader->read(address, value, Kind::kFramePointer, cfa)) return -1;
  return culprit_is_frame_pointer(*value, cfa);
}

int culprit_is_return_address_at(unsigned long frame_pointer) {
  culprit::WalkReader* reader = culprit::walk_reader;
  unsigned long address = 0, callers_rbp = 0, code = 0;
  if (reader == nullptr || !reader->read(frame_pointer + 8, &address, Kind::kReturnAddress) ||
      !WalkedWords::is_program_address(address))
    return 0;
  const int in_code = culprit_visit_module_at(address, visit_for_code, &address);
  if (in_code != 0) return in_code > 0 ? 1 : 0;
  if (reader->read(address - 8, &code, Kind::kWord, 0, false) && culprit::ends_with_call(code)) return 1;
  return culprit_read_frame_pointer(frame_pointer, frame_pointer + 16, &callers_rbp) > 0 ? 1 : 0;
}
}
