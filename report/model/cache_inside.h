// A framework's own account of its cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/base/compiled_once.h"
#include "report/model/keeper.h"

namespace culprit::report {

// Why idle memory did not serve a request.
enum class IdleReason : std::uint8_t {
#define IDLE_REASON(enumerator, ...) enumerator,
#include "report/model/idle_reasons.def"
};

const char* idle_reason_name(IdleReason reason);
const char* idle_reason_words(IdleReason reason);

// A framework's report about the segments of its cache, in a Python program.
struct CacheInside {
  CULPRIT_COMPILED_ONCE(CacheInside);
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t live_bytes = 0;
  };
  // Live tensors with the same allocating line and the same holder.
  struct Place {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    std::string file;  // empty: not recorded
    std::uint64_t line = 0;
    std::string function;
    std::string held_by;  // described in words; empty: not known
  };
  struct Idle {
    IdleReason why = IdleReason::kNotKnown;
    std::uint64_t bytes = 0;
    std::uint64_t largest = 0;  // the largest block
  };
  std::string pool;   // the name of the Pool
  std::string taken;  // "exit": when the interpreter began to end; "snapshot"; "out-of-memory"
  std::uint64_t live_bytes = 0;
  std::uint64_t idle_bytes = 0;
  std::uint64_t uncounted_bytes = 0;  // idle, or live without an object of Python: the pool does not count them
  std::vector<Segment> segments;      // those that are also in the dump; empty: only the sums are known
  std::vector<Place> largest;         // largest first
  std::vector<Keeper> kept;           // largest first, they add up to `live_bytes`; empty: the view has no graph
  std::vector<Idle> idle;             // at the moment at which memory ran out, of one device; most bytes first
  std::string hint;                   // how to get more detail; empty: there is no more
};

// The cache of the same pool at the same kind of moment; nullptr: there is none.
const CacheInside* same_cache(const std::vector<CacheInside>& caches, const CacheInside& wanted);

}  // namespace culprit::report
