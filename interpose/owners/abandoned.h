// Which allocations an exception abandoned: those whose owner was unwound, and those that the catching function made
// inside the try block whose handler caught.
//
// The owner of an allocation, as seen from the throw, is the innermost activation that its path shares with the path of
// the throw (thread_paths.h). Frames deeper than the handler's are gone. Where the owner is the catching frame itself,
// its exception table says whether the same handler waits for the allocation's call (lsda.h).
#pragma once

#include "interpose/owners/lsda.h"
#include "interpose/owners/thread_paths.h"

namespace culprit {

// What the unwind tables say of the function (or the part of a function that was split) around a call.
struct FunctionInfo {
  std::uint64_t begin;
  std::uint64_t end;
  bool is_part;              // split off: its frame was set up elsewhere
  bool is_startup;           // of libc: what calls main, or a thread's function
  const std::uint8_t* lsda;  // nullptr = none
  const std::uint8_t* lsda_end;
};
// False when nothing is known of the address.
using FunctionAt = bool (*)(std::uint64_t return_address, FunctionInfo* info);

// The tables of the running process: FunctionAt as everybody but the unit tests needs it.
bool find_function(std::uint64_t return_address, FunctionInfo* info);

// The owner of what was made by `path`, as seen from `event`: its frame in the one and in the other.
struct Owner {
  ThreadPaths::Node mine, theirs;  // 0 = they share no activation
};
Owner owner_of(const ThreadPaths& paths, ThreadPaths::Path path, ThreadPaths::Path event, FunctionAt function_at);

// How an exception ended.
struct Landing {
  enum class How : std::uint8_t {
    kUnknown,   // on another stack, as far as we can tell
    kCaught,    // by the frame with this CFA
    kUncaught,  // the runtime took it, to end the program
  } how;
  std::uint64_t handler_cfa;
  std::uint64_t catch_call;  // where the handler's call of __cxa_begin_catch returns to, 0 = not known
};

// `caught`: the path of the call of __cxa_begin_catch.
Landing find_landing(ThreadPaths& paths, ThreadPaths::Path thrown, ThreadPaths::Path caught, FunctionAt function_at);

// To be called at the throw, while the frames stand: looks where the owners of what lives keep their handles
// (ThreadPaths::look_in_frames).
void look_at_owners(ThreadPaths& paths, ThreadPaths::Path thrown, FunctionAt function_at);

// The handler as the tables say, for a runtime whose __cxa_begin_catch nobody can see: what the unwinder is about to
// find. `frame`: of the handler's function in the throw's path, 0 = none; `pad`: where the handler begins.
struct FoundHandler {
  Landing landing;
  ThreadPaths::Node frame;
  std::uint64_t pad;
};
FoundHandler find_handler(const ThreadPaths& paths, ThreadPaths::Path thrown, TypeInfo type, FunctionAt function_at);
// Its landing alone, remembered.
Landing find_landing_by_tables(ThreadPaths& paths, ThreadPaths::Path thrown, TypeInfo type, FunctionAt function_at);

// Whether what was made by `path` was abandoned by an exception of `type`. Remembered in `paths`; forget_verdicts()
// when a module was unloaded.
ThreadPaths::Verdict judge(ThreadPaths& paths, ThreadPaths::Path path, ThreadPaths::Path thrown,
                           ThreadPaths::Path caught, const Landing& landing, TypeInfo type, FunctionAt function_at);

}  // namespace culprit
