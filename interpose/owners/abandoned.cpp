#include "interpose/owners/abandoned.h"

#include <cstring>

#include "interpose/format/dump_format.h"
#include "interpose/owners/cxx_types.h"

namespace culprit {
namespace {

using Node = ThreadPaths::Node;
using Path = ThreadPaths::Path;

std::uint64_t plain(std::uint64_t address) { return address & ~format::kFrameExact; }

// Whether two frames at the same place, called from the same call site, belong to one function. An indirect call, or a
// call followed by a tail call, can reach several functions.
bool same_function(std::uint64_t a, std::uint64_t b, FunctionAt function_at) {
  if (a == b) return true;
  FunctionInfo at_a = {};
  FunctionInfo at_b = {};
  if (!function_at(plain(a), &at_a) || !function_at(plain(b), &at_b)) return false;
  return at_a.begin == at_b.begin || at_a.is_part || at_b.is_part;
}

}  // namespace

Owner owner_of(const ThreadPaths& paths, Path path, Path event, FunctionAt function_at) {
  ThreadPaths::Common common = paths.find_common(path, event);
  if (common.a_inner != 0 && common.b_inner != 0 &&
      same_function(paths.address(common.a_inner), paths.address(common.b_inner), function_at))
    return {common.a_inner, common.b_inner};
  return {common.a, common.b};
}

namespace {

// A truncated path lacks the CFA of its outermost frame; the other path may have it.
std::uint64_t owner_cfa(const ThreadPaths& paths, const Owner& owner) {
  std::uint64_t mine = paths.cfa(owner.mine);
  std::uint64_t theirs = paths.cfa(owner.theirs);
  return mine < theirs ? mine : theirs;
}

// Handler 0 in the cache: whether an exception thrown there can abandon allocations of `path` with any handler.
constexpr Path kAnyHandler = 0;

// Counts the calls in a part of a function that have the same target as the call before `return_address`:
// __cxa_begin_catch, with which each handler begins. Adds to `count`.
void count_calls_like(std::uint64_t return_address, const FunctionInfo& part, int* count) {
#if defined(__x86_64__)
  auto byte = [](std::uint64_t at) { return *reinterpret_cast<const std::uint8_t*>(at); };
  auto target = [](std::uint64_t next) {
    std::int32_t distance;
    std::memcpy(&distance, reinterpret_cast<const void*>(next - 4), sizeof(distance));
    return next + static_cast<std::uint64_t>(std::int64_t{distance});
  };
  // call rel32, or call *rel32(%rip)
  bool direct = byte(return_address - 5) == 0xe8;
  bool indirect = byte(return_address - 6) == 0xff && byte(return_address - 5) == 0x15;
  if (!direct && !indirect) *count = 2;
  for (std::uint64_t next = part.begin + 6; next <= part.end && (direct || indirect); ++next) {
    bool is_call = direct ? byte(next - 5) == 0xe8 : byte(next - 6) == 0xff && byte(next - 5) == 0x15;
    if (is_call && target(next) == target(return_address)) ++*count;
  }
#else
  (void)return_address;
  (void)part;
  *count = 2;
#endif
}

SameHandler handler_waits_for(std::uint64_t thrown, std::uint64_t made, std::uint64_t catch_call, TypeInfo type,
                              FunctionAt function_at) {
  if (thrown == made) return SameHandler::kYes;
  FunctionInfo at_throw = {};
  FunctionInfo at_made = {};
  if (!function_at(plain(thrown), &at_throw) || !function_at(plain(made), &at_made)) return SameHandler::kNo;
  if (at_throw.lsda == nullptr || at_made.lsda == nullptr) return SameHandler::kNo;
  FunctionInfo at_catch = {};
  int handlers = 2;
  if (catch_call != 0 && function_at(catch_call, &at_catch)) {
    handlers = 0;
    count_calls_like(catch_call, at_catch, &handlers);
    if (at_throw.begin != at_catch.begin) count_calls_like(catch_call, at_throw, &handlers);
    if (at_made.begin != at_catch.begin && at_made.begin != at_throw.begin)
      count_calls_like(catch_call, at_made, &handlers);
  }
  Lsda thrown_lsda(at_throw.lsda, at_throw.lsda_end, at_throw.begin);
  Lsda made_lsda(at_made.lsda, at_made.lsda_end, at_made.begin);
  return same_handler(thrown_lsda, plain(thrown), made_lsda, plain(made), handlers == 1, type, is_caught_by);
}

ExceptionEnd look_for_end(const ThreadPaths& paths, Path thrown, Path caught, FunctionAt function_at) {
  ThreadPaths::Common common = paths.find_common(caught, thrown);
  if (common.a == 0) return {ExceptionEnd::How::kUnknown, 0, 0};
  // A real handler is in a frame that existed at the throw. Otherwise the C++ runtime caught the exception to end the
  // program: there is no handler, or the exception left a noexcept function.
  bool in_handler = common.a_inner == paths.innermost(caught) && common.b_inner != 0 &&
                    same_function(paths.address(common.a_inner), paths.address(common.b_inner), function_at);
  if (!in_handler) return {ExceptionEnd::How::kUncaught, ThreadPaths::kOutermost, 0};
  return {ExceptionEnd::How::kCaught, paths.cfa(common.b_inner), plain(paths.address(common.a_inner))};
}

// The cached result about the throw and the handler alone.
ThreadPaths::Verdict about_exception_end(Path thrown, Path caught, const ExceptionEnd& end) {
  ThreadPaths::Verdict verdict = {0, thrown, caught, {}, false, false, end.handler_cfa};
  verdict.exception_end = static_cast<std::uint16_t>(end.how);
  return verdict;
}

ThreadPaths::Verdict find_verdict(const ThreadPaths& paths, Path path, Path thrown, Path caught,
                                  const ExceptionEnd& end, TypeInfo type, FunctionAt function_at) {
  ThreadPaths::Verdict verdict = {path, thrown, caught, {}, false, false, 0};
  Owner owner = owner_of(paths, path, thrown, function_at);
  if (owner.mine == 0) return verdict;
  verdict.owner_depth = paths.depth(owner.mine);
  verdict.cfa = owner_cfa(paths, owner);
  if (end.how == ExceptionEnd::How::kUncaught) {
    FunctionInfo info = {};
    verdict.abandoned = !(function_at(plain(paths.address(owner.mine)), &info) && info.is_startup);
  } else if (verdict.cfa != end.handler_cfa) {
    verdict.abandoned = verdict.cfa < end.handler_cfa;
  } else {
    SameHandler same =
        handler_waits_for(paths.address(owner.theirs), paths.address(owner.mine), end.catch_call, type, function_at);
    verdict.abandoned = same != SameHandler::kNo;
    verdict.ambiguous = same == SameHandler::kPerhaps;
  }
  return verdict;
}

}  // namespace

ExceptionEnd find_exception_end(ThreadPaths& paths, Path thrown, Path caught, FunctionAt function_at) {
  ThreadPaths::Verdict* known = paths.verdict(0, thrown, caught);
  if (!known->is_about(0, thrown, caught)) {
    ExceptionEnd found = look_for_end(paths, thrown, caught, function_at);
    *known = about_exception_end(thrown, caught, found);
  }
  return {static_cast<ExceptionEnd::How>(known->exception_end), known->cfa,
          plain(paths.address(paths.innermost(caught)))};
}

bool has_one_handler(std::uint64_t thrown, std::uint64_t catch_call, FunctionAt function_at) {
  FunctionInfo at_throw = {};
  FunctionInfo at_catch = {};
  if (catch_call == 0 || !function_at(thrown, &at_throw) || !function_at(catch_call, &at_catch)) return false;
  int handlers = 0;
  count_calls_like(catch_call, at_catch, &handlers);
  if (at_throw.begin != at_catch.begin) count_calls_like(catch_call, at_throw, &handlers);
  return handlers == 1;
}

FoundHandler find_handler(const ThreadPaths& paths, Path thrown, TypeInfo type, FunctionAt function_at) {
  Node last = 0;
  for (Node node = paths.innermost(thrown); node != 0; node = paths.outer(node)) {
    last = node;
    FunctionInfo info = {};
    if (!function_at(plain(paths.address(node)), &info)) break;
    Lsda lsda(info.lsda, info.lsda_end, info.begin);
    const Lsda::CallSite site = lsda.call_site(plain(paths.address(node)));
    for (int i = 0; i < site.count; ++i) {
      TypeInfo handler = nullptr;
      if (lsda.type_of(site.filters[i], &handler) && is_caught_by(type, handler) != 0)
        return {{ExceptionEnd::How::kCaught, paths.cfa(node), 0}, node, site.landing_pad};
    }
  }
  bool whole = last != 0 && paths.outer(last) == 0 && !paths.is_cut(thrown);
  ExceptionEnd::How how = whole ? ExceptionEnd::How::kUncaught : ExceptionEnd::How::kUnknown;
  return {{how, ThreadPaths::kOutermost, 0}, 0, 0};
}

ExceptionEnd find_exception_end_by_tables(ThreadPaths& paths, Path thrown, TypeInfo type, FunctionAt function_at) {
  ThreadPaths::Verdict* known = paths.verdict(0, thrown, thrown);
  if (!known->is_about(0, thrown, thrown)) {
    ExceptionEnd found = find_handler(paths, thrown, type, function_at).exception_end;
    *known = about_exception_end(thrown, thrown, found);
  }
  return {static_cast<ExceptionEnd::How>(known->exception_end), known->cfa, 0};
}

ThreadPaths::Verdict judge(ThreadPaths& paths, Path path, Path thrown, Path caught, const ExceptionEnd& end,
                           TypeInfo type, FunctionAt function_at) {
  ThreadPaths::Verdict* known = paths.verdict(path, thrown, caught);
  if (!known->is_about(path, thrown, caught))
    *known = find_verdict(paths, path, thrown, caught, end, type, function_at);
  const ThreadPaths::Verdict verdict = *known;
  if (!verdict.abandoned) *paths.verdict(path, thrown, kAnyHandler) = {path, thrown, kAnyHandler, {}, false, false, 0};
  return verdict;
}

void look_at_owners(ThreadPaths& paths, Path thrown, FunctionAt function_at) {
  if (thrown == 0) return;
  paths.for_each_unsettled([&](Path path) {
    ThreadPaths::Verdict* known = paths.verdict(path, thrown, kAnyHandler);
    if (!known->is_about(path, thrown, kAnyHandler)) {
      Owner owner = owner_of(paths, path, thrown, function_at);
      bool any = owner.mine != 0;
      *known = {path, thrown, kAnyHandler, {}, any, false, any ? owner_cfa(paths, owner) : 0};
    }
    if (!known->abandoned || known->cfa == ThreadPaths::kOutermost) return;
    paths.look_in_frames(path, reinterpret_cast<const std::uint64_t*>(paths.pointer(paths.innermost(thrown))),
                         reinterpret_cast<const std::uint64_t*>(known->cfa));
  });
}

}  // namespace culprit
