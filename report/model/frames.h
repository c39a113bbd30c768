// Stacks for display: named frames, without the frames that tell the reader nothing, and with the runtime call in the
// user's code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/symbols/module_state.h"

namespace culprit::report {

struct Module {
  std::string path;
  std::string name;      // base name of the path
  std::string build_id;  // hex digits, may be empty
  bool executable = false;
  bool has_debug_info = false;
  bool own_unwinder = false;  // its exceptions are not recorded
  ModuleState state = ModuleState::kNoFile;
};

struct Frame {
  std::string function;  // empty: unknown
  std::string file;      // empty: unknown
  unsigned line = 0;
  const Module* module = nullptr;  // nullptr: outside of all known modules
  std::uint64_t offset = 0;        // address of the call inside the module's file (what addr2line takes)
  bool inlined = false;
  bool python = false;       // `module` is nullptr and `offset` is 0
  bool approximate = false;  // `function` is only the nearest symbol before
  std::uint64_t symbol_offset = 0;
  std::string symbol;  // the function by the symbol table, where the debug information has another name for it
  // Numbers from one FrameNumbers. `place` is equal for frames at the same place for a reader (the same line if known,
  // else the same offset); `code` is equal for frames that are also in the same module and function.
  std::uint32_t place = 0;
  std::uint32_t code = 0;
};

struct ResolvedStack {
  std::vector<const Frame*> frames;  // to be shown, innermost first
  // Innermost frame outside of libculprit.so and the CUDA runtime; nullptr when there is none.
  const Frame* caller = nullptr;
  std::string runtime_api;       // the CUDA runtime call in the user's code, e.g. "cudaMalloc"; empty: none was found
  bool through_runtime = false;  // the CUDA runtime made the driver call, even if its public function cannot be named
  bool truncated = false;
  bool merged = false;      // shortened to its innermost frames for lack of space
  bool has_python = false;  // some of `frames` are Python's
  // How many of `frames` are shown only with --full-stacks: the innermost ones (of this tool and the CUDA runtime), and
  // the outermost (start-up code).
  std::uint32_t hidden_inside = 0;
  std::uint32_t hidden_outside = 0;
  std::uint32_t number = 0;  // in the StackCache that it is of; 0: in none, or not kept there
};

// About how many bytes a report needs to show the stack.
std::uint64_t shown_bytes(const ResolvedStack& stack);

// How many bytes all stacks of a report may need, counted each time that one is shown: more than any report of a real
// program. A small file can name one long stack with long names in a hundred thousand leaks. `bytes`: the file's size.
inline std::uint64_t most_shown_bytes(std::uint64_t bytes) { return (256ULL << 20) + 32 * bytes; }

// A global or static variable, as far as it is known.
struct Variable {
  const Module* module = nullptr;
  std::string name;         // demangled; empty: the module has no symbol there
  std::uint64_t begin = 0;  // address inside the module's file
  bool python = false;      // not a variable of a module: `name` describes a holder on the Python side

  unsigned steps = 0;  // chunks of the heap on the way to the pointer, 0 = the variable itself has it
  std::string path;    // "[*]->buffer": see PointerPathName::general. Empty: not known
  bool typed = false;  // see PointerPathName
};

// A place that has one pointer at a time, and that the program assigns to: a variable, a member, the value of a key.
struct AssignedPlace {
  std::string path;      // behind the name of the variable: "->buffer"
  bool in_heap = false;  // a member of an object in the heap, which may have been replaced by another one
  bool keyed = false;    // in a container with keys, whose entries may have been erased
};

// "libfoo.so" of "/usr/lib/libfoo.so.1.2".
std::string_view base_name(std::string_view path);

}  // namespace culprit::report
