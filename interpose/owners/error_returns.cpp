#include "interpose/owners/error_returns.h"

#include <cuda.h>

#include "interpose/stacks/stack.h"

namespace culprit {
namespace {

using format::AllocationRecord;
using format::EvidenceRecord;
using format::FailedCallRecord;
using format::Ref;
using Node = ThreadPaths::Node;
using Path = ThreadPaths::Path;

// The allocations of a path after hook call `since`, which belong to an owner that saw the failure.
struct OwnedPath {
  Path path;
  std::uint32_t since;
  std::uint16_t owner_depth;
};

// An activation that saw the failure. There is at most one per frame.
struct OwnerFrame {
  std::uint64_t cfa;
  std::uint32_t since;
  bool is_startup;  // libc's caller of main, or of a thread's function: never an owner
};

class OwnedPaths {
 public:
  OwnedPaths(ThreadPaths& paths, Path failed, FunctionAt function_at) : paths_(paths), function_at_(function_at) {
    paths.for_each_active([&](Path path) {
      Owner owner = owner_of(paths, path, failed, function_at);
      if (owner.mine == 0 || count_ == kMost) return;
      OwnerFrame frame = owner_frame_of(owner.mine, path);
      if (frame.is_startup) return;
      owned_[count_++] = {path, frame.since, paths.depth(owner.mine)};
      if (frame.since < oldest_) oldest_ = frame.since;
    });
  }

  // All owned allocations were made after this hook call.
  std::uint32_t oldest() const { return oldest_; }
  const OwnedPath* find(Path path) const {
    for (int i = 0; i < count_; ++i) {
      if (owned_[i].path == path) return &owned_[i];
    }
    return nullptr;
  }

 private:
  static constexpr int kMost = 128;

  OwnerFrame owner_frame_of(Node owner, Path path) {
    std::uint64_t cfa = paths_.cfa(owner);
    for (int i = 0; i < owner_frame_count_; ++i) {
      if (owner_frames_[i].cfa == cfa) return owner_frames_[i];
    }
    FunctionInfo info = {};
    bool known = function_at_(paths_.address(owner) & ~format::kFrameExact, &info);
    OwnerFrame frame = {cfa, paths_.last_call_outside(path, cfa, 0), known && info.is_startup};
    if (owner_frame_count_ < kMaxStackDepth) owner_frames_[owner_frame_count_++] = frame;
    return frame;
  }

  ThreadPaths& paths_;
  FunctionAt function_at_;
  int count_ = 0;
  int owner_frame_count_ = 0;
  std::uint32_t oldest_ = ~0U;
  OwnedPath owned_[kMost];
  OwnerFrame owner_frames_[kMaxStackDepth];
};

// Sticky errors: every later call on the context fails, until the process ends (documented in cuda.h at each). Only the
// first one is a cause.
bool is_lasting(std::int32_t code) {
  return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_ILLEGAL_ADDRESS ||
         code == CUDA_ERROR_LAUNCH_TIMEOUT || code == CUDA_ERROR_ASSERT ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED);
}

void mark(const EvidencePlace& place, AllocationRecord* record, Ref call, std::uint16_t owner_depth, bool is_newest) {
  place.evidence.add(record, place.dump, [&](EvidenceRecord& evidence) {
    if (evidence.failed_call != 0) {
      std::int32_t before = place.dump.at<FailedCallRecord>(evidence.failed_call)->code;
      if (is_lasting(before) && before == place.dump.at<FailedCallRecord>(call)->code) return;
    }
    evidence.failed_call = call;
    evidence.failed_call_owner = owner_depth;
    evidence.flags = static_cast<std::uint8_t>((evidence.flags & ~format::kEvidenceEarlierCall) |
                                               (is_newest ? 0 : format::kEvidenceEarlierCall));
  });
}

void unmark(const EvidencePlace& place, AllocationRecord* record) {
  place.evidence.add(record, place.dump, [&](EvidenceRecord& evidence) {
    evidence.failed_call = 0;
    evidence.failed_call_owner = 0;
    evidence.flags &= static_cast<std::uint8_t>(~format::kEvidenceEarlierCall);
  });
}

// Whether two calls differ only by the call site in one activation of a function: an unrolled loop calls from several
// places.
bool same_call(const ThreadPaths& paths, Path a, Path b, FunctionAt function_at) {
  if (a == b) return true;
  Owner owner = owner_of(paths, a, b, function_at);
  Node at_a = paths.innermost(a);
  Node at_b = paths.innermost(b);
  while (at_a != owner.mine && at_b != owner.theirs && paths.address(at_a) == paths.address(at_b)) {
    at_a = paths.outer(at_a);
    at_b = paths.outer(at_b);
  }
  return owner.mine != 0 && at_a == owner.mine && at_b == owner.theirs;
}

// The CFA of the frame at this depth, counted from the outermost.
std::uint64_t cfa_at_depth(const ThreadPaths& paths, Path path, std::uint16_t depth) {
  Node node = paths.innermost(path);
  while (node != 0 && paths.depth(node) > depth) node = paths.outer(node);
  return node == 0 ? ThreadPaths::kOutermost : paths.cfa(node);
}

// Paths with allocations since a failure: their function was called anew, and no longer owns its earlier allocations.
// If there were more paths than fit, treat every path as called anew.
class MadeAgain {
 public:
  void add(Path path) {
    if (contains(path)) return;
    if (count_ < kMost) paths_[count_] = path;
    ++count_;
  }
  bool contains(Path path) const {
    for (int i = 0; i < count_ && i < kMost; ++i) {
      if (paths_[i] == path) return true;
    }
    return count_ > kMost;
  }

 private:
  static constexpr int kMost = 32;
  int count_ = 0;
  Path paths_[kMost];
};

}  // namespace

void PendingFailures::failed(const EvidencePlace& place, ThreadPaths& paths, Path path, Ref call,
                             FunctionAt function_at) {
  if (path == 0 || !paths.any_live()) return;
  std::uint32_t newest = paths.newest_made();
  for (Failure& failure : failures_) {
    // A loop of failing calls: the present allocations are already marked.
    if (failure.path == path && failure.epoch == paths.epoch() && failure.call == call && failure.newest == newest)
      return;
  }
  OwnedPaths owned(paths, path, function_at);
  paths.for_each_live(owned.oldest(), [&](Ref record, Path made_by, std::uint32_t made) {
    const OwnedPath* mine = owned.find(made_by);
    // If the newest allocation was freed, this activation cleaned up; the rest were made by earlier calls.
    if (mine == nullptr || made <= mine->since || !paths.newest_lives(made_by)) return;
    mark(place, place.dump.at<AllocationRecord>(record), call, mine->owner_depth, made == paths.newest(made_by));
  });
  failures_[next_++ % kMost] = {path, paths.epoch(), paths.clock(), newest, call};
}

void PendingFailures::succeeded(const EvidencePlace& place, ThreadPaths& paths, Path path, std::uint16_t api,
                                std::uint64_t bytes, std::uint32_t before, FunctionAt function_at) {
  if (path == 0) return;
  for (Failure& failure : failures_) {
    if (failure.path == 0 || failure.epoch != paths.epoch()) continue;
    const auto& call = *place.dump.at<FailedCallRecord>(failure.call);
    if (call.api != api) continue;
    bool same_bytes = bytes != 0 && call.bytes == bytes;
    if (!same_bytes && !same_call(paths, failure.path, path, function_at)) continue;
    MadeAgain made_again;
    paths.for_each_live(0, [&](Ref ref, Path made_by, std::uint32_t made) {
      auto* record = place.dump.at<AllocationRecord>(ref);
      if (made > failure.clock) {
        // Skip the retry's own allocation.
        if (made != before || record->api != api) made_again.add(made_by);
        return;
      }
      Ref known = __atomic_load_n(&record->evidence, __ATOMIC_RELAXED);
      if (known == 0 || made_again.contains(made_by)) return;
      const auto& evidence = *place.dump.at<EvidenceRecord>(known);
      if (evidence.failed_call != failure.call) return;
      // A later call outside the owner means that the owner has returned with the failure.
      std::uint64_t owner = cfa_at_depth(paths, made_by, evidence.failed_call_owner);
      if (paths.last_call_outside(made_by, owner, 0) <= failure.clock) unmark(place, record);
    });
    failure = {};
  }
}

}  // namespace culprit
