#include "interpose/base/elf_symbols.h"

#include <cstring>

#include "interpose/base/own_module.h"
#include "interpose/base/placement.h"

namespace culprit {
namespace {

bool read_dynamic(const ElfW(Dyn) * dynamic, ElfModule* module);

}  // namespace

CULPRIT_LOADING bool describe_segments(const struct dl_phdr_info& info, ElfModule* module) {
  *module = {};
  module->load_bias = info.dlpi_addr;
  module->begin = ~0ULL;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    std::uint64_t begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (header.p_type != PT_LOAD) continue;
    if (begin < module->begin) module->begin = begin;
    if (begin + header.p_memsz > module->end) module->end = begin + header.p_memsz;
  }
  module->dynamic = dynamic;
  return dynamic != nullptr;
}

CULPRIT_LOADING bool describe_module(const struct dl_phdr_info& info, ElfModule* module) {
  return describe_segments(info, module) && read_dynamic(module->dynamic, module);
}

bool describe_node(const struct link_map& node, ElfModule* module) {
  *module = {};
  module->load_bias = module->begin = node.l_addr;
  module->end = ~0ULL;
  return node.l_ld != nullptr && read_dynamic(node.l_ld, module);
}

namespace {

CULPRIT_LOADING bool read_dynamic(const ElfW(Dyn) * dynamic, ElfModule* module) {
  module->dynamic = dynamic;
  std::uint64_t soname = 0;
  // glibc relocates these addresses in place; otherwise (the vdso, other libcs) they are still offsets.
  auto address = [&](ElfW(Addr) value) { return module->contains(value) ? value : value + module->load_bias; };
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        module->symbols = reinterpret_cast<const ElfW(Sym)*>(address(dynamic->d_un.d_ptr));
        break;
      case DT_STRTAB:
        module->strings = reinterpret_cast<const char*>(address(dynamic->d_un.d_ptr));
        break;
      case DT_GNU_HASH:
        module->gnu_hash = reinterpret_cast<const std::uint32_t*>(address(dynamic->d_un.d_ptr));
        break;
      case DT_VERSYM:
        module->versions = reinterpret_cast<const std::uint16_t*>(address(dynamic->d_un.d_ptr));
        break;
      case DT_SONAME:
        soname = dynamic->d_un.d_val;
        break;
    }
  }
  if (module->symbols == nullptr || module->strings == nullptr || module->gnu_hash == nullptr) return false;
  if (soname != 0) module->soname = module->strings + soname;
  return true;
}

}  // namespace

Relocations relocations_of(const ElfModule& module) {
  Relocations relocations = {};
  std::uint64_t calls_bytes = 0, data_bytes = 0;
  for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
    const std::uint64_t value = entry->d_un.d_val;
    const auto* table = reinterpret_cast<const ElfW(Rela)*>(module.contains(value) ? value : value + module.load_bias);
    if (entry->d_tag == DT_JMPREL) relocations.calls.first = table;
    if (entry->d_tag == DT_PLTRELSZ) calls_bytes = value;
    if (entry->d_tag == DT_RELA) relocations.data.first = table;
    if (entry->d_tag == DT_RELASZ) data_bytes = value;
    if (entry->d_tag == DT_RELACOUNT) relocations.relative = value;
  }
  auto end = [](Relocations::Table& table, std::uint64_t bytes) {
    table.last = table.first == nullptr ? nullptr : table.first + bytes / sizeof(*table.first);
  };
  end(relocations.calls, calls_bytes);
  end(relocations.data, data_bytes);
  return relocations;
}

std::uint64_t find_symbol(const ElfModule& module, const char* name) {
  return find_symbol(module, name, gnu_hash_of(name));
}

namespace {

bool is_definition(const ElfW(Sym) & symbol) { return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0; }

// The symbol `name` in the module's hash table, of its default version if there is one; nullptr = none.
const ElfW(Sym) * find_hashed(const ElfModule& module, const char* name, std::uint32_t hash, bool definition) {
  // The table: bucket count, first hashed symbol, bloom words, bloom shift; bloom filter; buckets; chain of hashes.
  std::uint32_t bucket_count = module.gnu_hash[0];
  std::uint32_t first = module.gnu_hash[1];
  std::uint32_t bloom_words = module.gnu_hash[2];
  std::uint32_t bloom_shift = module.gnu_hash[3];
  if (bucket_count == 0 || bloom_words == 0) return nullptr;
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(module.gnu_hash + 4);
  const auto* buckets = reinterpret_cast<const std::uint32_t*>(bloom + bloom_words);
  const std::uint32_t* chain = buckets + bucket_count;

  constexpr std::uint32_t kBits = sizeof(ElfW(Addr)) * 8;
  ElfW(Addr) word = bloom[(hash / kBits) % bloom_words];
  if (((word >> (hash % kBits)) & (word >> ((hash >> bloom_shift) % kBits)) & 1) == 0) return nullptr;
  std::uint32_t index = buckets[hash % bucket_count];
  if (index < first) return nullptr;
  constexpr std::uint16_t kOldVersion = 0x8000;  // "hidden": for modules linked to that version
  const ElfW(Sym)* old = nullptr;
  for (;; ++index) {
    std::uint32_t candidate = chain[index - first];
    if ((candidate | 1) == (hash | 1)) {
      const ElfW(Sym)& symbol = module.symbols[index];
      if ((is_definition(symbol) || !definition) && std::strcmp(module.strings + symbol.st_name, name) == 0) {
        if (module.versions == nullptr || (module.versions[index] & kOldVersion) == 0) return &symbol;
        old = &symbol;
      }
    }
    if ((candidate & 1) != 0) return old;
  }
}

const ElfW(Sym) * find_definition(const ElfModule& module, const char* name, std::uint32_t hash) {
  return find_hashed(module, name, hash, true);
}

}  // namespace

std::uint64_t find_symbol(const ElfModule& module, const char* name, std::uint32_t hash) {
  const ElfW(Sym)* symbol = find_definition(module, name, hash);
  if (symbol == nullptr) return 0;
  const auto type = ELF64_ST_TYPE(symbol->st_info);
  return type == STT_GNU_IFUNC || type == STT_TLS ? 0 : module.load_bias + symbol->st_value;
}

std::uint64_t symbol_bytes(const ElfModule& module, const char* name) {
  const ElfW(Sym)* symbol = find_definition(module, name, gnu_hash_of(name));
  return symbol == nullptr ? 0 : symbol->st_size;
}

bool defines_symbol(const ElfModule& module, const char* name, std::uint32_t hash) {
  return find_definition(module, name, hash) != nullptr;
}

bool hashes_symbol(const ElfModule& module, const char* name, std::uint32_t hash) {
  return find_hashed(module, name, hash, false) != nullptr;
}

namespace {

const std::uint32_t* buckets_of(const ElfModule& module) {
  return module.gnu_hash + 4 + std::uint64_t{module.gnu_hash[2]} * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
}

}  // namespace

std::uint32_t symbols_before_hashed(const ElfModule& module) {
  const bool is_empty = module.gnu_hash[0] == 1 && buckets_of(module)[0] == 0;
  return is_empty ? 0 : module.gnu_hash[1];
}

HashedSymbols hashed_symbols_of(const ElfModule& module) {
  const std::uint32_t bucket_count = module.gnu_hash[0];
  HashedSymbols symbols = {module.gnu_hash[1], module.gnu_hash[1]};
  const std::uint32_t* buckets = buckets_of(module);
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < bucket_count; ++i) last = buckets[i] > last ? buckets[i] : last;
  if (last < symbols.first) return symbols;
  const std::uint32_t* chain = buckets + bucket_count;
  while ((chain[last - symbols.first] & 1) == 0) ++last;
  symbols.end = last + 1;
  return symbols;
}

bool is_own_module(const ElfModule& module) { return module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start)); }

}  // namespace culprit
