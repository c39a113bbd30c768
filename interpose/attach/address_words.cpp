#include "interpose/attach/address_words.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "interpose/attach/swap_word.h"
#include "interpose/base/machine.h"
#include "interpose/causes/unseen_users.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/hooks/hooks.h"
#include "interpose/loader/loader_count.h"
#include "interpose/loader/loader_lock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// The protection of a slot's page that is not writable: the loader makes the RELRO part read-only, whatever its
// segment allows.
int protection_at_rest(const struct dl_phdr_info& info, std::uint64_t place) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  int protection = PROT_READ;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const std::uint64_t begin = info.dlpi_addr + header.p_vaddr;
    const std::uint64_t end = begin + header.p_memsz;
    if (header.p_type == PT_GNU_RELRO && place >= (begin & ~(page - 1)) && place < (end & ~(page - 1)))
      return PROT_READ;
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0 && place >= begin && place < end)
      protection |= PROT_EXEC;
  }
  return protection;
}

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

void AddressWords::note_slot(const struct dl_phdr_info& info, std::uint64_t place, std::uint64_t original,
                             std::uint64_t ours) {
  if (slot_count_ + noted_count_ == kMostSlots) return;
  slots_[slot_count_ + noted_count_++] = {reinterpret_cast<std::uint64_t*>(place), ~original, ours,
                                          protection_at_rest(info, place)};
}

void AddressWords::replace_noted() {
  Slot* const noted = slots_ + slot_count_;
  std::sort(noted, noted + noted_count_, [](const Slot& left, const Slot& right) { return left.place < right.place; });
  SlotSwapper swapper;
  for (std::uint32_t i = 0; i < noted_count_; ++i) {
    const Slot slot = noted[i];
    // One of the attach of a fork parent is ours already, and has to be put back too.
    if (*slot.place == slot.ours || swapper.replace(slot, &refused_slots_)) slots_[slot_count_++] = slot;
  }
  noted_count_ = 0;
}

bool AddressWords::is_same(const KnownModule& known, const ElfModule& module) const {
  if (known.begin != module.begin || known.end != module.end || known.dynamic != module.dynamic) return false;
  return known.slot == kMostSlots || *slots_[known.slot].place == slots_[known.slot].ours;
}

// They are known in the order of the loader's list, nearly.
bool AddressWords::is_known(const ElfModule& module) {
  for (int i = 0; i < known_count_; ++i) {
    const int at = (known_next_ + i) % known_count_;
    if (!is_same(known_modules_[at], module)) continue;
    known_next_ = at + 1;
    return true;
  }
  return false;
}

void AddressWords::look_at_reference(const ElfModule& module, const struct dl_phdr_info& info,
                                     const ElfW(Rela) & relocation) {
  auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
  if (type != kJumpSlotRelocation && type != kGlobalDataRelocation &&
      (type != kAbsoluteRelocation || relocation.r_addend != 0))
    return;
  const auto index = static_cast<std::uint32_t>(ELF64_R_SYM(relocation.r_info));
  if (!names_.may_be(index)) return;
  const char* symbol = module.strings + module.symbols[index].st_name;
  std::uint64_t original = 0, ours = 0;
  const std::uint64_t place = module.load_bias + relocation.r_offset;
  const auto* slot = reinterpret_cast<const std::uint64_t*>(place);
  if (type != kAbsoluteRelocation && find_cxx_replacement(symbol, module, slot, &ours)) {
    note_slot(info, place, *slot, ours);
    return;
  }
  if (!find_replacement(symbol, &original, &ours)) return;
  const std::uint64_t found = *slot;
  if (found == ours) {
    note_slot(info, place, original, ours);
    return;
  }
  if (found != original) {
    // An unresolved slot leads back into the module, and from there to the loader. Any other value is another
    // interposer's.
    if (type != kJumpSlotRelocation || !module.contains(found)) return;
    if (first_definition(symbol) != original) return;
  }
  note_slot(info, place, found, ours);
}

// A module of which a part was searched is searched from there on, once, if it is still the same.
bool AddressWords::replace_slots_of(const ElfModule& module, const struct dl_phdr_info& info, const StepTime& time) {
  constexpr std::uint64_t kBetweenLooks = 512;
  const bool goes_on = searched_part_ != 0 && is_same(in_part_, module);
  std::uint32_t first_slot = goes_on && in_part_.slot != kMostSlots ? in_part_.slot : slot_count_;
  const std::uint64_t skipped = goes_on ? searched_part_ : 0;
  searched_part_ = 0;
  if (!goes_on) names_.look_at(module);

  Relocations relocations = relocations_of(module);
  // PyTorch's libraries have a million of them.
  if (relocations.data.first != nullptr) relocations.data.first += relocations.relative;
  std::uint64_t searched = 0;
  for (const Relocations::Table& table : {relocations.data, relocations.calls}) {
    const auto count = static_cast<std::uint64_t>(table.last - table.first);
    std::uint64_t at = skipped > searched ? std::min(skipped - searched, count) : 0;
    for (; at < count && searched_part_ == 0; ++at) {
      look_at_reference(module, info, table.first[at]);
      if ((at + 1) % kBetweenLooks == 0 && time.is_over()) searched_part_ = searched + at + 1;
    }
    searched += count;
  }
  replace_noted();
  if (first_slot == slot_count_) first_slot = kMostSlots;
  const KnownModule found = {module.begin, module.end, module.dynamic, first_slot};
  if (searched_part_ != 0) {
    in_part_ = found;
    return false;
  }
  KnownModule* place = std::find_if(known_modules_, known_modules_ + known_count_,
                                    [&](const KnownModule& known) { return known.begin == module.begin; });
  if (place == known_modules_ + known_count_ && known_count_ < kMostModules) ++known_count_;
  if (place < known_modules_ + kMostModules) *place = found;
  return true;
}

bool AddressWords::walk_modules(const StepTime& time) {
  more_modules_were_added(&list_end_);
  known_next_ = 0;
  return !any_loaded_module([&](const struct dl_phdr_info& info) {
    ElfModule module;
    if (!describe_segments(info, &module) || is_known(module)) return false;
    if (!describe_module(info, &module) || may_know_the_driver(info, module)) return false;
    return !replace_slots_of(module, info, time) || time.is_over();
  });
}

AddressWords::Progress AddressWords::replace_slots(const StepTime& time) {
  int error = 0;
  if (slots_ == nullptr) slots_ = static_cast<Slot*>(map_private(kMostSlots * sizeof(Slot), &error));
  if (slots_ == nullptr) return Progress::kNoMemory;
  SpinGuard guard(lock_);
  if (state_ != State::kReplacing) refused_slots_ = 0;
  state_ = State::kReplacing;
  if (!walk_modules(time)) return Progress::kMore;
  state_ = State::kReplaced;
  changed_slots_ = slot_count_;
  return Progress::kDone;
}

AddressWords::Progress AddressWords::put_slots_back(const StepTime& time) {
  constexpr std::uint32_t kBetweenLooks = 32;
  SpinGuard guard(lock_);
  if (state_ != State::kPuttingBack) changed_slots_ = refused_slots_ = 0;
  state_ = State::kPuttingBack;
  known_count_ = 0;
  searched_part_ = 0;
  {
    SlotSwapper swapper;
    while (slot_count_ > 0) {
      if (swapper.put_back(slots_[--slot_count_], &refused_slots_)) ++changed_slots_;
      if (slot_count_ % kBetweenLooks == 1 && time.is_over()) return Progress::kMore;
    }
  }
  if (slots_ != nullptr) unmap_private(slots_, kMostSlots * sizeof(Slot));
  slots_ = nullptr;
  state_ = State::kPutBack;
  return Progress::kDone;
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
  constexpr std::uint64_t kBlock = format::kPlacesBlockBytes;
  constexpr std::uint64_t kPage = 4096;
  int error = 0;
  auto* block = static_cast<std::uint64_t*>(map_private(kBlock, &error));
  if (block == nullptr) return 0;
  std::uint32_t replaced = 0;
  std::uint64_t page = 0;
  bool writable = false;
  for (std::uint64_t i = 0; i < count;) {
    const std::uint64_t begin = places[i];
    std::uint64_t end = (begin | (kBlock - 1)) + 1;
    const std::int64_t got = os.read_own_memory(block, begin, end - begin);
    const std::uint64_t known = got > 0 ? static_cast<std::uint64_t>(got) : 0;
    // Unreadable memory ends the copy: go on behind its page.
    if (known < end - begin) end = ((begin + known) | (kPage - 1)) + 1;
    for (; i < count && places[i] >= begin && places[i] < end; ++i) {
      const std::uint64_t at = places[i] - begin;
      if (known < at + sizeof(std::uint64_t)) continue;
      const std::uint64_t word = block[at / sizeof(std::uint64_t)];
      const std::uint64_t wanted = replacement(driver, word);
      if (wanted == 0) continue;
      // The memory may be another by now: a library that was loaded has made its slots read-only.
      if (places[i] / kPage != page) writable = os.probe_write(places[i]) == 0;
      page = places[i] / kPage;
      if (writable && swap_word(places[i], word, wanted)) ++replaced;
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
  // Otherwise an attach or a detach is at work, which looks at all modules itself.
  if (state_ == State::kReplaced) walk_modules(StepTime());
}

}  // namespace culprit
