// Stacks of a dump for display: named frames, without the frames that tell the reader nothing, and with the runtime
// call in the user's code.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/model/frame_numbers.h"
#include "report/symbols/symbolizer.h"

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
};

// A global or static variable, as far as it is known.
struct Variable {
  const Module* module = nullptr;
  std::string name;         // demangled; empty: the module has no symbol there
  std::uint64_t begin = 0;  // address inside the module's file
  bool python = false;      // not a variable of a module: `name` describes a holder on the Python side
};

// Resolves stacks in batches: the symbols of all their modules are looked up at once. Not thread-safe.
class StackResolver {
 public:
  // `dump` and the objects that `lookup` refers to must outlive the resolver. `full_stacks` keeps frames that are
  // hidden otherwise.
  StackResolver(const Dump& dump, SymbolLookup lookup, bool full_stacks);

  // Resolves `stacks`, and the variables at `places`, which are encoded like frames (any order, repetitions allowed).
  void resolve(const std::vector<format::Ref>& stacks, const std::vector<std::uint64_t>& places = {});

  // The stack of an earlier resolve(). An empty one for 0 and for invalid references.
  const ResolvedStack& stack(format::Ref ref) const;

  // The variable at a place of an earlier resolve(): one object per variable, and one for all places of a module
  // without a known variable. nullptr when the place is outside of all modules.
  const Variable* variable(std::uint64_t place) const;

  // The function of the frame that is the `depth`th native one of the recorded stack, counted from the outermost as 1;
  // nullptr when there is none.
  const Frame* frame_from_outermost(format::Ref stack, std::uint32_t depth) const;

  // Visits each frame of the resolved stacks once.
  template <typename Visit>
  void for_each_frame(Visit visit) const {
    for (const Frame& frame : frames_) visit(frame);
  }

  // Remarks about the modules for the reader: changed since the run, or missing.
  std::vector<std::string> notes() const;

 private:
  using Address = std::uint64_t;  // encoded as in dump_format.h
  using Expansion = std::vector<const Frame*>;

  void look_up(const std::vector<Address>& addresses, const std::vector<Address>& places);
  void add_python_frame(Address address);
  ResolvedStack assemble(const StackView& view) const;

  const Dump& dump_;
  SymbolLookup lookup_;
  bool full_stacks_;
  std::deque<Module> modules_;
  std::deque<Frame> frames_;
  std::deque<Variable> variables_;
  std::vector<std::pair<Address, const Variable*>> variable_at_;  // sorted
  std::unordered_map<Address, Expansion> expansions_;
  std::unordered_map<format::Ref, ResolvedStack> stacks_;
  FrameNumbers numbers_;
  ResolvedStack none_;
};

// Whether the frame is in code below or around the user's: this tool, the CUDA runtime, libc, the C++ runtime, start-up
// code, a Python interpreter.
bool is_system_code(const Frame& frame);

// The frame that names a stack in one line: the innermost Python frame, if there is one, else the caller. nullptr: the
// stack is not recorded.
const Frame* naming_frame(const ResolvedStack& stack);

// "libfoo.so" of "/usr/lib/libfoo.so.1.2".
std::string_view base_name(std::string_view path);

}  // namespace culprit::report
