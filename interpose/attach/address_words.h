// Replaces the driver's addresses in this process's memory by those of our hooks, and puts them back.
//
// Every CUDA runtime and framework keeps the driver's entry points as plain words in writable memory: data of modules,
// heap (measured for the static and the shared cudart, CuPy, ctypes, libtorch). Each word that equals the address of a
// hooked function is taken for an entry point. Modules that are linked to libcuda have entry points in slots that the
// loader fills. Some slots are read-only by now and some are not filled yet, so they are found by symbol name.
//
// Words are looked for from outside, by the command (report/attach/word_search.h); here the found ones are replaced.
//
// The memory of libcuda, CUPTI, debuggers, profilers and this library is left alone. Stacks are searched too: a table
// of function pointers in main() lies on one. If a stack word is about to be called, the call reaches the same function
// through our hook. If the word is the target of a hook's own driver call, the hook is entered again, sees that it is
// nested, and calls the driver.
//
// A word is stored whole (aligned, compare and swap), and only if it still holds the value that was read. Slots and
// data of modules are changed under the loader's lock: no other thread relocates a module, protects its pages or unmaps
// it meanwhile, so that what /proc says of a page stays true. If another thread unmaps other memory in the microsecond
// between the check and the store, the store faults; only memory that holds a pointer to the driver is at risk.
#pragma once

#include <cstdint>

#include "interpose/attach/replaced_names.h"
#include "interpose/attach/slot_swapper.h"
#include "interpose/attach/step_time.h"
#include "interpose/base/elf_symbols.h"
#include "interpose/format/attach_request.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

// Not thread-safe, except for look_at_new_modules().
class AddressWords {
 public:
  enum class Progress : std::uint8_t { kDone, kMore, kNoMemory };

  // Replaces the driver's addresses by our hooks' in slots that the loader fills. kMore: the time was over before the
  // last module; call it again.
  Progress replace_slots(const StepTime& time);
  // Puts the driver's addresses back there.
  Progress put_slots_back(const StepTime& time);
  // How many slots these changed, from the first call of the last one to its kDone.
  std::uint32_t changed_slots() const { return changed_slots_; }
  // How many replace_slots() could not change.
  std::uint32_t refused_slots() const { return refused_slots_; }

  // The addresses to look for in writable memory: the driver's, or those of our hooks.
  static const format::AddressSearch* search_for(bool driver);
  // Replaces those words at `places` that still hold such an address. Returns their number.
  static std::uint32_t replace(bool driver, const std::uint64_t* places, std::uint64_t count);

  // Replaces slots of modules that were loaded since the last look. Does nothing while another thread loads a library.
  // Thread-safe, changes errno.
  void look_at_new_modules();

 private:
  static constexpr std::uint32_t kMostSlots = 1 << 20;
  static constexpr int kMostModules = 4096;
  // A module whose slots were searched. Another one may lie at the same addresses later.
  struct KnownModule {
    std::uint64_t begin;
    std::uint64_t end;
    const void* dynamic;
    std::uint32_t slot;  // the first that was replaced; kMostSlots = none
  };
  enum class State : std::uint8_t { kPutBack, kReplacing, kReplaced, kPuttingBack };

  bool is_same(const KnownModule& known, const ElfModule& module) const;
  bool is_known(const ElfModule& module);
  // These return false when the time was over before the end.
  bool walk_modules(const StepTime& time);
  bool replace_slots_of(const ElfModule& module, const struct dl_phdr_info& info, const StepTime& time);
  void look_at_reference(const ElfModule& module, const struct dl_phdr_info& info, const ElfW(Rela) & relocation);
  // A slot of the module that is looked at, to be replaced by replace_noted().
  void note_slot(const struct dl_phdr_info& info, std::uint64_t place, std::uint64_t original, std::uint64_t ours);
  void replace_noted();

  Slot* slots_ = nullptr;  // since replace_slots()
  std::uint32_t slot_count_ = 0;
  std::uint32_t noted_count_ = 0;  // behind them
  std::uint32_t changed_slots_ = 0;
  std::uint32_t refused_slots_ = 0;
  KnownModule known_modules_[kMostModules] = {};
  int known_count_ = 0;
  int known_next_ = 0;  // behind the one that was found last
  std::uint64_t searched_part_ =
      0;                      // so many references of one module, which was not searched to its end; 0 = none ...
  KnownModule in_part_ = {};  // ... this one
  ReplacedNames names_;       // of the module that is searched
  State state_ = State::kPutBack;
  ModuleListEnd list_end_ = {};  // at the last search of slots
  SpinLock lock_;
};

}  // namespace culprit
