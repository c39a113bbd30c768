#include "report/dump/mark_sums.h"

#include <algorithm>
#include <map>

#include "report/dump/dump_reader.h"

namespace culprit::report {

using format::MarkSumsRecord;

namespace {

// Appends the shares of the blocks from 0 on; false when one is missing.
bool join(std::vector<const MarkSumsRecord*> blocks, MarkSums* sums) {
  std::sort(blocks.begin(), blocks.end(),
            [](const MarkSumsRecord* left, const MarkSumsRecord* right) { return left->block < right->block; });
  const MarkSumsRecord& first = *blocks.front();
  if (first.blocks != blocks.size()) return false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]->block != i) return false;
    const std::uint32_t used = std::min(blocks[i]->used, format::kMarkSumShares);
    for (std::uint32_t share = 0; share < used; ++share) {
      if (blocks[i]->shares[share].count != 0) sums->shares.push_back(blocks[i]->shares[share]);
    }
  }
  sums->mark = first.mark;
  sums->time_ns = first.time_ns;
  sums->number = first.number;
  sums->other_bytes = first.other_bytes;
  sums->other_count = first.other_count;
  return true;
}

}  // namespace

KeptMarkSums read_mark_sums(const Dump& dump) {
  const std::vector<MarkSumsRecord> records = dump.mark_sums();
  std::map<std::uint32_t, std::vector<const MarkSumsRecord*>> by_state;
  for (const MarkSumsRecord& record : records) by_state[record.state].push_back(&record);
  KeptMarkSums kept;
  for (const auto& [state, blocks] : by_state) {
    MarkSums sums;
    if (!join(blocks, &sums)) continue;
    kept.sums.push_back(std::move(sums));
    kept.taken = state;
  }
  return kept;
}

}  // namespace culprit::report
