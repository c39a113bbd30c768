#include "interpose/attach/address_words.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "interpose/attach/swap_word.h"
#include "interpose/base/machine.h"
#include "interpose/causes/cxx_runtime.h"
#include "interpose/causes/unseen_users.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/hooks/hooks.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_count.h"
#include "interpose/loader/loader_lock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

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
  for (const OfLibc& function : kOfLibc) {
    if (!is_name(function.name, symbol)) continue;
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

// Like swap_word(), for memory that may be read-only (RELRO slots). A page stays writable while slots of the same page
// follow one another: each system call of a traced thread stops it twice.
class SlotSwapper {
 public:
  explicit SlotSwapper(const MemoryMap& map)
      : map_(map), page_size_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) {}
  ~SlotSwapper() { close(); }
  SlotSwapper(const SlotSwapper&) = delete;
  SlotSwapper& operator=(const SlotSwapper&) = delete;

  // `refused`: counts what may not be written (sealed).
  bool swap(std::uint64_t place, std::uint64_t before, std::uint64_t after, std::uint32_t* refused) {
    if (page_ != page_of(place)) open(place);
    switch (access_) {
      case Access::kNone:
        return false;
      case Access::kWritable:
        return swap_word(place, before, after);
      case Access::kSealed:
        break;
    }
    if (*reinterpret_cast<const std::uint64_t*>(place) != before) return false;
    if (os.write_own_word(place, after) == 0) return true;
    ++*refused;
    return false;
  }

 private:
  enum class Access : std::uint8_t { kNone, kWritable, kSealed };
  std::uint64_t page_of(std::uint64_t place) const { return place & ~(page_size_ - 1); }
  int protect(int protection) const { return mprotect(reinterpret_cast<void*>(page_), page_size_, protection); }
  void open(std::uint64_t place) {
    close();
    page_ = page_of(place);
    access_ = Access::kNone;
    const Mapping* mapping = map_.find(place);
    std::uint64_t found = 0;
    // The memory may be gone by now.
    if (mapping == nullptr || mapping->shared ||
        os.read_own_memory(&found, place, sizeof(found)) != static_cast<std::int64_t>(sizeof(found)))
      return;
    access_ = Access::kWritable;
    if ((mapping->protection & PROT_WRITE) != 0) return;
    opened_ = protect(mapping->protection | PROT_WRITE) == 0;
    protection_ = mapping->protection;
    if (!opened_) access_ = Access::kSealed;
  }
  void close() {
    if (opened_) protect(protection_);
    opened_ = false;
  }

  const MemoryMap& map_;
  const std::uint64_t page_size_;
  std::uint64_t page_ = 0;
  int protection_ = 0;
  Access access_ = Access::kNone;
  bool opened_ = false;
};

format::AddressSearch search;  // of one attach or detach at a time

struct HookAddress {
  std::uint64_t hook;
  Api api;
  bool operator<(const HookAddress& other) const { return hook < other.hook; }
};
HookAddress hooks[kApiCount];  // sorted, of a detach

void leave_out_modules() {
  any_module([](const ElfModule& module, const struct dl_phdr_info& info) {
    if (search.left_out_count < format::kMostLeftOut && may_know_the_driver(info, module))
      search.left_out[search.left_out_count++] = {module.begin, module.end};
    return false;
  });
}

std::uint64_t replacement(bool driver, std::uint64_t word) {
  HookedFunction function;
  if (driver) {
    return find_hooked(reinterpret_cast<const void*>(word), &function)
               ? reinterpret_cast<std::uint64_t>(hook_address(function))
               : 0;
  }
  const HookAddress* found = std::lower_bound(hooks, hooks + kApiCount, HookAddress{word, Api{}});
  if (found == hooks + kApiCount || found->hook != word) return 0;
  return reinterpret_cast<std::uint64_t>(driver_address(found->api));
}

}  // namespace

void AddressWords::note_slot(std::uint64_t place, std::uint64_t original, std::uint64_t ours) {
  if (slot_count_ + noted_count_ == kMostSlots) return;
  slots_[slot_count_ + noted_count_++] = {reinterpret_cast<std::uint64_t*>(place), original, ours};
}

void AddressWords::replace_noted(const MemoryMap& map) {
  Slot* const noted = slots_ + slot_count_;
  std::sort(noted, noted + noted_count_, [](const Slot& left, const Slot& right) { return left.place < right.place; });
  SlotSwapper swapper(map);
  for (std::uint32_t i = 0; i < noted_count_; ++i) {
    const Slot slot = noted[i];
    // One of the attach of a fork parent is ours already, and has to be put back too.
    const bool done = *slot.place == slot.ours || swapper.swap(reinterpret_cast<std::uint64_t>(slot.place),
                                                               slot.original, slot.ours, &refused_slots_);
    if (done) slots_[slot_count_++] = slot;
  }
  noted_count_ = 0;
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

  Relocations relocations = relocations_of(module);
  // PyTorch's libraries have a million of them.
  if (relocations.data.first != nullptr) relocations.data.first += relocations.relative;
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
        note_slot(place, *slot, ours);
        continue;
      }
      if (!find_replacement(symbol, &original, &ours)) continue;
      std::uint64_t found = *slot;
      if (found == ours) {
        note_slot(place, original, ours);
        continue;
      }
      if (found != original) {
        // An unresolved slot leads back into the module, and from there to the loader. Any other value is another
        // interposer's.
        if (type != kJumpSlotRelocation || !module.contains(found)) continue;
        if (first_definition(symbol) != original) continue;
      }
      note_slot(place, found, ours);
    }
  }
  replace_noted(map);
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

bool AddressWords::replace_slots() {
  int error = 0;
  MemoryMap map;
  if (!map.read()) return false;
  if (slots_ == nullptr) slots_ = static_cast<Slot*>(map_private(kMostSlots * sizeof(Slot), &error));
  if (slots_ == nullptr) return false;
  SpinGuard guard(lock_);
  refused_slots_ = 0;
  walk_modules(map);
  changed_slots_ = slot_count_;
  return true;
}

bool AddressWords::put_slots_back() {
  changed_slots_ = refused_slots_ = 0;
  MemoryMap map;
  if (!map.read()) return false;
  SpinGuard guard(lock_);
  {
    SlotSwapper swapper(map);
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
      const Slot& slot = slots_[i];
      if (swapper.swap(reinterpret_cast<std::uint64_t>(slot.place), slot.ours, slot.original, &refused_slots_))
        ++changed_slots_;
    }
  }
  slot_count_ = 0;
  known_count_ = 0;
  if (slots_ != nullptr) unmap_private(slots_, kMostSlots * sizeof(Slot));
  slots_ = nullptr;
  return true;
}

const format::AddressSearch* AddressWords::search_for(bool driver) {
  search.address_count = 0;
  search.left_out_count = 0;
  std::uint64_t begin = 0, end = 0;
  if (!driver_range(&begin, &end)) return nullptr;
  static_assert(kApiCount <= format::kMostSearchedAddresses);
  for (int i = 0; i < kApiCount; ++i) {
    const Api api = static_cast<Api>(i);
    const void* address = driver ? driver_address(api) : hook_address(api);
    hooks[i] = {reinterpret_cast<std::uint64_t>(hook_address(api)), api};
    if (address != nullptr) search.addresses[search.address_count++] = reinterpret_cast<std::uint64_t>(address);
  }
  std::sort(hooks, hooks + kApiCount);
  leave_out_modules();
  return &search;
}

std::uint32_t AddressWords::replace(bool driver, const std::uint64_t* places, std::uint64_t count) {
  // Few reads: each system call of a traced thread stops it twice.
  constexpr std::uint64_t kBlock = format::kPlacesBlockBytes;
  constexpr std::uint64_t kPage = 4096;
  int error = 0;
  MemoryMap map;
  if (!map.read()) return 0;
  auto* block = static_cast<std::uint64_t*>(map_private(kBlock, &error));
  if (block == nullptr) return 0;
  std::uint32_t replaced = 0;
  for (std::uint64_t i = 0; i < count;) {
    const std::uint64_t begin = places[i];
    std::uint64_t end = (begin | (kBlock - 1)) + 1;
    // The memory may be another by now: a library that was loaded has made its slots read-only.
    const Mapping* mapping = map.find(begin);
    const bool writable = mapping != nullptr && (mapping->protection & PROT_WRITE) != 0 && !mapping->shared;
    if (writable && end > mapping->end) end = mapping->end;
    if (!writable) end = (begin | (kPage - 1)) + 1;
    const std::int64_t got = writable ? os.read_own_memory(block, begin, end - begin) : 0;
    const std::uint64_t known = got > 0 ? static_cast<std::uint64_t>(got) : 0;
    // Unreadable memory ends the copy: go on behind its page.
    if (known < end - begin) end = ((begin + known) | (kPage - 1)) + 1;
    for (; i < count && places[i] >= begin && places[i] < end; ++i) {
      const std::uint64_t at = places[i] - begin;
      if (known < at + sizeof(std::uint64_t)) continue;
      const std::uint64_t word = block[at / sizeof(std::uint64_t)];
      const std::uint64_t wanted = replacement(driver, word);
      if (wanted != 0 && swap_word(places[i], word, wanted)) ++replaced;
    }
  }
  unmap_private(block, kBlock);
  return replaced;
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
