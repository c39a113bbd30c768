// Which allocations an exception abandoned: those whose owner was unwound, and those that the catching function made
// inside the try block whose handler caught.
//
// The owner of an allocation, as seen from the throw, is the innermost activation that its path shares with the path of
// the throw (thread_paths.h). Frames deeper than the handler's are gone. If the owner is the catching frame itself, its
// exception table says whether the same handler covers the allocation's call (lsda.h).
#pragma once

#include "interpose/owners/lsda.h"
#include "interpose/owners/thread_paths.h"

namespace culprit {

// The function around a call, or the part of it that the compiler split off, as the unwind tables describe it.
struct FunctionInfo {
  std::uint64_t begin;
  std::uint64_t end;
  bool is_part;              // split off: its frame was set up elsewhere
  bool is_startup;           // libc's caller of main, or of a thread's function
  const std::uint8_t* lsda;  // nullptr = none
  const std::uint8_t* lsda_end;
};
// Returns false for an address without an entry in the unwind tables. In the running process: find_function()
// (function_tables.h); unit tests pass their own.
using FunctionAt = bool (*)(std::uint64_t return_address, FunctionInfo* info);

// The owner of an allocation made by `path`, as seen from `event`: its frame in each of the two paths.
struct Owner {
  ThreadPaths::Node mine, theirs;  // 0 = they share no activation
};
Owner owner_of(const ThreadPaths& paths, ThreadPaths::Path path, ThreadPaths::Path event, FunctionAt function_at);

// How an exception ended.
struct ExceptionEnd {
  enum class How : std::uint8_t {
    kUnknown,   // probably on another stack
    kCaught,    // by the frame with this CFA
    kUncaught,  // the runtime ends the program
  } how;
  std::uint64_t handler_cfa;
  std::uint64_t catch_call;  // return address of the handler's call of __cxa_begin_catch, 0 = not known
};

// `caught`: the path of the call of __cxa_begin_catch.
ExceptionEnd find_exception_end(ThreadPaths& paths, ThreadPaths::Path thrown, ThreadPaths::Path caught,
                                FunctionAt function_at);

// Call at the throw, while its frames exist: notes which handles stand in the frames of the live allocations' owners
// (ThreadPaths::look_in_frames).
void look_at_owners(ThreadPaths& paths, ThreadPaths::Path thrown, FunctionAt function_at);

// The handler that the unwinder is about to find, according to the tables: for a runtime whose __cxa_begin_catch is not
// hooked. `frame`: the handler's function in the throw's path, 0 = none; `pad`: the landing pad's address.
struct FoundHandler {
  ExceptionEnd exception_end;
  ThreadPaths::Node frame;
  std::uint64_t pad;
};
FoundHandler find_handler(const ThreadPaths& paths, ThreadPaths::Path thrown, TypeInfo type, FunctionAt function_at);
// Only the end of find_handler(), cached in `paths`.
ExceptionEnd find_exception_end_by_tables(ThreadPaths& paths, ThreadPaths::Path thrown, TypeInfo type,
                                          FunctionAt function_at);

// Whether the function at `thrown`, all parts of it that are known, calls __cxa_begin_catch in one place only: before
// `catch_call`. Both are return addresses.
bool has_one_handler(std::uint64_t thrown, std::uint64_t catch_call, FunctionAt function_at);

// Whether an exception of `type` abandoned the allocations made by `path`. Cached in `paths`; call forget_verdicts()
// after a module was unloaded.
ThreadPaths::Verdict judge(ThreadPaths& paths, ThreadPaths::Path path, ThreadPaths::Path thrown,
                           ThreadPaths::Path caught, const ExceptionEnd& end, TypeInfo type, FunctionAt function_at);

}  // namespace culprit
