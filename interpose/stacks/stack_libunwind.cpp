#include "interpose/base/own_module.h"
#include "interpose/format/dump_format.h"
#include "interpose/stacks/stack.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/unwind_rule.h"
#include "interpose/stacks/walk_reader.h"

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

// Walks the stack until is_wanted(address, stack pointer, CFA) of a frame is true. The outermost frame has no CFA.
template <typename IsWanted>
FrameSearch search_frames(IsWanted is_wanted) {
  constexpr int kMostFrames = 10000;
  unw_context_t context;
  unw_cursor_t cursor;
  WalkReader reader(&context);
  if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) return FrameSearch::kNotKnown;
  bool behind_signal = false;
  unw_word_t address = 0;
  unw_word_t stack_pointer = 0;
  for (int i = 0; i < kMostFrames; ++i) {
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || unw_get_reg(&cursor, UNW_REG_SP, &stack_pointer) != 0)
      return FrameSearch::kNotKnown;
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

bool is_in_signal_handler() {
  return search_frames([](unw_word_t, unw_word_t, unw_word_t) { return false; }) == FrameSearch::kGoneBehindSignal;
}

FrameSearch find_frame(std::uint64_t frame) {
  return search_frames([frame](unw_word_t address, unw_word_t stack_pointer, unw_word_t cfa) {
    return in_own_module(address) && stack_pointer <= frame && frame < cfa;
  });
}

bool runs_code(std::uint64_t begin, std::uint64_t bytes) {
  const FrameSearch found =
      search_frames([=](unw_word_t address, unw_word_t, unw_word_t) { return address - begin < bytes; });
  return found == FrameSearch::kFound || found == FrameSearch::kBehindSignal;
}

void forget_unwind_information() { unw_flush_cache(unw_local_addr_space, 0, 0); }

}  // namespace culprit
