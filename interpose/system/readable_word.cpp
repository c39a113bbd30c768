#include "interpose/system/readable_word.h"

#include <errno.h>

#include "interpose/base/valgrind_requests.h"
#include "interpose/system/os.h"
#include "interpose/system/raw_calls.h"

namespace culprit {

bool is_readable_word(std::uint64_t address) {
  if (address == 0) return false;  // to rt_sigprocmask a null pointer is no mask at all, which it reads nowhere
  static const bool on_valgrind = ask_valgrind(kRunningOnValgrind, 0, 0) != 0;
  if (!on_valgrind) {
    // rt_sigprocmask with an impossible `how` reads its argument first (EFAULT) and refuses then (EINVAL); abseil does
    // so, too. A null pointer stands for no argument there, and is not read.
    return address != 0 && system_call(SYS_rt_sigprocmask, ~0, address, 0, 8) != -EFAULT;
  }
  // valgrind would report that as an error of the program.
  std::uint64_t word = 0;
  return os.read_own_memory(&word, address, sizeof(word)) == static_cast<std::int64_t>(sizeof(word));
}

}  // namespace culprit
