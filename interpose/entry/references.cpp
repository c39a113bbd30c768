#include "interpose/entry/references.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/machine.h"
#include "interpose/base/placement.h"
#include "interpose/entry/own_exports.h"
#include "interpose/loader/described_modules.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_modules.h"

extern "C" {

// The result of culprit_bind().
struct Binding {
  std::uint64_t address;
  std::uint64_t answered;  // 0: jump there instead of returning it
};
CULPRIT_OWN Binding culprit_bind(std::uint32_t number, std::uint64_t caller);

// The resolver of each export, in bindings_*.S.
extern CULPRIT_OWN const char culprit_bindings[];
constexpr std::uint64_t kBindingBytes = 16;
}

namespace culprit {
namespace {

// Length of the loader's list at the program's start: the references of those modules are bound by the time that a
// resolver of ours runs.
CULPRIT_AT_LOAD std::uint32_t nodes_at_start;

// Calls visit(module) for each module in the loader's list until it returns true. Returns whether it did. The loader
// binds a module before _dl_find_object() and any_module() know it.
template <typename Visit>
bool any_node(Visit visit) {
  auto visit_one = [&](const struct link_map& node) {
    ElfModule module;
    return describe_node(node, &module) && visit(module);
  };
  return visit_nodes(
      [](const struct link_map& node, void* data) -> bool { return (*static_cast<decltype(visit_one)*>(data))(node); },
      &visit_one);
}

bool is_ours(const ElfModule& module) { return module.load_bias == own_symbols().load_bias; }

// The module that answered last: libcuda, while a library is bound to hundreds of its functions.
ElfModule last_definer;
ModuleMark last_mark;

// A module with an old hash table only (--hash-style=sysv), which ElfModule does not describe.
bool defines_in_old_table(const struct dl_phdr_info& info, const char* name) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
  }
  std::uint64_t hash = 0, symbols = 0, strings = 0;
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_HASH) hash = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_SYMTAB) symbols = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_STRTAB) strings = dynamic->d_un.d_ptr;
  }
  // In the vDSO they are offsets still. It defines nothing of ours.
  if (hash <= info.dlpi_addr || symbols <= info.dlpi_addr || strings <= info.dlpi_addr) return false;
  const std::uint32_t count = reinterpret_cast<const std::uint32_t*>(hash)[1];
  for (std::uint32_t i = 1; i < count; ++i) {
    const ElfW(Sym)& symbol = reinterpret_cast<const ElfW(Sym)*>(symbols)[i];
    if (symbol.st_shndx != SHN_UNDEF && std::strcmp(reinterpret_cast<const char*>(strings) + symbol.st_name, name) == 0)
      return true;
  }
  return false;
}

// Whether a module other than ours defines the name.
bool is_defined(const char* name) {
  const std::uint32_t hash = gnu_hash_of(name);
  ModuleMark mark;
  if (last_mark.begin != 0 && find_module_mark(last_definer.begin, &mark) && mark == last_mark &&
      defines_symbol(last_definer, name, hash))
    return true;
  return any_loaded_module([&](const struct dl_phdr_info& info) {
    ElfModule module;
    if (!describe_module(info, &module)) return defines_in_old_table(info, name);
    if (is_own_module(module) || !defines_symbol(module, name, hash)) return false;
    last_definer = module;
    if (!find_module_mark(module.begin, &last_mark)) last_mark = {};
    return true;
  });
}

// is_defined() also for modules that are being loaded.
bool will_be_defined(const char* name) {
  const std::uint32_t hash = gnu_hash_of(name);
  return is_defined(name) ||
         any_node([&](const ElfModule& module) { return !is_ours(module) && defines_symbol(module, name, hash); });
}

// Calls visit(symbol, name) for each symbol that the module refers to and that we export, until it returns true. May
// visit a symbol more than once. Returns whether it did.
template <typename Visit>
bool any_reference(const ElfModule& module, Visit visit) {
  auto look_at = [&](const ElfW(Sym) & symbol) {
    if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0) return false;
    const char* name = module.strings + symbol.st_name;
    return visit(symbol, name);
  };
  const std::uint32_t count = symbols_before_hashed(module);
  for (std::uint32_t i = 1; i < count; ++i) {
    if (look_at(module.symbols[i])) return true;
  }
  if (count != 0) return false;
  const Relocations relocations = relocations_of(module);
  for (const Relocations::Table& table : {relocations.calls, relocations.data}) {
    for (const ElfW(Rela) & relocation : table) {
      const std::uint64_t number = ELF64_R_SYM(relocation.r_info);
      if (number != 0 && look_at(module.symbols[number])) return true;
    }
  }
  return false;
}

bool is_strong(const ElfW(Sym) & symbol) { return ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL; }

// Whether a module that was opened after the start cannot be without the name.
bool is_needed(const char* name) {
  std::uint32_t place = 0;
  return any_node([&](const ElfModule& module) {
    if (place++ < nodes_at_start) return false;
    return any_reference(module, [&](const ElfW(Sym) & symbol, const char* referred) {
      return is_strong(symbol) && std::strcmp(referred, name) == 0;
    });
  });
}

// is_defined() while KeptDescriptions exist.
bool is_defined_at_load(const char* name, std::uint32_t hash) {
  if (!all_are_described()) return is_defined(name);
  return any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    return !is_own_module(module) && defines_symbol(module, name, hash);
  });
}

// The value of a weak reference to one of our exports that stands in for another module's, 0 = any other symbol.
std::uint64_t weak_value(const ElfW(Sym) & symbol, const char* name, std::uint32_t* hash) {
  if (ELF64_ST_BIND(symbol.st_info) != STB_WEAK || !stands_in(name)) return 0;
  *hash = gnu_hash_of(name);
  return find_symbol(own_symbols(), name, *hash);
}

// Stores into a module's data, whose RELRO part is writable from the first store there until the end.
class Stores {
 public:
  explicit Stores(const struct dl_phdr_info& info) {
    page_ = static_cast<std::uint64_t>(getpagesize());
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info.dlpi_phdr[i];
      const std::uint64_t begin = info.dlpi_addr + header.p_vaddr;
      const std::uint64_t end = begin + header.p_memsz;
      if (header.p_type == PT_GNU_RELRO) relro_ = {begin & ~(page_ - 1), end & ~(page_ - 1)};
      if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0) data_ = {begin, end};
    }
  }
  ~Stores() {
    if (opened_) protect(PROT_READ);
  }
  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

  void store(std::uint64_t* slot, std::uint64_t value) {
    const auto place = reinterpret_cast<std::uint64_t>(slot);
    if (relro_.contains(place) && !opened_ && !(opened_ = protect(PROT_READ | PROT_WRITE))) return;
    if (relro_.contains(place) || data_.contains(place)) *slot = value;
  }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool contains(std::uint64_t place) const { return place >= begin && place < end; }
  };
  bool protect(int protection) {
    return mprotect(reinterpret_cast<void*>(relro_.begin), relro_.end - relro_.begin, protection) == 0;
  }
  std::uint64_t page_;
  Range relro_;  // the loader has made whole pages of it read-only
  Range data_;
  bool opened_ = false;
};

// Slots for calls stay: a program does not call what it found to be null.
CULPRIT_LOADING void clear_references(const ElfModule& module, const struct dl_phdr_info& info) {
  std::uint32_t hash = 0;
  const bool some = any_reference(
      module, [&](const ElfW(Sym) & symbol, const char* name) { return weak_value(symbol, name, &hash) != 0; });
  if (!some) return;
  Stores stores(info);
  Relocations::Table table = relocations_of(module).data;
  table.first += relocations_of(module).relative;
  for (const ElfW(Rela) & relocation : table) {
    const auto type = ELF64_R_TYPE(relocation.r_info);
    if (type != kGlobalDataRelocation && type != kAbsoluteRelocation) continue;
    const ElfW(Sym)& symbol = module.symbols[ELF64_R_SYM(relocation.r_info)];
    if (symbol.st_shndx != SHN_UNDEF) continue;
    const char* name = module.strings + symbol.st_name;
    const std::uint64_t ours = weak_value(symbol, name, &hash);
    auto* slot = reinterpret_cast<std::uint64_t*>(info.dlpi_addr + relocation.r_offset);
    const std::uint64_t added = type == kAbsoluteRelocation ? static_cast<std::uint64_t>(relocation.r_addend) : 0;
    if (ours != 0 && *slot == ours + added && !is_defined_at_load(name, hash)) stores.store(slot, added);
  }
}

// Whether a module that is opened later may find the name absent. CUDA's are asked about in any case: a driver of the
// program's start may lack some of them.
bool may_be_absent(const char* name) {
  if (!stands_in(name)) return false;
  return (name[0] == 'c' && name[1] == 'u') || !is_defined_at_load(name, gnu_hash_of(name));
}

// Whether a module refers to a function that opens libraries, or finds such a function.
CULPRIT_LOADING bool refers_to_opening(const ElfModule& module) {
  return any_reference(module, [](const ElfW(Sym)&, const char* name) {
    for (const char* function : {"dlopen", "dlmopen", "dlsym", "dlvsym", "__libc_dlopen_mode", "__libc_dlsym"}) {
      if (is_name(function, name)) return true;
    }
    return false;
  });
}

// The pages of our segment that has this address: all of them, because the kernel would split the mapping for a part.
CULPRIT_LOADING void find_segment(std::uint64_t address, std::uint64_t* begin, std::uint64_t* bytes) {
  struct dl_phdr_info info;
  if (!find_module(address, &info)) return;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const std::uint64_t first = info.dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || address < first || address - first >= header.p_memsz) continue;
    *begin = first & ~(header.p_align - 1);
    *bytes = first + header.p_memsz - *begin;
  }
}

// From now on the loader asks culprit_bind() about these exports.
CULPRIT_LOADING void make_ifuncs() {
  const OwnExports& exports = own_exports();
  auto* symbols = const_cast<ElfW(Sym)*>(exports.module.symbols) + exports.first;
  // Constants: our code is in another segment (-z separate-code).
  std::uint64_t begin = 0, bytes = 0;
  find_segment(reinterpret_cast<std::uint64_t>(symbols), &begin, &bytes);
  if (exports.count == 0 || bytes == 0 || mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE) != 0)
    return;
  const std::uint64_t resolvers = reinterpret_cast<std::uint64_t>(culprit_bindings) - exports.module.load_bias;
  for (std::uint32_t i = 0; i < exports.count; ++i) {
    if (exports.offsets[i] == 0) continue;
    if (!may_be_absent(exports.name(i))) continue;
    symbols[i].st_value = resolvers + i * kBindingBytes;
    symbols[i].st_info = ELF64_ST_INFO(ELF64_ST_BIND(symbols[i].st_info), STT_GNU_IFUNC);
  }
  mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ);
}

}  // namespace

CULPRIT_LOADING void answer_references() {
  if (loaded_late()) return;
  bool opens_libraries = !all_are_described();
  visit_nodes(
      [](const struct link_map&, void*) {
        ++nodes_at_start;
        return false;
      },
      nullptr);
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (is_own_module(module)) return false;
    clear_references(module, info);
    opens_libraries = opens_libraries || (!is_libc(info, module) && refers_to_opening(module));
    return false;
  });
  // Without such a reference only libc opens libraries, for names of users and for character sets; those know no CUDA.
  // Other libcs know no IFUNCs.
  if (opens_libraries && libc_function("gnu_get_libc_version") != 0) make_ifuncs();
}

}  // namespace culprit

using namespace culprit;

// Called by the loader, or by its dlsym(); or by code that read our symbol table itself, and takes the resolver for the
// function: it gets the function.
Binding culprit_bind(std::uint32_t number, std::uint64_t caller) {
  const OwnExports& exports = own_exports();
  const std::uint64_t hook = exports.address(number);
  if (!in_libc(caller)) return {hook, 0};
  const char* name = exports.name(number);
  return {will_be_defined(name) || is_needed(name) ? hook : 0, 1};
}
