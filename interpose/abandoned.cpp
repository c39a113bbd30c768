#include "interpose/abandoned.h"

#include "interpose/cxx_types.h"
#include "interpose/dump_format.h"

namespace culprit {
namespace {

using Node = ThreadPaths::Node;
using Path = ThreadPaths::Path;

std::uint64_t plain(std::uint64_t address) { return address & ~format::kFrameExact; }

// Whether two frames at the same place, called from the same call, are of one function. An indirect call, or one that
// was followed by a tail call, can reach several.
bool same_function(std::uint64_t a, std::uint64_t b, FunctionAt function_at) {
  if (a == b) return true;
  FunctionInfo at_a = {};
  FunctionInfo at_b = {};
  if (!function_at(plain(a), &at_a) || !function_at(plain(b), &at_b)) return false;
  return at_a.begin == at_b.begin || at_a.is_part || at_b.is_part;
}

}  // namespace

Owner owner_of(const ThreadPaths& paths, Path path, Path event, FunctionAt function_at) {
  ThreadPaths::Meeting meeting = paths.meet(path, event);
  if (meeting.a_inner != 0 && meeting.b_inner != 0 &&
      same_function(paths.address(meeting.a_inner), paths.address(meeting.b_inner), function_at))
    return {meeting.a_inner, meeting.b_inner};
  return {meeting.a, meeting.b};
}

namespace {

SameHandler handler_waits_for(std::uint64_t thrown, std::uint64_t made, TypeInfo type, FunctionAt function_at) {
  if (thrown == made) return SameHandler::kYes;
  FunctionInfo at_throw = {};
  FunctionInfo at_made = {};
  if (!function_at(plain(thrown), &at_throw) || !function_at(plain(made), &at_made)) return SameHandler::kNo;
  Lsda thrown_lsda(at_throw.lsda, at_throw.lsda_end, at_throw.begin);
  Lsda made_lsda(at_made.lsda, at_made.lsda_end, at_made.begin);
  return same_handler(thrown_lsda, plain(thrown), made_lsda, plain(made), type, is_caught_by);
}

Landing look_for_landing(const ThreadPaths& paths, Path thrown, Path caught, FunctionAt function_at) {
  ThreadPaths::Meeting meeting = paths.meet(caught, thrown);
  if (meeting.a == 0) return {Landing::How::kUnknown, 0};
  // The handler is in a frame that stood at the throw. Anything else that takes an exception is a part of the runtime
  // that is about to end the program: it found no handler, or a function that must not throw.
  bool in_handler = meeting.a_inner == paths.innermost(caught) && meeting.b_inner != 0 &&
                    same_function(paths.address(meeting.a_inner), paths.address(meeting.b_inner), function_at);
  if (!in_handler) return {Landing::How::kUncaught, ThreadPaths::kOutermost};
  return {Landing::How::kCaught, paths.cfa(meeting.b_inner)};
}

ThreadPaths::Verdict find_verdict(const ThreadPaths& paths, Path path, Path thrown, Path caught, const Landing& landing,
                                  TypeInfo type, FunctionAt function_at) {
  ThreadPaths::Verdict verdict = {path, thrown, caught, 0, false, false, 0};
  Owner owner = owner_of(paths, path, thrown, function_at);
  if (owner.mine == 0) return verdict;
  verdict.owner_depth = paths.depth(owner.mine);
  verdict.cfa = paths.cfa(owner.mine);
  if (landing.how == Landing::How::kUncaught) {
    FunctionInfo info = {};
    verdict.abandoned = !(function_at(plain(paths.address(owner.mine)), &info) && info.is_startup);
  } else if (verdict.cfa != landing.handler_cfa) {
    verdict.abandoned = verdict.cfa < landing.handler_cfa;
  } else {
    SameHandler same = handler_waits_for(paths.address(owner.theirs), paths.address(owner.mine), type, function_at);
    verdict.abandoned = same != SameHandler::kNo;
    verdict.ambiguous = same == SameHandler::kPerhaps;
  }
  return verdict;
}

}  // namespace

Landing find_landing(ThreadPaths& paths, Path thrown, Path caught, FunctionAt function_at) {
  ThreadPaths::Verdict* known = paths.verdict(0, thrown, caught);
  if (!known->is_about(0, thrown, caught)) {
    Landing found = look_for_landing(paths, thrown, caught, function_at);
    *known = {0, thrown, caught, static_cast<std::uint16_t>(found.how), false, false, found.handler_cfa};
  }
  return {static_cast<Landing::How>(known->owner_depth), known->cfa};
}

ThreadPaths::Verdict judge(ThreadPaths& paths, Path path, Path thrown, Path caught, const Landing& landing,
                           TypeInfo type, FunctionAt function_at) {
  ThreadPaths::Verdict* known = paths.verdict(path, thrown, caught);
  if (!known->is_about(path, thrown, caught))
    *known = find_verdict(paths, path, thrown, caught, landing, type, function_at);
  return *known;
}

}  // namespace culprit
