#include "interpose/attach/address_words.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "interpose/base/late_load.h"
#include "interpose/base/loader_count.h"
#include "interpose/base/machine.h"
#include "interpose/base/os.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/written_memory.h"
#include "interpose/causes/cxx_runtime.h"
#include "interpose/causes/unseen_users.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/hooks/hooks.h"

namespace culprit {
namespace {

// Functions of libc that a preloaded library interposes.
struct OfLibc {
  const char* name;
  void* ours;
};
const OfLibc kOfLibc[] = {
    {"dlsym", reinterpret_cast<void*>(&dlsym)},
    {"dlclose", reinterpret_cast<void*>(&dlclose)},
    {"_exit", reinterpret_cast<void*>(&_exit)},
    {"_Exit", reinterpret_cast<void*>(&_Exit)},
    {"quick_exit", reinterpret_cast<void*>(&quick_exit)},
    {"pthread_exit", reinterpret_cast<void*>(&pthread_exit)},
    {"pthread_cancel", reinterpret_cast<void*>(&pthread_cancel)},
};

// The real address of a symbol and our replacement. Returns false for a symbol that is not replaced.
bool find_replacement(const char* symbol, std::uint64_t* original, std::uint64_t* ours) {
  *original = 0;
  Api api;
  if (symbol[0] == 'c' && symbol[1] == 'u' && find_hooked_name(symbol, &api)) {
    *original = reinterpret_cast<std::uint64_t>(driver_address(api));
    *ours = reinterpret_cast<std::uint64_t>(hook_address(api));
    return *original != 0;
  }
  if (symbol[0] != 'd' && symbol[0] != '_' && symbol[0] != 'p') return false;
  for (const OfLibc& function : kOfLibc) {
    if (std::strcmp(function.name, symbol) != 0) continue;
    *original = libc_function(symbol);
    *ours = reinterpret_cast<std::uint64_t>(function.ours);
    return *original != 0;
  }
  return false;
}

// A slot by which `module` calls its C++ runtime (a process can have several): our hook must call the slot's old value.
// An unresolved slot leads back into the module; our hook then finds the function itself.
bool find_cxx_replacement(const char* symbol, const ElfModule& module, const std::uint64_t* place,
                          std::uint64_t* ours) {
  CxxFunction function;
  void* hook = nullptr;
  if (symbol[0] != '_' || !find_cxx_hook(symbol, &function, &hook)) return false;
  const std::uint64_t found = *place;
  *ours = reinterpret_cast<std::uint64_t>(hook);
  if (found == 0 || found == *ours) return false;
  if (!module.contains(found) || found == find_symbol(module, symbol))
    remember_binding(function, module.begin, module.end, reinterpret_cast<void*>(found));
  return true;
}

// The first definition in symbol lookup order, except ours; 0 = none.
std::uint64_t first_definition(const char* symbol) {
  std::uint64_t address = 0;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (!is_own_module(module)) address = find_symbol(module, symbol);
    return address != 0;
  });
  return address;
}

bool swap_word(std::uint64_t place, std::uint64_t before, std::uint64_t after) {
  return __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(place), &before, after, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

// Like swap_word(), for memory that may be read-only (RELRO slots).
bool swap_slot(const MemoryMap& map, std::uint64_t place, std::uint64_t before, std::uint64_t after) {
  const Mapping* mapping = map.find(place);
  std::uint64_t found = 0;
  if (mapping == nullptr || mapping->shared ||
      os.read_own_memory(&found, place, sizeof(found)) != static_cast<std::int64_t>(sizeof(found)) || found != before)
    return false;
  if ((mapping->protection & PROT_WRITE) != 0) return swap_word(place, before, after);
  auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(place & ~(page_size - 1));
  if (mprotect(page, page_size, mapping->protection | PROT_WRITE) != 0) return false;
  bool swapped = swap_word(place, before, after);
  mprotect(page, page_size, mapping->protection);
  return swapped;
}

// The writable private memory to search: the data of modules, and the rest, small mappings before large ones.
class SearchedRanges {
 public:
  explicit SearchedRanges(const MemoryMap& map) {
    capacity_ = static_cast<std::uint64_t>(map.end() - map.begin()) + kMostLeftOut;
    int error = 0;
    ranges_ = static_cast<Range*>(map_private(capacity_ * sizeof(Range), &error));
    plain_ = static_cast<MemoryRange*>(map_private(capacity_ * sizeof(MemoryRange), &error));
    if (ranges_ == nullptr || plain_ == nullptr) return;
    any_module([this](const ElfModule& module, const struct dl_phdr_info& info) {
      add_module(module, info);
      return false;
    });
    std::sort(left_out_, left_out_ + left_out_count_,
              [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
    // The present stack holds the addresses that are searched for.
    auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    for (const Mapping& mapping : map) {
      if ((mapping.protection & PROT_WRITE) == 0 || (mapping.protection & PROT_READ) == 0 || mapping.shared ||
          mapping.device || (here >= mapping.begin && here < mapping.end))
        continue;
      add(mapping.begin, mapping.end);
    }
    std::sort(ranges_, ranges_ + count_, [](const Range& a, const Range& b) { return a.rank < b.rank; });
    for (std::uint64_t i = 0; i < count_; ++i) {
      plain_[i] = {ranges_[i].begin, ranges_[i].end};
      if (ranges_[i].rank == 0) of_modules_ = i + 1;
    }
  }
  ~SearchedRanges() {
    if (ranges_ != nullptr) unmap_private(ranges_, capacity_ * sizeof(Range));
    if (plain_ != nullptr) unmap_private(plain_, capacity_ * sizeof(MemoryRange));
  }
  SearchedRanges(const SearchedRanges&) = delete;
  SearchedRanges& operator=(const SearchedRanges&) = delete;

  const MemoryRange* list() const { return plain_; }
  int count() const { return static_cast<int>(count_); }
  // The first ranges of the list: data of modules.
  int of_modules() const { return static_cast<int>(of_modules_); }

  // Bytes after the range that was read up to `address`; 0 = nothing was read. Includes pages that were never written.
  std::uint64_t bytes_behind(std::uint64_t address) const {
    std::uint64_t bytes = 0;
    bool behind = address == 0;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (behind) bytes += plain_[i].end - plain_[i].begin;
      if (address > plain_[i].begin && address <= plain_[i].end) {
        behind = true;
        bytes += plain_[i].end - address;
      }
    }
    return bytes;
  }

 private:
  static constexpr int kMostLeftOut = 64;
  static constexpr int kMostModules = 4096;
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t rank;
  };

  void add_module(const ElfModule& module, const struct dl_phdr_info& info) {
    MemoryRange range = {module.begin & ~7ULL, (module.end + 7) & ~7ULL};
    if (may_know_the_driver(info, module)) {
      if (left_out_count_ < kMostLeftOut) left_out_[left_out_count_++] = range;
    } else if (module_count_ < kMostModules) {
      modules_[module_count_++] = range;
    }
  }

  bool in_module(std::uint64_t address) const {
    return std::any_of(modules_, modules_ + module_count_,
                       [&](const MemoryRange& module) { return address >= module.begin && address < module.end; });
  }

  void add(std::uint64_t begin, std::uint64_t end) {
    for (int i = 0; i < left_out_count_ && begin < end; ++i) {
      const MemoryRange& out = left_out_[i];
      if (out.end <= begin || out.begin >= end) continue;
      if (out.begin > begin) add_plain(begin, out.begin);
      begin = out.end;
    }
    if (begin < end) add_plain(begin, end);
  }
  void add_plain(std::uint64_t begin, std::uint64_t end) {
    if (count_ < capacity_) ranges_[count_++] = {begin, end, in_module(begin) ? 0 : end - begin};
  }

  std::uint64_t capacity_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t of_modules_ = 0;
  Range* ranges_ = nullptr;
  MemoryRange* plain_ = nullptr;
  int left_out_count_ = 0;
  int module_count_ = 0;
  MemoryRange left_out_[kMostLeftOut];
  MemoryRange modules_[kMostModules];
};

struct HookAddress {
  std::uint64_t hook;
  std::uint64_t driver;
};

// One search for words in [least, least + span], and their replacements.
struct WordSearch {
  bool to_hooks;
  std::uint64_t least;
  std::uint64_t span;
  HookAddress hooks[kApiCount];  // sorted
  std::uint32_t words;
  std::uint64_t end_of_last;

  void list_hooks() {
    for (int i = 0; i < kApiCount; ++i) {
      Api api = static_cast<Api>(i);
      hooks[i] = {reinterpret_cast<std::uint64_t>(hook_address(api)),
                  reinterpret_cast<std::uint64_t>(driver_address(api))};
    }
    std::sort(hooks, hooks + kApiCount, [](const HookAddress& a, const HookAddress& b) { return a.hook < b.hook; });
    least = hooks[0].hook;
    span = hooks[kApiCount - 1].hook - least;
  }

  std::uint64_t replacement(std::uint64_t word) const {
    HookedFunction function;
    if (to_hooks) {
      return find_hooked(reinterpret_cast<const void*>(word), &function)
                 ? reinterpret_cast<std::uint64_t>(hook_address(function))
                 : 0;
    }
    const HookAddress* found =
        std::lower_bound(hooks, hooks + kApiCount, word,
                         [](const HookAddress& entry, std::uint64_t value) { return entry.hook < value; });
    return found != hooks + kApiCount && found->hook == word ? found->driver : 0;
  }

  static bool visit(void* data, const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
    auto* self = static_cast<WordSearch*>(data);
    self->end_of_last = address + count * sizeof(std::uint64_t);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (words[i] - self->least > self->span) continue;
      std::uint64_t wanted = self->replacement(words[i]);
      if (wanted != 0 && swap_word(address + i * sizeof(std::uint64_t), words[i], wanted)) ++self->words;
    }
    return true;
  }
};

}  // namespace

void AddressWords::replace_slot(const MemoryMap& map, std::uint64_t place, std::uint64_t original, std::uint64_t ours) {
  if (slot_count_ == kMostSlots) return;
  if (!swap_slot(map, place, original, ours)) return;
  slots_[slot_count_++] = {reinterpret_cast<std::uint64_t*>(place), original, ours};
}

bool AddressWords::is_known(const ElfModule& module) const {
  return std::any_of(known_modules_, known_modules_ + known_count_, [&](const KnownModule& known) {
    if (known.begin != module.begin || known.end != module.end || known.dynamic != module.dynamic) return false;
    return known.slot == kMostSlots || *slots_[known.slot].place == slots_[known.slot].ours;
  });
}

void AddressWords::replace_slots_of(const ElfModule& module, const MemoryMap& map) {
  if (is_known(module)) return;
  std::uint32_t first_slot = slot_count_;

  const Relocations relocations = relocations_of(module);
  for (const Relocations::Table& table : {relocations.data, relocations.calls}) {
    for (const ElfW(Rela) & relocation : table) {
      auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
      if (type != kJumpSlotRelocation && type != kGlobalDataRelocation &&
          (type != kAbsoluteRelocation || relocation.r_addend != 0))
        continue;
      const char* symbol = module.strings + module.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
      std::uint64_t original = 0, ours = 0;
      std::uint64_t place = module.load_bias + relocation.r_offset;
      const auto* slot = reinterpret_cast<const std::uint64_t*>(place);
      if (type != kAbsoluteRelocation && find_cxx_replacement(symbol, module, slot, &ours)) {
        replace_slot(map, place, *slot, ours);
        continue;
      }
      if (!find_replacement(symbol, &original, &ours)) continue;
      std::uint64_t found = *slot;
      if (found == ours) {
        // Of the attach of a fork parent: to be put back too.
        if (slot_count_ < kMostSlots) slots_[slot_count_++] = {reinterpret_cast<std::uint64_t*>(place), original, ours};
        continue;
      }
      if (found != original) {
        // An unresolved slot leads back into the module, and from there to the loader. Any other value is another
        // interposer's.
        if (type != kJumpSlotRelocation || !module.contains(found)) continue;
        if (first_definition(symbol) != original) continue;
      }
      replace_slot(map, place, found, ours);
    }
  }
  if (first_slot == slot_count_) first_slot = kMostSlots;
  KnownModule* place = std::find_if(known_modules_, known_modules_ + known_count_,
                                    [&](const KnownModule& known) { return known.begin == module.begin; });
  if (place == known_modules_ + known_count_ && known_count_ < kMostModules) ++known_count_;
  if (place < known_modules_ + kMostModules) *place = {module.begin, module.end, module.dynamic, first_slot};
}

void AddressWords::walk_modules(const MemoryMap& map) {
  more_modules_were_added(&list_end_);
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (!may_know_the_driver(info, module)) replace_slots_of(module, map);
    return false;
  });
}

namespace {

// Replaces words in all writable memory, in one direction. Releases `loading` when the data of modules is done.
bool search_words(bool to_hooks, const MemoryMap& map, std::uint64_t deadline_ns, LoaderLock* loading,
                  WordsResult* result) {
  std::uint64_t begin = 0, end = 0;
  if (!driver_range(&begin, &end)) return true;  // without a driver there are no addresses
  int error = 0;
  auto* search = static_cast<WordSearch*>(map_private(sizeof(WordSearch), &error));
  auto* ranges = static_cast<SearchedRanges*>(map_private(sizeof(SearchedRanges), &error));
  if (search == nullptr || ranges == nullptr) {
    if (search != nullptr) unmap_private(search, sizeof(WordSearch));
    return false;
  }
  new (ranges) SearchedRanges(map);
  search->to_hooks = to_hooks;
  search->least = begin;
  search->span = end - begin;
  if (!to_hooks) search->list_hooks();
  const int of_modules = ranges->of_modules();
  ReadResult read = read_written_memory(ranges->list(), of_modules, deadline_ns, WordSearch::visit, search);
  result->searched_bytes = read.bytes_read;
  loading->release();
  if (read.end == ReadEnd::kDone) {
    read = read_written_memory(ranges->list() + of_modules, ranges->count() - of_modules, deadline_ns,
                               WordSearch::visit, search);
    result->searched_bytes += read.bytes_read;
  }
  if (read.end != ReadEnd::kDone) result->unsearched_bytes = ranges->bytes_behind(search->end_of_last);
  result->words = search->words;
  ranges->~SearchedRanges();
  unmap_private(ranges, sizeof(SearchedRanges));
  unmap_private(search, sizeof(WordSearch));
  return result->searched_bytes != 0;
}

}  // namespace

bool AddressWords::replace(std::uint64_t deadline_ns, LoaderLock* loading, WordsResult* result) {
  *result = {};
  int error = 0;
  MemoryMap map;
  if (!map.read()) return false;
  if (slots_ == nullptr) slots_ = static_cast<Slot*>(map_private(kMostSlots * sizeof(Slot), &error));
  if (slots_ == nullptr) return false;
  {
    SpinGuard guard(lock_);
    walk_modules(map);
    result->slots = slot_count_;
  }
  return search_words(true, map, deadline_ns, loading, result);
}

bool AddressWords::put_back(std::uint64_t deadline_ns, LoaderLock* loading, WordsResult* result) {
  *result = {};
  MemoryMap map;
  if (!map.read()) return false;
  {
    SpinGuard guard(lock_);
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
      const Slot& slot = slots_[i];
      if (swap_slot(map, reinterpret_cast<std::uint64_t>(slot.place), slot.ours, slot.original)) ++result->slots;
    }
    slot_count_ = 0;
    known_count_ = 0;
    if (slots_ != nullptr) unmap_private(slots_, kMostSlots * sizeof(Slot));
    slots_ = nullptr;
  }
  return search_words(false, map, deadline_ns, loading, result);
}

void AddressWords::look_at_new_modules() {
  SpinGuard guard(lock_);
  ModuleListEnd end = list_end_;
  if (!more_modules_were_added(&end)) return;
  const LoaderLock loading(0);
  if (!loading.done()) return;  // modules may be incomplete: at the next look
  MemoryMap map;
  if (slots_ == nullptr || !map.read()) return;
  walk_modules(map);
}

}  // namespace culprit
