#include "report/attach/thread_stack.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "report/attach/loader_locks.h"

namespace culprit::report {
namespace {

// The outermost frame lies this close to the end of the stack; only the thread's static TLS is above it.
constexpr std::uint64_t kNearEnd = 65536;
constexpr std::size_t kMostOfDescriptor = 4096;
constexpr std::size_t kPart = 256;

struct Bounds {
  std::uint64_t floor;
  std::uint64_t end;
};

// The descriptor of a thread (struct pthread) begins at its thread pointer, and contains, in each glibc at another
// offset, the words `stackblock`, `stackblock_size`, `guardsize`. The descriptor itself lies at the end of that block.
std::optional<Bounds> bounds_in_descriptor(const TracedProcess& process, std::uint64_t control, std::uint64_t pointer) {
  std::vector<std::uint64_t> words(kMostOfDescriptor / sizeof(std::uint64_t));
  std::size_t bytes = 0;
  while (bytes < kMostOfDescriptor &&
         process.read_memory(control + bytes, reinterpret_cast<char*>(words.data()) + bytes, kPart))
    bytes += kPart;
  words.resize(bytes / sizeof(std::uint64_t));
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    const std::uint64_t begin = words[i];
    const std::uint64_t size = words[i + 1];
    const std::uint64_t guard = words[i + 2];
    const std::uint64_t end = begin + size;
    if (begin == 0 || end < begin || guard >= size || pointer < begin + guard || pointer >= control) continue;
    if (control < begin || control >= end || end - control > 2 * kMostOfDescriptor) continue;
    return Bounds{begin + guard, control};
  }
  return std::nullopt;
}

// Where the kernel put the first thread's stack (Linux, Documentation/filesystems/proc.rst: start_stack of stat).
std::uint64_t start_of_first_stack(const TracedProcess& process) {
  const std::string text = process.folder().text("stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 28; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

// For the first thread's own stack.
std::optional<Bounds> bounds_in(const FirstStack& first, std::uint64_t control, std::uint64_t pointer) {
  const bool its_own = pointer >= first.begin && pointer < first.end && first.end <= first.mapping_end;
  if (!its_own || (control >= first.begin && control < first.mapping_end)) return std::nullopt;
  return Bounds{first.begin, first.end};
}

}  // namespace

FirstStack first_stack(const TracedProcess& process) {
  FirstStack stack;
  stack.end = start_of_first_stack(process);
  process.folder().living().for_each_mapping([&](const MappedRange& range) {
    if (range.path != "[stack]") return;
    stack.begin = range.begin;
    stack.mapping_end = range.end;
  });
  return stack;
}

std::optional<std::uint64_t> stack_floor(const TracedProcess& process, std::uint64_t control, std::uint64_t pointer,
                                         const StackWalk& walk, const FirstStack& first) {
  std::optional<Bounds> bounds = bounds_in_descriptor(process, control, pointer);
  if (!bounds) bounds = bounds_in(first, control, pointer);
  if (!bounds || !walk.ascends) return std::nullopt;
  if (walk.outermost != 0 && (walk.outermost > bounds->end || bounds->end - walk.outermost > kNearEnd))
    return std::nullopt;
  return bounds->floor;
}

bool has_data_of_another(const TracedProcess& process, pid_t thread, std::uint64_t control) {
  // At this place in each glibc for x86-64. After a fork by a system call of the program's own it is the number of the
  // parent's thread, which is none of this process.
  constexpr std::uint64_t kNumberAt = 0x2d0;
  std::uint32_t number = 0;
  if (!process.read_memory(control + kNumberAt, &number, sizeof(number)) || number == 0 ||
      number == own_number(process, thread))
    return false;
  const std::vector<pid_t> all = process.threads();
  return std::any_of(all.begin(), all.end(), [&](pid_t other) { return own_number(process, other) == number; });
}

}  // namespace culprit::report
