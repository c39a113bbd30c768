// Stacks of a dump as people read them: frames with names, without the frames that say nothing, and with the runtime
// call that the user made.
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

namespace culprit {

struct Module {
  std::string path;
  std::string name;      // base name of the path
  std::string build_id;  // hex digits, may be empty
  bool executable = false;
  bool has_debug_info = false;
  bool own_unwinder = false;  // its exceptions cannot be observed
  ModuleState state = ModuleState::kNoFile;
};

struct Frame {
  std::string function;  // empty: unknown
  std::string file;      // empty: unknown
  unsigned line = 0;
  const Module* module = nullptr;  // nullptr: in no known module
  std::uint64_t offset = 0;        // address of the call inside the module's file (what addr2line takes)
  bool inlined = false;
  bool python = false;       // `module` is nullptr and `offset` 0 then
  bool approximate = false;  // `function` is only the nearest symbol before
  std::uint64_t symbol_offset = 0;
  // Numbers that one FrameNumbers gave: equal for frames at one place, as a reader sees it (the line when it is known,
  // else the offset), and equal for those that are in one module and function besides.
  std::uint32_t place = 0;
  std::uint32_t code = 0;
};

struct ResolvedStack {
  std::vector<const Frame*> frames;  // to be shown, innermost first
  // Innermost frame that is neither ours nor the CUDA runtime's; nullptr when there is none.
  const Frame* caller = nullptr;
  std::string runtime_api;  // the call of the CUDA runtime that the user made, e.g. "cudaMalloc"; empty: none is seen
  bool through_runtime = false;  // the CUDA runtime made the driver call, even if its public function cannot be named
  bool truncated = false;
  bool merged = false;      // found no room, and was shortened to its innermost frames
  bool has_python = false;  // some of `frames` are Python's
};

// A global or static variable, or what is known of one.
struct Variable {
  const Module* module = nullptr;
  std::string name;         // demangled; empty: the module has no symbol there
  std::uint64_t begin = 0;  // address inside the module's file
  bool python = false;      // no variable of a module: `name` says in words what holds it, on the Python side
};

// Resolves stacks in batches: the symbols of all their modules are looked up at once. Not thread-safe.
class StackResolver {
 public:
  // `dump` and what `lookup` refers to must outlive the resolver. `full_stacks` keeps the frames that are hidden
  // otherwise.
  StackResolver(const Dump& dump, SymbolLookup lookup, bool full_stacks);

  // Makes the stacks known that `stacks` names, and the variables at `places`, which are written like frames (any
  // order, repetitions allowed).
  void resolve(const std::vector<format::Ref>& stacks, const std::vector<std::uint64_t>& places = {});

  // The stack of an earlier resolve(). An empty one for 0 and for references that lead nowhere.
  const ResolvedStack& stack(format::Ref ref) const;

  // The variable at a place of an earlier resolve(): one object for each variable, and one for all places of a module
  // where no variable is known. nullptr when the place is in no module.
  const Variable* variable(std::uint64_t place) const;

  // The function of the frame that is the `depth`th native one of the recorded stack, counted from the outermost as 1;
  // nullptr when there is none.
  const Frame* frame_from_outermost(format::Ref stack, std::uint32_t depth) const;

  // Every frame that stands in a resolved stack, once.
  template <typename Visit>
  void for_each_frame(Visit visit) const {
    for (const Frame& frame : frames_) visit(frame);
  }

  // What a reader should know about the modules: changed since, or gone.
  std::vector<std::string> notes() const;

 private:
  using Address = std::uint64_t;  // a frame as dump_format.h has it
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

// Not the code of a program or a library that uses CUDA, but what is below or around it: this tool, the CUDA runtime,
// libc, the C++ runtime, start-up code, a Python interpreter.
bool is_system_code(const Frame& frame);

// The frame that a stack is named by in one line: the innermost one of Python's, if there is any, else the caller.
// nullptr: the stack is not recorded.
const Frame* naming_frame(const ResolvedStack& stack);

// "libfoo.so" of "/usr/lib/libfoo.so.1.2".
std::string_view base_name(std::string_view path);

}  // namespace culprit
