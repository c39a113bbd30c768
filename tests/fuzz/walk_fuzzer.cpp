// Walks of a stack: all registers and words of a stack as the input says. No walk ends the process, and a walk that was
// remembered is the one that would be made, also after words were changed.
#include <stdio.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "interpose/stacks/walk_memo.h"
#include "tests/unit/interpose/stacks/hostile_stack.h"

CULPRIT_TEST_HOOK;

using culprit::RawStack;
using culprit::StackChecks;
using culprit::WalkMemo;
using culprit::test::HostileStack;

namespace {

// Both ends of each mapping of this process, and of the address space's halves.
std::vector<std::uint64_t> boundaries() {
  std::vector<std::uint64_t> all = {0, 0x10000, 1ULL << 47, 1ULL << 56, 1ULL << 63, 0xffffffffff600000};
  std::unique_ptr<FILE, int (*)(FILE*)> maps(fopen("/proc/self/maps", "r"), fclose);
  char line[512];
  while (maps != nullptr && fgets(line, sizeof line, maps.get()) != nullptr) {
    unsigned long begin = 0, end = 0;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    all.push_back(begin);
    all.push_back(end);
  }
  return all;
}

// A page of code of no module, with a call before every eighth byte.
std::uint64_t jit_code() {
  static void* page = [] {
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 3; i < 4096; i += 8) static_cast<unsigned char*>(memory)[i] = 0xe8;
    return memory;
  }();
  return reinterpret_cast<std::uint64_t>(page);
}

// Takes values from the input; zeros at its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size, HostileStack& stack) : data_(data), size_(size), stack_(stack) {}
  bool is_empty() const { return size_ == 0; }
  std::uint64_t take(std::size_t bytes) {
    std::uint64_t value = 0;
    bytes = bytes < size_ ? bytes : size_;
    std::memcpy(&value, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return value;
  }
  // A value of any sort: its first byte chooses.
  std::uint64_t any() {
    static const std::vector<std::uint64_t> edges = boundaries();
    const std::uint64_t sort = take(1);
    switch (sort % 6) {
      case 0:
        return edges[take(1) % edges.size()] + sort / 6 - 20;
      case 1:
        return stack_.address(take(2) % (HostileStack::kWords + 600));
      case 2:
        return stack_.address(0) + take(2);
      case 3:
        return jit_code() + take(2) % 4096;
      case 4:
        return reinterpret_cast<std::uint64_t>(&printf) + take(3) - 0x40000;
      default:
        return take(8);
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  HostileStack& stack_;
};

void demand(bool condition) {
  if (!condition) std::abort();
}

void change(HostileStack& stack, Input& input) {
  const std::uint64_t from = input.take(1) % 4 == 0 ? 0 : HostileStack::kFrame;
  stack.words()[(from + input.take(1)) % HostileStack::kWords] = input.any();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static HostileStack stack;
  static RawStack first, second;
  static StackChecks checks, other_checks;
  static auto memo = [] {
    auto made = std::make_unique<WalkMemo>();
    std::memset(static_cast<void*>(made.get()), 0, sizeof(WalkMemo));
    return made;
  }();
  std::memset(stack.words(), 0, HostileStack::kBytes);
  Input input(data, size, stack);
  ucontext_t registers = {};
  for (greg_t& value : registers.uc_mcontext.gregs) value = static_cast<greg_t>(input.any());
  culprit::capture_stack_of(&registers, culprit::kMaxStackDepth, nullptr, &first, &checks);

  stack.frame()[1] = jit_code() + 8;
  for (std::uint64_t i = input.take(1) % 32; i != 0 && !input.is_empty(); --i) change(stack, input);
  stack.walk(registers, &first, &checks);
  demand(first.count <= culprit::kMaxStackDepth);
  memo->forget_all();
  std::uint32_t path = 0;
  memo->remember(stack.frame(), 1, 7, 0, checks.words);
  if (checks.words.complete) demand(memo->look_up(stack.frame(), 1, &path) == 7);
  while (!input.is_empty()) {
    change(stack, input);
    const culprit::format::Ref in_place = memo->look_up_in_place(stack.frame(), 1, &path);
    const culprit::format::Ref found = memo->look_up(stack.frame(), 1, &path);
    demand(in_place == 0 || in_place == found);
    stack.walk(registers, &second, &other_checks);
    if (found != 0) demand(culprit::test::same_frames(first, second));
  }
  return 0;
}
