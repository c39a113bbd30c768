// The Python frames of the calling thread, put between the native ones.
//
// They are read from the thread's own interpreter state without the GIL, without touching a reference count and without
// a call that could run Python code: a thread's own chain of frames cannot change while the thread is inside a C call.
//
// Two calls from different Python lines may have the very same native stack, since one evaluation loop runs them both.
// So the native stack is looked up first (see StackMemo), then the pair of native stack and a hash of the Python
// frames:
//
//     native stack (Ref) + hash of (instruction, code object) of each Python frame -> stack with both (Ref)
//
// A new code object at the address of a freed one, with equal hash inputs (python_hash.h), is mistaken for the old one
// by a thread whose PythonMemo (1024 entries) still has the old one's stack. Stacks outside the memo are read again, by
// content.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/dump/packed_space.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/python_stacks/python_hash.h"
#include "interpose/python_stacks/python_layout.h"
#include "interpose/stacks/stack.h"
#include "interpose/stacks/stack_table.h"
#include "interpose/system/hash_index.h"

namespace culprit {

// A thread's most recent stacks with Python frames. All zeros = empty.
struct PythonMemo {
  static constexpr std::uint32_t kEntries = 1024;  // a power of two
  struct Entry {
    std::uint64_t key;
    format::Ref native;
    format::Ref stack;  // 0 = free
  };
  bool used;  // any entry
  Entry entries[kEntries];
};

// All zeros = no interpreter found yet.
class PythonFrames {
 public:
  // Looks for an interpreter when modules were loaded since the last call. Thread-safe.
  CULPRIT_COLD void look(DumpWriter& dump);

  // Notes which interpreter is there, and looks at nothing of it: for a process with CULPRIT_PYTHON=0.
  static void note_version(DumpWriter& dump);

  // Whether an interpreter was found whose frames can be read: only then find() and merge() may be called. Becomes
  // false for ever when merge() or find() sees that the interpreter is not as expected.
  bool is_readable() const { return readable_.load(std::memory_order_acquire); }

  // The depth of the calling thread, which runs Python code and has the GIL; counts up to `most`. Thread-safe.
  int count_frames(int most) const;

  // For a caller of the next two functions. `memo`: the calling thread's, nullptr = it has none.
  struct Use {
    DumpWriter& dump;
    StackTable& stacks;
    int depth;
    PythonMemo* memo;
  };
  // From find() to merge().
  struct Missing {
    std::uint64_t thread;
    std::uint64_t key;
    PythonMemo::Entry* entry;  // nullptr = no memo
  };
  // The calling thread's stack with its Python frames, given its native one, if the thread's memo has it; the native
  // one when the thread runs no Python. Else 0: call merge() with `missing`. Thread-safe.
  format::Ref find(const Use& use, format::Ref native, Missing* missing);
  // Makes the stack that find() did not know, and keeps it in the memo. 0 when there is no room, or nothing to merge.
  // Thread-safe; on the tracker's own stack only.
  CULPRIT_COLD format::Ref merge(const Use& use, format::Ref native, const Missing& missing);

  // For a collection of stacks (stack_collection.h): begin_marking() clears the marks, mark_frame() is called for each
  // frame of each stack that stays, and sweep() frees all other frames and texts, which belong to code that the program
  // dropped. Thread-safe; records that find() uses meanwhile are marked.
  void begin_marking() {
    SpinGuard guard(lock_);
    frame_space_.clear_marks();
    text_space_.clear_marks();
  }
  void mark_frame(std::uint64_t frame) {
    if ((frame >> format::kFrameModuleShift & format::kFrameModuleMask) == format::kPythonModule)
      frame_space_.mark(static_cast<format::Ref>(frame));
  }
  void sweep(DumpWriter& dump) {
    SpinGuard guard(lock_);
    frame_space_.for_each_marked([&](format::Ref ref) {
      const auto* record = dump.at<format::PythonFrameRecord>(ref);
      text_space_.mark(record->file);
      text_space_.mark(record->function);
    });
    frame_space_.sweep([](format::Ref) {});
    text_space_.sweep([](format::Ref) {});
    frames_.filter([&](const HashIndex::Entry& entry) { return frame_space_.is_record(entry.value); });
    texts_.filter([&](const HashIndex::Entry& entry) { return text_space_.is_record(entry.value); });
  }
  bool wants_collection() const { return frame_space_.wants_sweep() || text_space_.wants_sweep(); }

  // Gives the memory back; empty afterwards. Not while other threads use this.
  void free_memory() {
    texts_.free_memory(), frames_.free_memory();
    text_space_.free_memory(), frame_space_.free_memory();
  }

 private:
  // The frames of one evaluation loop are consecutive; the last item is an address in the loop's own C frame.
  struct Item {
    std::uint64_t code;         // 0: end of a loop
    std::uint64_t instruction;  // or the address on the C stack; 0: the next C frame of the loop's function (3.9)
  };
  static constexpr int kMostItems = 2 * kMaxStackDepth;
  struct Chain {
    int count;
    bool truncated;
    std::uint64_t globals;  // of the innermost frame
    Item items[kMostItems];
  };
  struct Symbols {
    void* (*this_thread_state)();     // PyGILState_GetThisThreadState: reads a thread-specific value
    void* (*current_thread_state)();  // _PyThreadState_UncheckedGet: loads a variable; null or another thread: no GIL
    int (*finalizing)();              // _Py_IsFinalizing: loads a variable
    void* (*globals)();               // PyEval_GetGlobals
    int (*line)(void* code, int offset);  // PyCode_Addr2Line
    std::uint64_t code_type, text_type, bytes_type;
    std::uint64_t evaluation_loop;  // _PyEval_EvalFrameDefault
  };

  // Learns the layout and functions of the interpreter in `module`. Returns false when it has none.
  bool take_interpreter(const ElfModule& module, DumpWriter& dump);
  std::uint64_t innermost(std::uint64_t thread) const;
  bool has_gil(std::uint64_t thread) const {
    return reinterpret_cast<std::uint64_t>(symbols_.current_thread_state()) == thread;
  }
  bool read_chain(std::uint64_t thread, int depth, Chain* chain) const;
  bool read_objects(std::uint64_t thread, int depth, Chain* chain) const;
  bool read_place(std::uint64_t frame, std::uint64_t* code, std::int64_t* offset) const;
  bool is_evaluation_loop(std::uint64_t return_address) const;
  CULPRIT_COLD void switch_off(DumpWriter& dump, format::PythonState state);
  CULPRIT_COLD bool check_structure(DumpWriter& dump, std::uint64_t thread);
  CULPRIT_COLD bool check_globals(DumpWriter& dump, std::uint64_t thread, const Chain& chain);
  format::Ref read_and_merge(const Use& use, format::Ref native, std::uint64_t thread);
  std::uint64_t frame_of(const Item& item, DumpWriter& dump);
  format::Ref text_of(std::uint64_t object, std::uint64_t* hash, DumpWriter& dump);

  std::atomic<bool> readable_;
  std::atomic<bool> structure_checked_;
  std::atomic<bool> globals_checked_;
  PythonLayout layout_;
  PythonHash hash_;
  Symbols symbols_;
  std::atomic<bool> searching_;
  ModuleListEnd list_end_;  // at the last search
  std::atomic<bool> found_;
  SpinLock lock_;
  HashIndex texts_;   // content -> string
  HashIndex frames_;  // file, function, line -> record
  PackedSpace text_space_;
  PackedSpace frame_space_;
};

}  // namespace culprit
