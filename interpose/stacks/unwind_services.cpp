#include "interpose/stacks/unwind_services.h"

#include <errno.h>
#include <fcntl.h>

#include "interpose/base/os.h"
#include "interpose/base/raw_calls.h"
#include "interpose/base/valgrind_requests.h"

namespace {

constexpr unsigned long kPage = 4096;  // the smallest page size of any machine

// A readable part of the calling thread's stack, for one walk only: it may be unmapped before the next one.
struct Range {
  unsigned long begin;
  unsigned long end;
};
__thread Range readable __attribute__((tls_model("initial-exec")));

bool ask_kernel(unsigned long address) {
  static const bool on_valgrind = culprit::ask_valgrind(culprit::kRunningOnValgrind, 0, 0) != 0;
  if (!on_valgrind) {
    // rt_sigprocmask with an impossible `how` reads its argument first (EFAULT) and refuses then (EINVAL); abseil does
    // so, too. Every seccomp filter allows this call.
    return culprit::system_call(SYS_rt_sigprocmask, ~0, address, 0, 8) != -EFAULT;
  }
  // valgrind would report that as an error of the program.
  std::uint64_t word = 0;
  return culprit::os.read_own_memory(&word, address, sizeof(word)) == static_cast<std::int64_t>(sizeof(word));
}

}  // namespace

extern "C" {
int culprit_visit_module_at(unsigned long address, culprit::ModuleVisitor visit, void* data) {
  struct dl_phdr_info module;
  return culprit::find_module(address, &module) ? visit(&module, sizeof(module), data) : 0;
}

__attribute__((weak)) void* culprit_unwind_cache(std::size_t) { return nullptr; }

void culprit_begin_unwinding() { readable = {0, 0}; }

// Needs one system call per page of the stack: one walk calls this for nearly every word that it reads.
int culprit_can_read(unsigned long address) {
  if (address >= readable.begin && address + sizeof(std::uint64_t) <= readable.end) return 1;
  if (!ask_kernel(address)) return 0;
  const unsigned long page = address & ~(kPage - 1);
  if (address + sizeof(std::uint64_t) > page + kPage) return 1;  // spans two pages: do not cache
  if (page == readable.end) {
    readable.end += kPage;
  } else if (page + kPage == readable.begin) {
    readable.begin = page;
  } else {
    readable = {page, page + kPage};
  }
  return 1;
}
}
