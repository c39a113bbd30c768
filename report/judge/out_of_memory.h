// An allocation that failed with out of memory, explained: the lines that held memory, the largest first; idle memory
// and why it did not serve; what other processes had; and under which condition the allocation would have fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/format/kinds.h"
#include "report/model/balance.h"
#include "report/model/breakdown.h"

namespace culprit::report {

struct Frame;

// A place that calls a line: the first at which the stacks of the line differ.
struct LineCaller {
  const Frame* frame = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

enum class LineOf : std::uint8_t {
  kAllocations,  // of the driver
  kSegments,     // a cache's, by the line that made it grow
  kTensors,      // inside a cache
};

// Live memory of one line.
struct HolderLine {
  LineOf what = LineOf::kAllocations;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  // 0: not known
  // Allocations and segments: of the stack with the most bytes.
  std::string api;
  format::Kind kind = format::Kind::kNone;
  const ResolvedStack* stack = nullptr;
  const Frame* frame = nullptr;     // nullptr: not known
  std::vector<LineCaller> callers;  // most bytes first; empty: all have one caller
  std::string pool;                 // segments and tensors
  // Tensors: as in CacheInside::Place.
  std::string file;
  std::uint64_t line = 0;
  std::string function;
  std::string held_by;
};

// Idle memory of the driver's pools or of a framework's cache.
struct IdleMemory {
  std::string name;  // "PyTorch caching allocator", or the words of the balance
  BalancePart part = BalancePart::kCached;
  std::uint64_t bytes = 0;
  const CacheInside* cache = nullptr;
};

struct OutOfMemory {
  const Breakdown* breakdown = nullptr;
  const Balance* balance = nullptr;  // of that moment; nullptr: not known
  std::vector<HolderLine> lines;     // most bytes first
  std::vector<IdleMemory> idle;      // most bytes first
  // Other processes had at most this. The first context of the process is part of it, because memory in use can only be
  // read in a context.
  std::uint64_t others_at_most = 0;
  const char* rule = "";      // of would_fit.def
  std::string would_fit;      // "would have fit without ...", or another sentence
  std::uint64_t missing = 0;  // bytes that were asked for and not free
};

// The place of a line, "train.py:4  step", or what holds it.
std::string line_place(const HolderLine& line);

}  // namespace culprit::report
