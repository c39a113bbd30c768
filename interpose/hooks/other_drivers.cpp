// The thunks by which a program calls a driver that is not the first one (driver/loaded_drivers.h): each names its
// driver for the calling thread, and goes on to the hook of its row.
//
// A second set of hooks would be four times the code, and thunks in C++ were 120 KiB, which a program that locks all
// its memory has to lock. The hooks themselves test nothing: while there are several drivers, the functions that they
// call choose by thread (driver/dispatch_x86_64.S).
#include <type_traits>

#include "interpose/driver/loaded_drivers.h"
#include "interpose/hooks/hooks.h"

namespace culprit {
namespace {

constexpr int kThunkRows = 384;
constexpr int kThunkBytes = 16;
static_assert(kApiCount <= kThunkRows);
static_assert(kThunkSets == 2);
static_assert(sizeof(CalledDriver) <= 32);

// The words on the stack of a call's arguments, as the System V ABI passes them.
template <typename... Parameters>
constexpr std::uint8_t stack_words(CUresult (*)(Parameters...)) {
  static_assert(((!std::is_floating_point_v<Parameters> && alignof(Parameters) <= 8) && ...));
  std::size_t registers = 6;
  std::size_t words = 0;
  [[maybe_unused]] const auto pass = [&](std::size_t size) {
    const std::size_t needed = (size + 7) / 8;
    if (size <= 16 && needed <= registers) {
      registers -= needed;
    } else {
      words += needed;
    }
  };
  (pass(sizeof(Parameters)), ...);
  return static_cast<std::uint8_t>(words);
}

constexpr std::uint8_t kStackWords[] = {
#define HOOK_ANY(symbol, ...) stack_words(static_cast<decltype(&::symbol)>(nullptr)),
#include "interpose/driver/hooks.def"
};

void forget_place() {
  thread_state.dump.context.forget();
  thread_state.dump.stream.handle = nullptr;
}

}  // namespace

// For other_drivers_x86_64.S.
extern "C" {
struct ThunkTarget {
  void* hook;  // nullptr: that driver was unloaded
  std::uint64_t stack_words;
};
CULPRIT_OWN ThunkTarget culprit_enter_driver(int thunks, const void* frame, CalledDriver* outer, std::uint64_t row);
CULPRIT_OWN void culprit_leave_driver(const CalledDriver* outer);
CULPRIT_OWN extern const char culprit_thunks[];
}

ThunkTarget culprit_enter_driver(int thunks, const void* frame, CalledDriver* outer, std::uint64_t row) {
  *outer = called_driver;
  called_driver = {driver_of_thunks(thunks), frame, false};
  forget_place();
  if (called_driver.driver == nullptr) return {nullptr, 0};
  return {hook_address(static_cast<Api>(row)), kStackWords[row]};
}

void culprit_leave_driver(const CalledDriver* outer) {
  called_driver = *outer;
  forget_place();
}

void* hook_address(const HookedFunction& function) {
  if (function.thunks == 0) return hook_address(function.api);
  const int row = kThunkRows * (function.thunks - 1) + static_cast<int>(function.api);
  return const_cast<char*>(culprit_thunks) + kThunkBytes * row;
}

void Reentry::begin(const char* frame) {
  interrupted_ = thread_state.outermost_hook;
  changed_driver_ = false;
  entry_ = enter_again(frame);
  if (CULPRIT_UNLIKELY(has_several_drivers())) choose_driver(frame);
  if (is_users()) thread_state.outermost_hook = nullptr;
}

void Reentry::end() {
  if (is_users()) thread_state.outermost_hook = interrupted_;
  if (CULPRIT_UNLIKELY(changed_driver_)) called_driver.driver = interrupted_driver_;
}

// A hook that was called through a thunk goes to that thunk's driver. Any other goes to the first driver; but a driver
// that calls its own exported functions means itself.
void Reentry::choose_driver(const char* frame) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(frame);  // the caller's frame, the return address
  if (called_driver.frame != nullptr && words[0] == reinterpret_cast<std::uint64_t>(called_driver.frame)) return;
  if (entry_ == Entry::kOutermost) {
    called_driver = {nullptr, nullptr, false};  // of a hook that was left by a jump
    return;
  }
  changed_driver_ = true;
  interrupted_driver_ = called_driver.driver;
  called_driver.driver = nullptr;
  if (entry_ != Entry::kNested) return;
  any_driver([&](LoadedDriver& driver) {
    if (!driver.module.contains(words[1])) return false;
    called_driver.driver = &driver;
    return true;
  });
}

}  // namespace culprit
