#include "interpose/base/own_module.h"
#include "interpose/format/dump_format.h"
#include "interpose/stacks/stack.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/unwind_rule.h"
#include "interpose/stacks/unwind_services.h"
#include "interpose/stacks/walk_reader.h"
#include "interpose/system/own_stack.h"

namespace culprit {
namespace {

// Follows the walk and records the slots that determine it.
class CheckList {
 public:
  CheckList(const std::uint64_t* frame, StackChecks* checks) : checks_(checks) {
    if (checks == nullptr) return;
    checks->count = 0;
    checks->complete = frame != nullptr;
    checks->words.complete = false;
    rbp_slot_ = reinterpret_cast<std::uint64_t>(frame);  // a frame address points to the saved rbp of the caller
  }

  // The walk is at the hook's caller. `address` must be the hook's return address; otherwise the stack is not
  // remembered.
  void begin(WalkReader* reader, const std::uint64_t* frame, std::uint64_t address) {
    if (checks_ == nullptr) return;
    reader->begin_list(&checks_->words, frame);
    if (frame == nullptr || frame[1] != address) checks_->complete = checks_->words.complete = false;
  }

  // One step outward: `cfa` is the stepped frame's CFA, i.e. the stack pointer of the frame reached.
  void step(const culprit_unwind_rule& rule, std::uint64_t cfa) {
    if (checks_ == nullptr || !checks_->complete) return;
    if (!rule.known) {
      checks_->complete = false;
      return;
    }
    if (rule.from_rbp) add_rbp();
    add(cfa - 8);
    if (rule.rbp_saved) {
      rbp_slot_ = cfa + static_cast<std::uint64_t>(rule.rbp_cfa_offset);
      rbp_checked_ = false;
    }
  }

  // The walk cannot be repeated from slots or words.
  void give_up() {
    if (checks_ != nullptr) checks_->complete = checks_->words.complete = false;
  }

  // The walk ended here, because of unwind information, or of an rbp that is no frame pointer.
  void end(const WalkReader& reader) {
    if (checks_ == nullptr || !checks_->complete) return;
    add_rbp();
    // Other values of rbp mean the same end.
    if (reader.is_guessing()) checks_->complete = false;
  }

 private:
  void add_rbp() {
    if (!rbp_checked_) add(rbp_slot_);
    rbp_checked_ = true;
  }
  void add(std::uint64_t slot) {
    if (checks_->count == StackChecks::kMost) {
      checks_->complete = false;
    } else {
      checks_->slots[checks_->count++] = slot;
    }
  }

  StackChecks* checks_;
  std::uint64_t rbp_slot_ = 0;
  bool rbp_checked_ = false;
};

CodeRange left_out[2];
int left_out_count = 0;

bool is_left_out(std::uint64_t address) {
  if (in_own_module(address)) return true;
  for (int i = 0; i < left_out_count; ++i) {
    if (address >= left_out[i].begin && address < left_out[i].end) return true;
  }
  return false;
}

}  // namespace

void leave_out_leading(const CodeRange* ranges, int count) {
  left_out_count = 0;
  for (int i = 0; i < count; ++i) left_out[i] = ranges[i];
  left_out_count = count;
}

void capture_stack(int depth, const std::uint64_t* frame, RawStack* stack, StackChecks* checks) {
  unw_context_t context;
  unw_getcontext(&context);
  capture_stack_of(&context, depth, frame, stack, checks);
}

void capture_stack_of(ucontext_t* registers, int depth, const std::uint64_t* frame, RawStack* stack,
                      StackChecks* checks) {
  stack->count = 0;
  stack->truncated = false;
  CheckList list(frame, checks);
  WalkReader reader(registers);
  unw_cursor_t cursor;
  if (unw_init_local(&cursor, registers) != 0) return list.give_up();
  bool leading = true;
  bool exact = false;
  for (;;) {
    culprit_unwind_rule rule;
    int result = culprit_unwind_step(&cursor, &rule);
    if (result <= 0) {
      if (result < 0) list.give_up();
      break;
    }
    unw_word_t address = 0;
    unw_word_t stack_pointer = 0;
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || address == 0) break;
    if (leading && is_left_out(address)) continue;
    unw_get_reg(&cursor, UNW_REG_SP, &stack_pointer);
    if (leading) {
      list.begin(&reader, frame, address);
    } else {
      list.step(rule, stack_pointer);
    }
    leading = false;
    bool is_signal_frame = unw_is_signal_frame(&cursor) > 0;
    if (is_signal_frame) list.give_up();
    if (checks != nullptr && stack->count < depth) checks->pointers[stack->count] = stack_pointer;
    if (stack->count == depth) {
      stack->truncated = true;
      return;
    }
    // A signal trampoline was never called, and the address of the interrupted frame is exact.
    stack->frames[stack->count++] = address | (exact || is_signal_frame ? format::kFrameExact : 0);
    exact = is_signal_frame;
  }
  list.end(reader);
}

namespace {

constexpr int kMostFrames = 10000;

// The program's part of a walk: the lowest stack pointer, and that of the last frame.
struct Walked {
  std::uint64_t begin;
  unw_word_t outermost;
};

// Walks the stack until is_wanted(address, stack pointer, CFA) of a frame is true. The outermost frame has no CFA.
template <typename IsWanted>
FrameSearch search_frames(Walked* walked, IsWanted is_wanted) {
  *walked = {};
  unw_context_t context;
  unw_getcontext(&context);
  unw_cursor_t cursor;
  WalkReader reader(&context);
  if (unw_init_local(&cursor, &context) != 0) return FrameSearch::kNotKnown;
  bool behind_signal = false;
  unw_word_t address = 0;
  unw_word_t& stack_pointer = walked->outermost;
  for (int i = 0; i < kMostFrames; ++i) {
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || unw_get_reg(&cursor, UNW_REG_SP, &stack_pointer) != 0)
      return FrameSearch::kNotKnown;
    if (walked->begin == 0 && !in_own_stack(stack_pointer)) walked->begin = stack_pointer;
    behind_signal = behind_signal || unw_is_signal_frame(&cursor) > 0;
    int result = unw_step(&cursor);
    // The next frame's stack pointer is this one's CFA.
    unw_word_t cfa = 0;
    if (result > 0) unw_get_reg(&cursor, UNW_REG_SP, &cfa);
    if (result > 0 && is_wanted(address, stack_pointer, cfa))
      return behind_signal ? FrameSearch::kBehindSignal : FrameSearch::kFound;
    if (result == 0) return behind_signal ? FrameSearch::kGoneBehindSignal : FrameSearch::kGone;
    if (result < 0) break;
  }
  return FrameSearch::kNotKnown;
}

}  // namespace

int walk_frames(ucontext_t* registers, WalkedFrame* frames, int capacity) {
  unw_context_t own;
  unw_getcontext(&own);
  ucontext_t* from = registers != nullptr ? registers : &own;
  unw_cursor_t cursor;
  WalkReader reader(from);
  if (unw_init_local2(&cursor, from, registers != nullptr ? UNW_INIT_SIGNAL_FRAME : 0) != 0) return 0;
  for (int count = 0; count < capacity;) {
    WalkedFrame& frame = frames[count++];
    unw_word_t stack_pointer = 0;
    unw_word_t address = 0;
    if (unw_get_reg(&cursor, UNW_REG_SP, &stack_pointer) != 0 || unw_get_reg(&cursor, UNW_REG_IP, &address) != 0)
      return 0;
    frame = {stack_pointer, 0, address};
    const int result = unw_step(&cursor);
    if (result < 0) return 0;
    // The function of makecontext() has a caller at address 0.
    unw_word_t next = 0;
    if (result == 0 || unw_get_reg(&cursor, UNW_REG_IP, &next) != 0 || next == 0) return count;
    unw_word_t cfa = 0;
    unw_get_reg(&cursor, UNW_REG_SP, &cfa);
    frame.cfa = cfa;
  }
  return 0;
}

bool find_function_below(bool (*is_passed)(std::uint64_t address), PreservedRegisters* found) {
#if defined(__x86_64__)
  constexpr int kPreserved[PreservedRegisters::kCount] = {UNW_X86_64_RBX, UNW_X86_64_RBP, UNW_X86_64_R12,
                                                          UNW_X86_64_R13, UNW_X86_64_R14, UNW_X86_64_R15};
  unw_context_t context;
  unw_getcontext(&context);
  unw_cursor_t cursor;
  WalkReader reader(&context);
  if (unw_init_local(&cursor, &context) != 0) return false;
  for (int i = 0; i < kMostFrames && unw_step(&cursor) > 0; ++i) {
    unw_word_t address = 0;
    unw_word_t stack_pointer = 0;
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || unw_get_reg(&cursor, UNW_REG_SP, &stack_pointer) != 0)
      return false;
    if (in_own_stack(stack_pointer) || in_own_module(address) || is_passed(address)) continue;
    found->stack_pointer = stack_pointer;
    for (int j = 0; j < PreservedRegisters::kCount; ++j) {
      unw_word_t word = 0;
      if (unw_get_reg(&cursor, kPreserved[j], &word) != 0) return false;
      found->words[j] = word;
    }
    return true;
  }
#else
  (void)is_passed;
  (void)found;
#endif
  return false;
}

bool is_in_signal_handler() {
  Walked walked;
  const auto none = [](unw_word_t, unw_word_t, unw_word_t) { return false; };
  return search_frames(&walked, none) == FrameSearch::kGoneBehindSignal;
}

namespace {

// How far the stack of a frame that was not found can be walked.
enum class Extent { kNone, kFirstFrame, kPart, kAll };

// Walks the stack of the caller of the function with this frame address, from the two words that lie there.
// `*outermost`: the stack pointer of the last frame.
Extent walk_from_frame(std::uint64_t frame, unw_word_t* outermost) {
  ucontext_t registers = {};
  WalkReader reader(&registers);
  reader.begin_guessing();  // nothing is known of that memory
  std::uint64_t rbp = 0, address = 0;
  if (!reader.read(frame, &rbp) || !reader.read(frame + 8, &address) || culprit_is_return_address_at(frame) == 0)
    return Extent::kNone;
  registers.uc_mcontext.gregs[REG_RBP] = static_cast<greg_t>(rbp);
  registers.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(address);
  const std::uint64_t stack_pointer = frame + 16;
  registers.uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(stack_pointer);
  unw_cursor_t cursor;
  if (unw_init_local(&cursor, &registers) != 0) return Extent::kNone;
  for (int i = 0; i < kMostFrames; ++i) {
    const int guesses = reader.guesses();
    unw_word_t next = 0;
    unw_get_reg(&cursor, UNW_REG_SP, outermost);
    const int result = unw_step(&cursor);
    if (result > 0) unw_get_reg(&cursor, UNW_REG_IP, &next);
    // The function of makecontext() has a caller at address 0.
    if ((result == 0 && reader.guesses() == guesses) || (result > 0 && next == 0)) return Extent::kAll;
    if (result <= 0) return i == 0 ? Extent::kFirstFrame : Extent::kPart;
  }
  return Extent::kPart;
}

// Whether a frame that the walk of the calling thread's stack did not find belongs to a user thread that was switched
// away. A function that was left by a jump has left its frame on this stack: in the part that was walked, or below it.
bool is_on_other_stack(std::uint64_t frame, const Walked& walked) {
  if (frame >= walked.begin && frame <= walked.outermost) return false;
  unw_word_t end = 0;
  switch (walk_from_frame(frame, &end)) {
    case Extent::kNone:
      return false;
    case Extent::kFirstFrame:
      return true;  // called by code without unwind information
    case Extent::kPart:
      // Frames that are left of calls on this stack lead into it.
      return frame > walked.outermost || end < walked.begin;
    case Extent::kAll:
      break;
  }
  return end != walked.outermost;
}

}  // namespace

FrameSearch find_frame(std::uint64_t frame) {
  Walked walked;
  const FrameSearch result =
      search_frames(&walked, [frame](unw_word_t address, unw_word_t stack_pointer, unw_word_t cfa) {
        return in_own_module(address) && stack_pointer <= frame && frame < cfa;
      });
  const bool gone = result == FrameSearch::kGone || result == FrameSearch::kGoneBehindSignal;
  return gone && is_on_other_stack(frame, walked) ? FrameSearch::kOnOtherStack : result;
}

bool runs_code(std::uint64_t begin, std::uint64_t bytes) {
  Walked walked;
  const auto is_there = [=](unw_word_t address, unw_word_t, unw_word_t) { return address - begin < bytes; };
  const FrameSearch found = search_frames(&walked, is_there);
  return found == FrameSearch::kFound || found == FrameSearch::kBehindSignal;
}

std::uint64_t find_hook_frame() {
  unw_context_t context;
  unw_getcontext(&context);
  unw_cursor_t cursor;
  WalkReader reader(&context);
  if (unw_init_local(&cursor, &context) != 0) return 0;
  constexpr int kMostOwn = 100;
  for (int i = 0; i < kMostOwn && unw_step(&cursor) > 0; ++i) {
    unw_word_t address = 0;
    unw_word_t stack_pointer = 0;
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || in_own_module(address)) continue;
    unw_get_reg(&cursor, UNW_REG_SP, &stack_pointer);
    // The words below it: the caller's rbp, and the return address.
    std::uint64_t found = 0;
    return reader.read(stack_pointer - 8, &found) && found == address ? stack_pointer - 16 : 0;
  }
  return 0;
}

void forget_unwind_information() { unw_flush_cache(unw_local_addr_space, 0, 0); }

}  // namespace culprit
