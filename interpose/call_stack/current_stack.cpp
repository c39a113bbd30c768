#include "interpose/call_stack/current_stack.h"

#include "interpose/dump/thread_names.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/exit_handlers.h"
#include "interpose/stacks/stack_memo.h"

namespace culprit {

void keep_stacks(int nesting, format::Ref first, format::Ref second) {
  if (thread_state.memory == nullptr) return;
  format::Ref* place = &thread_state.memory->holder.kept[2 * nesting];
  __atomic_store_n(place, first, __ATOMIC_RELEASE);
  __atomic_store_n(place + 1, second, __ATOMIC_RELEASE);
}

void collect_stacks(Process& process) {
  const bool python = (process.mode.load(std::memory_order_acquire) & kModePython) != 0;
  const StackCollection::Parts parts = {process.stacks.table,
                                        process.holders,
                                        process.stacks.modules,
                                        python ? &process.python : nullptr,
                                        &breakdown_lock_of(process),
                                        &process.tables.cancels,
                                        process.dump};
  StackCollection& collection = static_cast<CallStackState&>(process).collection;
  if (CULPRIT_LIKELY(!collection.is_due(parts)) || thread_state.memory == nullptr) return;
  collection.step(parts, &thread_state.memory->holder);
}

std::uint32_t intern_path(const RawStack& stack, const StackChecks& checks) {
  ThreadPaths* paths = thread_state.paths.all;
  if (paths == nullptr) return 0;
  std::uint32_t epoch = paths->epoch();
  std::uint32_t path = paths->intern(stack, checks.pointers);
  if (paths->epoch() != epoch && thread_state.memory != nullptr) thread_state.memory->stacks.forget_all();
  return path;
}

namespace {

// Runs once per process in a new generation of modules; each thread's memo checks the generation itself. Other threads
// wait: a stack that is interned before the old addresses are dropped would get an old name.
void forget_addresses(Process& process) {
  SpinGuard guard(process.stacks.renewing);
  const std::uint32_t generation = module_generation();
  if (process.stacks.generation.load(std::memory_order_relaxed) == generation) return;
  process.stacks.modules.refresh(process.dump);
  process.stacks.table.forget_addresses();
  forget_unwind_information();
  process.stacks.generation.store(generation, std::memory_order_release);
}

// `checks` may be null; else the calling thread's `path` is set too.
format::Ref walk_stack(Process& process, const std::uint64_t* frame, StackChecks* checks) {
  RawStack stack;
  capture_stack(process.options.depth, frame, &stack, checks);
  collect_stacks(process);
  bool is_new = false;
  format::Ref ref = process.stacks.table.intern(stack, process.stacks.modules, process.dump, &is_new);
  ThreadTable& threads = process.tables.threads;
  if (!is_new) {
    threads.name_if_due(thread_state.index, now_ns(process), process.dump);
  } else if (format::ThreadRecord* thread = threads.record(thread_state.index, process.dump)) {
    refresh_thread_name(thread);
  }
  // Every call has a caller: a stack without frames means that the walk failed.
  if (ref == 0 || stack.count == 0) add_counter(process.dump.header()->dropped_stacks, 1);
  if (thread_state.memory != nullptr) __atomic_store_n(&thread_state.memory->holder.walked, ref, __ATOMIC_RELEASE);
  if (checks != nullptr) thread_state.paths.current = intern_path(stack, *checks);
  return ref;
}

void verify_stack(Process& process, format::Ref remembered) {
  format::Header* header = process.dump.header();
  add_counter(header->stacks_verified, 1);
  if (walk_stack(process, nullptr, nullptr) != remembered) add_counter(header->stack_mismatches, 1);
}

}  // namespace

void look_for_python(Process& process) {
  const bool before = process.python.is_readable();
  process.python.look(process.dump);
  if (!before && process.python.is_readable()) process.mode.fetch_or(kModePython, std::memory_order_release);
}

namespace {

format::Ref find_current_stack_here(Process& process) {
  std::uint32_t generation = module_generation();
  if (process.stacks.generation.load(std::memory_order_acquire) != generation) forget_addresses(process);
  if ((process.mode.load(std::memory_order_relaxed) & kModeUserThreads) != 0) {
    if (const std::uint64_t hook = find_hook_frame()) thread_state.outermost_hook = reinterpret_cast<const char*>(hook);
  }
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread_state.outermost_hook);
  format::Ref ref = 0;
  StackMemo* memo = frame == nullptr || thread_state.memory == nullptr ? nullptr : &thread_state.memory->stacks;
  if (memo != nullptr) ref = memo->look_up(frame, generation, &thread_state.paths.current);
  std::uint32_t* path = &thread_state.paths.current;
  if (ref == 0 && memo != nullptr) ref = memo->walks().look_up_in_place(frame, generation, path);
  if (ref == 0 && memo != nullptr) ref = memo->walks().look_up(frame, generation, path);
  if (ref == 0) {
    register_exit_handlers(process.options.search_holders);  // needed if the first call came from a signal handler
    if (process.options.python) look_for_python(process);
    StackChecks checks;
    ref = walk_stack(process, frame, &checks);
    process.clock.make_next_exact(&thread_state.times);
    if (memo != nullptr) memo->remember(frame, generation, ref, thread_state.paths.current, checks);
  } else if (process.options.verify_stacks) {
    verify_stack(process, ref);
  }
  if (thread_state.paths.all != nullptr) thread_state.paths.all->see(thread_state.paths.current);
  return with_python_frames(process, ref);
}

}  // namespace

format::Ref find_current_stack(Process& process) {
  if (process.options.depth == 0) {
    thread_state.paths.current = 0;
    return 0;
  }
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread_state.outermost_hook);
  const std::uint32_t slow = process.mode.load(std::memory_order_relaxed) & kModesOfStacks;
  if (slow == 0 && frame != nullptr && thread_state.memory != nullptr) {
    // Without the tracker's own stack.
    WalkMemo& walks = thread_state.memory->stacks.walks();
    const std::uint32_t generation = module_generation();
    const format::Ref ref = walks.look_up_in_place(frame, generation, &thread_state.paths.current);
    if (ref != 0) {
      if (thread_state.paths.all != nullptr) thread_state.paths.all->see(thread_state.paths.current);
      return with_python_frames(process, ref);
    }
  }
  return on_own_stack([&] { return find_current_stack_here(process); });
}

format::Ref add_python_frames(Process& process, format::Ref native) {
  ThreadMemory* memory = thread_state.memory;
  const PythonFrames::Use use = {process.dump, process.stacks.table, process.options.depth,
                                 memory == nullptr ? nullptr : &memory->python};
  PythonFrames::Missing missing;
  format::Ref stack = process.python.find(use, native, &missing);
  if (CULPRIT_LIKELY(stack != 0)) return stack;
  return on_own_stack([&] {
    collect_stacks(process);  // `native` is in the thread's memo, or in `walked`
    stack = process.python.merge(use, native, missing);
    if (!process.python.is_readable()) process.mode.fetch_and(~std::uint32_t{kModePython}, std::memory_order_release);
    if (stack != 0 && stack != native && !view_of(process).complete.load(std::memory_order_relaxed))
      request_view(process, kViewLoad);
    return stack == 0 ? native : stack;
  });
}

std::uint32_t walk_path(const std::uint64_t* frame) {
  RawStack further;
  StackChecks checks;
  capture_stack(kMaxStackDepth, frame, &further, &checks);
  return intern_path(further, checks);
}

format::Ref intern_outward(Process& process, const ThreadPaths& paths, std::uint32_t node, std::uint64_t innermost) {
  RawStack raw;
  raw.truncated = false;
  raw.count = 0;
  for (; node != 0 && raw.count < process.options.depth; node = paths.outer(node)) {
    raw.frames[raw.count++] = paths.address(node);
    raw.truncated = paths.is_node_cut(node);
  }
  if (raw.count != 0 && innermost != 0) raw.frames[0] = innermost;
  return process.stacks.table.intern(raw, process.stacks.modules, process.dump, nullptr);
}

}  // namespace culprit
