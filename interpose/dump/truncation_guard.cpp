#include "interpose/dump/truncation_guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// The kernel's struct sigaction. libc's sigaction() is not used: sanitizers, the JVM's libjsig and others interpose it
// and would take the handler for the program's.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

std::atomic<DumpWriter*> guarded;
std::atomic<int> owner;  // pid: a fork child has the handler without the mapping

// Of guard_mapping().
std::atomic<unsigned char*> also_guarded;
std::atomic<std::uint64_t> also_guarded_bytes;

bool replace_page(void* address) {
  auto* page = reinterpret_cast<unsigned char*>(reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{4095});
  unsigned char* begin = also_guarded.load(std::memory_order_acquire);
  if (begin == nullptr || page < begin || page >= begin + also_guarded_bytes.load(std::memory_order_relaxed))
    return false;
  return map_in_range(page, 4096, -1, 0) == 0;
}

bool change_action(const KernelAction* wanted, KernelAction* present) {
  return syscall(SYS_rt_sigaction, SIGBUS, wanted, present, sizeof(present->mask)) == 0;
}

void on_bus_error(int, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const bool about_memory = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  DumpWriter* dump = guarded.load(std::memory_order_acquire);
  const long pid = syscall(SYS_getpid);
  if (!about_memory || dump == nullptr || owner.load(std::memory_order_relaxed) != pid ||
      !(dump->replace_lost(info->si_addr) || replace_page(info->si_addr))) {
    const KernelAction standard = {};
    KernelAction former;
    change_action(&standard, &former);
    // A fault happens again by itself. A signal that was sent must be sent again.
    if (!about_memory && info->si_code != BUS_ADRALN && info->si_code != BUS_MCEERR_AR)
      syscall(SYS_tgkill, pid, syscall(SYS_gettid), SIGBUS);
  }
  errno = saved_errno;
}

#if defined(__x86_64__)
// The return from a signal handler, which the kernel requires. Unwinders and debuggers recognize these bytes.
extern "C" __attribute__((visibility("hidden"))) void culprit_return_from_signal();
asm(".pushsection .text\n"
    ".hidden culprit_return_from_signal\n"
    ".globl culprit_return_from_signal\n"
    ".type culprit_return_from_signal, @function\n"
    "culprit_return_from_signal:\n"
    "  movq $15, %rax\n"
    "  syscall\n"
    ".size culprit_return_from_signal, . - culprit_return_from_signal\n"
    ".popsection\n");
constexpr unsigned long kRestorerFlag = 0x04000000;
constexpr auto kRestorer = culprit_return_from_signal;
#else
constexpr unsigned long kRestorerFlag = 0;  // the vDSO has the return function
constexpr void (*kRestorer)() = nullptr;
#endif

}  // namespace

void guard_dump(DumpWriter& dump) {
  owner.store(static_cast<int>(getpid()), std::memory_order_relaxed);
  also_guarded.store(nullptr, std::memory_order_relaxed);  // a fork child has no copy of the parent's mapping
  guarded.store(&dump, std::memory_order_release);
  KernelAction present;
  if (!change_action(nullptr, &present) || present.handler != nullptr) return;
  // On the thread's alternate stack if it has one, because its normal stack may be small.
  const KernelAction ours = {on_bus_error, SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART | kRestorerFlag, kRestorer,
                             0};
  change_action(&ours, &present);
}

void guard_mapping(void* begin, std::uint64_t bytes) {
  also_guarded_bytes.store(bytes, std::memory_order_relaxed);
  also_guarded.store(static_cast<unsigned char*>(begin), std::memory_order_release);
}

void unguard_dump() {
  guarded.store(nullptr, std::memory_order_release);
  KernelAction present;
  if (!change_action(nullptr, &present) || present.handler != on_bus_error) return;
  const KernelAction standard = {};
  change_action(&standard, &present);
}

}  // namespace culprit
