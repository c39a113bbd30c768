#include "interpose/control/marks.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "interpose/base/utf8.h"
#include "interpose/control/control_state.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_end.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::MarkKind;
using format::Ref;

namespace {

// The first few marks and moments from before the first CUDA call.
struct EarlyMark {
  std::atomic<MarkKind> kind;  // stored last; 0 = empty
  bool with_sums;
  char name[OpenMarks::kNameBytes];
};
constexpr std::uint32_t kMostEarly = 64;
EarlyMark early[kMostEarly];
std::atomic<std::uint32_t> early_count;

std::uint32_t bounded_length(const char* name) {
  return static_cast<std::uint32_t>(length_up_to(name, OpenMarks::kNameBytes - 1));
}

std::uint32_t thread_index(const Process& process) {
  return thread_state.generation == process.generation ? thread_state.index : format::kNoIndex;
}

// Stores a name in the dump, or before there is a dump, in the list for begin_marks(): then the result is empty.
NotedMark note_name(const char* name, std::uint32_t length, MarkKind kind, bool with_sums = false) {
  if (Process* process = process_if_recording()) {
    const NotedMark noted =
        marks_of(*process).note(name, length, kind, thread_index(*process), now_ns(*process), true, process->dump);
    // A mark matters only if something is allocated in it.
    if (noted.record == 0 && kind == MarkKind::kMoment) add_counter(process->dump.header()->dropped_marks, 1);
    return noted;
  }
  if (early_count.load(std::memory_order_relaxed) >= kMostEarly) return {};
  std::uint32_t place = early_count.fetch_add(1, std::memory_order_relaxed);
  if (place >= kMostEarly) return {};
  EarlyMark& mark = early[place];
  std::memcpy(mark.name, name, length);
  mark.name[length] = '\0';
  mark.with_sums = with_sums;
  mark.kind.store(kind, std::memory_order_release);
  return {};
}

OpenMarks* own_marks() {
  if (thread_state.marks.open != nullptr) return thread_state.marks.open;
  int error = 0;
  // Not map_private(): open marks stay open in a fork child.
  thread_state.marks.open = static_cast<OpenMarks*>(
      os.map(nullptr, sizeof(OpenMarks), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &error));
  if (thread_state.marks.open != nullptr) watch_thread_end();
  return thread_state.marks.open;
}

int push(OpenMarks::Stack& stack, const char* name, std::uint32_t length, const void* domain, Ref record) {
  std::uint32_t before = 0;
  std::uint32_t known = stack.depth < OpenMarks::kLevels ? stack.depth : OpenMarks::kLevels;
  for (std::uint32_t i = 0; i < known; ++i) before += stack.levels[i].domain == domain ? 1 : 0;
  before += stack.depth - known;
  if (stack.depth < OpenMarks::kLevels) {
    OpenMarks::Level& level = stack.levels[stack.depth];
    level.record = record;
    level.length = length;
    level.domain = domain;
    std::memcpy(level.name, name, length);
  }
  ++stack.depth;
  thread_state.marks.label = kUnresolvedLabel;
  return static_cast<int>(before);
}

// Removes the innermost range or mark of this domain.
int pop(OpenMarks::Stack& stack, const void* domain) {
  if (stack.depth == 0) return -1;
  thread_state.marks.label = kUnresolvedLabel;
  if (stack.depth > OpenMarks::kLevels) return static_cast<int>(--stack.depth);
  int before = -1;
  std::uint32_t at = stack.depth;
  for (std::uint32_t i = 0; i < stack.depth; ++i) {
    if (stack.levels[i].domain != domain) continue;
    ++before;
    at = i;
  }
  if (at == stack.depth) return -1;
  for (--stack.depth; at < stack.depth; ++at) stack.levels[at] = stack.levels[at + 1];
  return before;
}

// The record of the innermost range or mark; written now if it does not exist yet.
Ref innermost(Process& process, OpenMarks::Stack& stack, MarkKind kind) {
  if (stack.depth == 0) return 0;
  std::uint32_t known = stack.depth < OpenMarks::kLevels ? stack.depth : OpenMarks::kLevels;
  OpenMarks::Level& level = stack.levels[known - 1];
  if (level.record == 0) {
    level.record = marks_of(process)
                       .note(level.name, level.length, kind, thread_index(process), now_ns(process),
                             kind == MarkKind::kRange, process.dump)
                       .record;
    if (level.record == 0) add_counter(process.dump.header()->dropped_marks, 1);
  }
  return level.record;
}

}  // namespace

int open_mark(const char* name) {
  return on_own_stack([&]() -> int {
    OpenMarks* marks = name == nullptr ? nullptr : own_marks();
    if (marks == nullptr) return 0;
    std::uint32_t length = bounded_length(name);
    Process* process = process_if_recording();
    if (process != nullptr && marks->generation != process->generation) resolve_label(*process);
    return push(marks->marks, name, length, nullptr, note_name(name, length, MarkKind::kMark).record);
  });
}

int close_mark() { return thread_state.marks.open == nullptr ? -1 : pop(thread_state.marks.open->marks, nullptr); }

int open_range(const char* name, std::uint32_t length, const void* domain) {
  OpenMarks* marks = thread_state.marks.open;
  if (CULPRIT_UNLIKELY(marks == nullptr)) marks = on_own_stack([] { return own_marks(); });
  if (marks == nullptr) return 0;
  if (length >= OpenMarks::kNameBytes) length = OpenMarks::kNameBytes - 1;
  return push(marks->ranges, name, length, domain, 0);
}

int close_range(const void* domain) {
  return thread_state.marks.open == nullptr ? -1 : pop(thread_state.marks.open->ranges, domain);
}

bool note_moment(const char* name, bool with_sums) {
  return on_own_stack([&] {
    const NotedMark noted = note_name(name, bounded_length(name), MarkKind::kMoment, with_sums);
    Process* process = with_sums ? process_if_recording() : nullptr;
    if (process == nullptr || (noted.record != 0 && mark_sums_of(*process).take(*process, noted))) return true;
    add_counter(process->dump.header()->dropped_mark_sums, 1);
    return false;
  });
}

void begin_marks(Process& process) {
  for (const EarlyMark& mark : early) {
    MarkKind kind = mark.kind.load(std::memory_order_acquire);
    if (kind == MarkKind::kNone) continue;
    const NotedMark noted =
        marks_of(process).note(mark.name, bounded_length(mark.name), kind, format::kNoIndex, 0, true, process.dump);
    if (mark.with_sums && (noted.record == 0 || !mark_sums_of(process).keep_nothing(process, noted)))
      add_counter(process.dump.header()->dropped_mark_sums, 1);
  }
}

void forget_open_marks() {
  OpenMarks* marks = thread_state.marks.open;
  thread_state.marks.open = nullptr;
  thread_state.marks.label = 0;
  if (marks != nullptr) os.unmap(marks, sizeof(OpenMarks));
}

namespace {

Ref resolve_label_here(Process& process) {
  OpenMarks* marks = thread_state.marks.open;
  if (marks == nullptr) return thread_state.marks.label = 0;
  if (marks->generation != process.generation) {
    // The records belong to another dump: that of the fork parent.
    for (OpenMarks::Stack* stack : {&marks->marks, &marks->ranges}) {
      for (OpenMarks::Level& level : stack->levels) level.record = 0;
    }
    marks->generation = process.generation;
  }
  Ref mark = innermost(process, marks->marks, MarkKind::kMark);
  Ref range = innermost(process, marks->ranges, MarkKind::kRange);
  thread_state.marks.label = marks_of(process).label(mark, range, process.dump);
  if (thread_state.marks.label == 0 && (mark != 0 || range != 0)) add_counter(process.dump.header()->dropped_marks, 1);
  return thread_state.marks.label;
}

}  // namespace

Ref resolve_label(Process& process) {
  return on_own_stack([&] { return resolve_label_here(process); });
}

}  // namespace culprit
