// Walks of stacks whose words and registers may be anything: none reads what cannot be read, and a remembered one is
// the walk that would be made.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "interpose/stacks/stack.h"
#include "interpose/stacks/thread_stack.h"
#include "interpose/stacks/walk_memo.h"
#include "interpose/stacks/walk_reader.h"
#include "interpose/system/readable_word.h"
#include "tests/catch.h"
#include "tests/unit/interpose/stacks/hostile_stack.h"

CULPRIT_TEST_HOOK;

using namespace culprit;
using culprit::test::HostileStack;
using culprit::test::same_frames;

namespace {

// Both ends of each mapping of this process, and of the halves of the address space.
std::vector<std::uint64_t> boundaries() {
  std::vector<std::uint64_t> all = {0,          0x1000,         0x10000,     1ULL << 31,          1ULL << 32,
                                    1ULL << 46, 1ULL << 47,     1ULL << 48,  1ULL << 56,          1ULL << 63,
                                    ~0ULL,      0x7ffffffff000, 0ULL - 4096, 0ULL - (1ULL << 47), 0xffffffffff600000};
  std::unique_ptr<FILE, int (*)(FILE*)> maps(fopen("/proc/self/maps", "r"), fclose);
  char line[512];
  while (fgets(line, sizeof line, maps.get()) != nullptr) {
    unsigned long begin = 0, end = 0;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    all.push_back(begin);
    all.push_back(end);
  }
  return all;
}

// A page of "code" of a JIT: no module has it. Before the middle stands a call.
std::uint64_t jit_code() {
  static const auto* page = static_cast<unsigned char*>([] {
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static_cast<unsigned char*>(memory)[2048 - 5] = 0xe8;
    return memory;
  }());
  return reinterpret_cast<std::uint64_t>(page) + 2048;
}

struct Walked {
  RawStack stack;
  StackChecks checks;
};

}  // namespace

TEST_CASE("no value of any register ends a walk in a signal", "[walks]") {
  HostileStack stack;
  const std::vector<std::uint64_t> edges = boundaries();
  std::mt19937_64 random(33);
  auto walked = std::make_unique<Walked>();
  const auto libc = reinterpret_cast<std::uint64_t>(&printf) & ~0xfffULL;
  // A value of each sort.
  const auto any = [&]() -> std::uint64_t {
    const std::uint64_t offset = random() % 33 - 16;
    switch (random() % 6) {
      case 0:
        return edges[random() % edges.size()] + offset;
      case 1:
        return offset;
      case 2:
        return random();
      case 3:
        return stack.address(random() % (HostileStack::kWords + 64)) + (random() % 8 == 0 ? offset : 0);
      case 4:
        return jit_code() + offset;
      default:
        return libc + random() % 0x40000;
    }
  };
  std::uint64_t frames = 0;
  for (int round = 0; round < 20000; ++round) {
    ucontext_t registers = {};
    for (greg_t& value : registers.uc_mcontext.gregs) value = static_cast<greg_t>(any());
    if (round % 2 == 0) {
      // From these registers.
      capture_stack_of(&registers, kMaxStackDepth, nullptr, &walked->stack, &walked->checks);
    } else {
      for (std::uint64_t i = 0; i < 64; ++i) stack.words()[random() % HostileStack::kWords] = any();
      stack.frame()[0] = any();
      stack.frame()[1] = round % 4 == 1 ? jit_code() : any();
      stack.walk(registers, &walked->stack, &walked->checks);
    }
    REQUIRE(walked->stack.count <= kMaxStackDepth);
    frames += static_cast<std::uint64_t>(walked->stack.count);
  }
  CHECK(frames > 10000);
}

TEST_CASE("the variables of a function lie in its frame", "[walks]") {
  std::uint64_t outer = 0;
  const auto inner = [&](ucontext_t* registers) {
    std::vector<WalkedFrame> frames(kMaxStackDepth);
    const int count = walk_frames(registers, frames.data(), static_cast<int>(frames.size()));
    REQUIRE(count > 2);
    CHECK(frames[static_cast<std::size_t>(count) - 1].cfa == 0);
    int with_variable = 0;
    for (int i = 0; i + 1 < count; ++i) {
      const WalkedFrame& frame = frames[static_cast<std::size_t>(i)];
      const auto variable = reinterpret_cast<std::uint64_t>(&outer);
      CHECK(frame.cfa == frames[static_cast<std::size_t>(i) + 1].stack_pointer);
      with_variable += variable >= frame.stack_pointer && variable < frame.cfa ? 1 : 0;
    }
    CHECK(with_variable == 1);
    // More than there is room for: none, and not a part of them.
    CHECK(walk_frames(registers, frames.data(), count) == count);
    CHECK(walk_frames(registers, frames.data(), count - 1) == 0);
  };
  inner(nullptr);
  ucontext_t registers;
  REQUIRE(getcontext(&registers) == 0);
  inner(&registers);
}

TEST_CASE("a word at null is not readable", "[walks]") {
  const std::uint64_t word = 1;
  CHECK(is_readable_word(reinterpret_cast<std::uint64_t>(&word)));
  for (std::uint64_t address = 0; address < 16; ++address) CHECK_FALSE(is_readable_word(address));
}

TEST_CASE("every rbp near zero and near the end of all addresses is read safely", "[walks]") {
  HostileStack stack;
  auto walked = std::make_unique<Walked>();
  std::vector<std::uint64_t> bases = boundaries();
  bases.push_back(stack.address(0));
  bases.push_back(stack.address(HostileStack::kWords));
  for (const std::uint64_t base : bases) {
    for (std::uint64_t offset = 0; offset < 64; ++offset) {
      ucontext_t registers = {};
      stack.frame()[0] = base + offset - 32;
      stack.frame()[1] = jit_code();
      stack.walk(registers, &walked->stack, &walked->checks);
      REQUIRE(walked->stack.count >= 1);
      CHECK(walked->stack.frames[0] == jit_code());
    }
  }
}

TEST_CASE("a null pointer is no readable word, nor is any address near it", "[walks]") {
  for (std::uint64_t address = 0; address < 4096; ++address) REQUIRE_FALSE(is_readable_word(address));
  for (std::uint64_t before = 1; before < 64; ++before) REQUIRE_FALSE(is_readable_word(0 - before));
}

TEST_CASE("reading a word near the end of all addresses, of a mapping or of a file does no harm", "[walks]") {
  const long page = 4096;
  // Two pages, the second one write-only, and a file's page of which the second half of the mapping has no file.
  auto* memory = static_cast<char*>(mmap(nullptr, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mprotect(memory, page, PROT_READ | PROT_WRITE) == 0);
  char path[] = "/tmp/culprit-walk.XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  unlink(path);
  REQUIRE(ftruncate(file, page) == 0);
  void* mapped = mmap(memory + 2 * page, 2 * page, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
  REQUIRE(mapped == memory + 2 * page);
  close(file);
  const auto base = reinterpret_cast<std::uint64_t>(memory);
  for (const bool guessing : {false, true}) {
    WalkReader reader(nullptr);
    if (guessing) reader.begin_guessing();
    std::uint64_t value = 1;
    CHECK(reader.read(base, &value));
    CHECK(reader.read(base + page - 8, &value));
    CHECK(reader.read(base + 8, &value));
    for (std::uint64_t before = 1; before < 8; ++before) {
      CHECK_FALSE(reader.read(base + page - before, &value));
      CHECK_FALSE(reader.read(0 - before, &value));
    }
    CHECK_FALSE(reader.read(base + page, &value));
    CHECK(reader.read(base + 3 * page - 8, &value));
    CHECK_FALSE(reader.read(base + 3 * page, &value));
    CHECK_FALSE(reader.read(0xffffffffff600000, &value));
    CHECK_FALSE(reader.read(0x800000000000, &value));
    CHECK_FALSE(reader.read(1ULL << 63, &value));
  }
  munmap(memory, 4 * page);
}

TEST_CASE("a chain of frame pointers is walked through code without unwind information", "[walks]") {
  HostileStack stack;
  auto walked = std::make_unique<Walked>();
  std::uint64_t* frame = stack.frame();
  frame[1] = jit_code();
  // Three frames of a JIT; after the third nothing more.
  for (int i = 0; i < 3; ++i) {
    std::uint64_t* next = frame + 10 * (i + 1);
    frame[0] = reinterpret_cast<std::uint64_t>(next);
    next[1] = jit_code();
    frame = next;
  }
  frame[0] = 12345;
  ucontext_t registers = {};
  stack.walk(registers, &walked->stack, &walked->checks);
  CHECK(walked->stack.count == 4);
  CHECK_FALSE(walked->checks.complete);
  CHECK(walked->checks.words.complete);
}

namespace {

// A memo that begins with zeros, as in a mapping.
std::unique_ptr<WalkMemo> empty_memo() {
  static_assert(std::is_trivially_copyable_v<WalkMemo>);
  auto memo = std::make_unique<WalkMemo>();
  memset(static_cast<void*>(memo.get()), 0, sizeof(WalkMemo));
  return memo;
}

}  // namespace

TEST_CASE("a walk is remembered for every rbp that is no frame pointer", "[walks]") {
  HostileStack stack;
  auto walked = std::make_unique<Walked>();
  auto memo = empty_memo();
  ucontext_t registers = {};
  stack.frame()[1] = jit_code();
  stack.walk(registers, &walked->stack, &walked->checks);
  REQUIRE(walked->stack.count == 1);
  std::uint32_t path = 0;
  CHECK(memo->look_up(stack.frame(), 1, &path) == 0);
  memo->remember(stack.frame(), 1, 77, 5, walked->checks.words);
  for (std::uint64_t rbp = 0; rbp < 100; ++rbp) {
    stack.frame()[0] = rbp * 0x123456789abcdefULL;
    CHECK(memo->look_up(stack.frame(), 1, &path) == 77);
    CHECK(path == 5);
  }
  stack.frame()[0] = stack.address(HostileStack::kFrame + 20);
  CHECK(memo->look_up(stack.frame(), 1, &path) == 0);
  stack.frame()[0] = 0;
  CHECK(memo->look_up(stack.frame(), 2, &path) == 0);  // modules were unloaded
  CHECK(memo->look_up(stack.frame(), 1, &path) == 0);  // and all is forgotten
}

TEST_CASE("a thread knows its own stack, and no other memory as its stack", "[walks]") {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const ThreadStack main_stack = find_thread_stack(here);
  CHECK(main_stack.begin <= here);
  CHECK(main_stack.end > here);
  HostileStack other;
  CHECK(find_thread_stack(other.address(10)).end == 0);
  CHECK(find_thread_stack(0).end == 0);
  std::thread([&] {
    const auto there = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    const ThreadStack stack = find_thread_stack(there);
    CHECK(stack.begin <= there);
    CHECK(stack.end > there);
    CHECK(stack.end - there < 65536);
    CHECK(find_thread_stack(other.address(10)).end == 0);
    CHECK(find_thread_stack(here).end == main_stack.end);
  }).join();
}

TEST_CASE("a remembered walk is the one that would be made", "[walks]") {
  HostileStack stack;
  std::mt19937_64 random(7);
  auto memo = empty_memo();
  auto walked = std::make_unique<Walked>();
  auto again = std::make_unique<Walked>();
  std::vector<RawStack> known(1);
  ucontext_t registers = {};
  int hits = 0, hits_in_place = 0;
  for (int round = 0; round < 20000; ++round) {
    // Chains of frame pointers, broken here and there.
    std::uint64_t word = HostileStack::kFrame;
    while (word + 2 < HostileStack::kWords) {
      const std::uint64_t next = word + 2 + random() % 3 * 8;
      stack.words()[word] = random() % 8 == 0 ? random() % 3 * 999 : stack.address(next);
      stack.words()[word + 1] = jit_code() + (random() % 16 == 0 ? 1 : 0);
      if (random() % 3 == 0) break;
      word = next;
    }
    std::uint32_t path = 0;
    const format::Ref found = memo->look_up(stack.frame(), 1, &path);
    stack.walk(registers, &walked->stack, &walked->checks);
    const format::Ref in_place = memo->look_up_in_place(stack.frame(), 1, &path);
    if (in_place != 0) {
      ++hits_in_place;
      REQUIRE(in_place == found);
    }
    if (found != 0) {
      ++hits;
      REQUIRE(same_frames(known[found], walked->stack));
      continue;
    }
    REQUIRE(walked->checks.words.complete);
    if (known.size() == 500) {
      known.resize(1);
      memo->forget_all();
    }
    known.push_back(walked->stack);
    memo->remember(stack.frame(), 1, static_cast<format::Ref>(known.size() - 1), 0, walked->checks.words);
    REQUIRE(memo->look_up(stack.frame(), 1, &path) == known.size() - 1);
  }
  CHECK(hits > 5000);
  CHECK(hits_in_place > 1000);
  CHECK(hits_in_place < hits);
}
