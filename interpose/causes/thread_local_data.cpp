#include "interpose/causes/thread_local_data.h"

#include <elf.h>

#include "interpose/base/elf_symbols.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

#if defined(__x86_64__)

constexpr std::uint64_t kWord = sizeof(std::uint64_t);

std::uint64_t thread_pointer() { return reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()); }

std::uint64_t word_at(std::uint64_t address) {
  std::uint64_t word = 0;
  return os.read_own_memory(&word, address, sizeof(word)) == sizeof(word) ? word : 0;
}

const ElfW(Phdr) * thread_local_segment(const struct dl_phdr_info& module) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    if (module.dlpi_phdr[i].p_type == PT_TLS) return &module.dlpi_phdr[i];
  }
  return nullptr;
}

// The loader gives the program's own segment the place below the thread's control block (the ABI's variant II).
std::uint64_t begin_of_program(const ElfW(Phdr) & segment) {
  const std::uint64_t alignment = segment.p_align == 0 ? 1 : segment.p_align;
  if (segment.p_vaddr % alignment != 0) return 0;
  return thread_pointer() - (segment.p_memsz + alignment - 1) / alignment * alignment;
}

// The thread's block of the module with this number: the second word of the control block leads to a table with two
// words for each, the first of which is the address, or -1. The pair in front of the table has its size. (glibc,
// sysdeps/generic/dl-dtv.h; libthread_db relies on it.)
std::uint64_t begin_by_number(std::uint64_t number) {
  const std::uint64_t table = word_at(thread_pointer() + kWord);
  if (table == 0 || number == 0 || number > word_at(table - 2 * kWord)) return 0;
  const std::uint64_t begin = word_at(table + 2 * kWord * number);
  return begin == ~std::uint64_t{0} ? 0 : begin;
}

// Whether a reference to a symbol is one to the module's own variable: that of no module before it is taken.
bool is_own_symbol(const ElfModule& module, std::uint64_t symbol) {
  if (symbol == 0) return true;
  const ElfW(Sym)& entry = module.symbols[symbol];
  if (entry.st_shndx == SHN_UNDEF) return false;
  const char* name = module.strings + entry.st_name;
  const std::uint32_t hash = gnu_hash_of(name);
  bool own = false;
  any_module([&](const ElfModule& other, const struct dl_phdr_info&) {
    own = other.load_bias == module.load_bias;
    return own || defines_symbol(other, name, hash);
  });
  return own;
}

std::uint64_t begin_by_references(const ElfModule& module) {
  const Relocations all = relocations_of(module);
  for (const auto* at = all.data.first + all.relative; at < all.data.last; ++at) {
    const ElfW(Rela)& one = *at;
    const std::uint64_t type = ELF64_R_TYPE(one.r_info);
    const std::uint64_t symbol = ELF64_R_SYM(one.r_info);
    if ((type != R_X86_64_DTPMOD64 && type != R_X86_64_TPOFF64) || !is_own_symbol(module, symbol)) continue;
    const std::uint64_t value = word_at(module.load_bias + one.r_offset);
    if (type == R_X86_64_DTPMOD64) return begin_by_number(value);
    const std::uint64_t offset =
        (symbol == 0 ? 0 : module.symbols[symbol].st_value) + static_cast<std::uint64_t>(one.r_addend);
    return thread_pointer() + value - offset;
  }
  return 0;
}

#endif

}  // namespace

ThreadLocalData thread_local_data_of(const struct dl_phdr_info& module, bool is_program) {
#if defined(__x86_64__)
  const ElfW(Phdr)* segment = thread_local_segment(module);
  if (segment == nullptr) return {};
  std::uint64_t begin = 0;
  ElfModule described;
  if (is_program) {
    begin = begin_of_program(*segment);
  } else if (describe_module(module, &described)) {
    begin = begin_by_references(described);
  }
  const std::uint64_t bytes = segment->p_memsz / kWord * kWord;
  if (begin == 0 || begin % kWord != 0 || begin + bytes < begin) return {};
  return {{begin, begin + bytes}, module.dlpi_addr + segment->p_vaddr};
#else
  return {};
#endif
}

}  // namespace culprit
