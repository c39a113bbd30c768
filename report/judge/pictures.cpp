#include "report/judge/pictures.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "interpose/format/device_bytes.h"
#include "report/causes/library_rules.h"
#include "report/judge/pool_rules.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {

using namespace format;

namespace {

bool looks_the_same(const PictureEntry& left, const PictureEntry& right) {
  return left.kind == right.kind && left.api == right.api &&
         std::equal(left.stack->frames.begin(), left.stack->frames.end(), right.stack->frames.begin(),
                    right.stack->frames.end(), [](const Frame* a, const Frame* b) { return a->code == b->code; });
}

// Equal places may have several addresses, as in group_merge.h, so they are added up.
void add(const PictureEntry& entry, std::vector<PictureEntry>* entries) {
  for (PictureEntry& known : *entries) {
    if (!looks_the_same(known, entry)) continue;
    known.bytes += entry.bytes;
    known.count += entry.count;
    return;
  }
  entries->push_back(entry);
}

Picture picture_of(const PictureRecord& record, const Dump& dump, const StackResolver& stacks, const PoolRules& pools) {
  Picture picture;
  picture.out_of_memory = record.reason == PictureReason::kOutOfMemory;
  picture.device = device_of(record.device);
  picture.time_ns = record.time_ns;
  picture.stack = &stacks.stack(record.stack);
  if (picture.out_of_memory) picture.api = api_of(dump, record.api, *picture.stack);
  picture.asked_bytes = record.asked_bytes;
  picture.times = record.times;
  if (record.free_bytes <= record.total_bytes) picture.memory = {record.time_ns, record.free_bytes, record.total_bytes};
  picture.live_bytes = record.live_bytes;
  picture.live_count = record.live_count;
  picture.other_bytes = record.other_bytes;
  picture.other_count = record.other_count;
  picture.other_stacks = record.other_stacks;
  for (const PictureShare& share : record.shares) {
    if (share.count == 0) continue;
    const ResolvedStack& stack = stacks.stack(share.stack);
    const Pool* pool = pools.owning_pool(stack);
    add({&stack, api_of(dump, share.api, stack), share.kind, share.bytes, share.count,
         pool == nullptr ? "" : pool->name},
        &picture.entries);
  }
  std::stable_sort(picture.entries.begin(), picture.entries.end(),
                   [](const PictureEntry& left, const PictureEntry& right) { return left.bytes > right.bytes; });
  return picture;
}

}  // namespace

std::vector<Picture> read_pictures(const std::vector<PictureRecord>& records, const Dump& dump,
                                   const StackResolver& stacks) {
  std::vector<Picture> pictures;
  const PoolRules pools(stacks);
  for (const PictureRecord& record : records) {
    if (record.reason == PictureReason::kPeak || record.reason == PictureReason::kOutOfMemory)
      pictures.push_back(picture_of(record, dump, stacks, pools));
  }
  // A crash may leave two peaks of one device: the higher one comes first and is kept.
  std::stable_sort(pictures.begin(), pictures.end(), [](const Picture& left, const Picture& right) {
    auto order = [](const Picture& one) {
      return std::make_tuple(!one.out_of_memory, one.out_of_memory ? 0 : one.device.value_or(~0U),
                             one.out_of_memory ? ~one.time_ns : ~one.live_bytes);
    };
    return order(left) < order(right);
  });
  const auto same_peak = [](const Picture& left, const Picture& right) {
    return !left.out_of_memory && !right.out_of_memory && left.device == right.device;
  };
  pictures.erase(std::unique(pictures.begin(), pictures.end(), same_peak), pictures.end());
  return pictures;
}

std::vector<Picture> read_freed_at_end(const std::vector<PictureRecord>& records, const Dump& dump,
                                       const StackResolver& stacks) {
  using Key = std::tuple<std::uint8_t, Ref, std::uint16_t, Kind>;
  std::map<Key, std::pair<std::uint64_t, std::uint64_t>> live;  // bytes and number
  const auto ends = [](const PictureRecord& record) { return record.reason == PictureReason::kPythonEnds; };
  if (std::none_of(records.begin(), records.end(), ends)) return {};
  dump.for_each_allocation([&](const AllocationRecord& record, Ref) {
    auto& [bytes, count] = live[{record.device, record.stack, record.api, record.kind}];
    bytes += physical_bytes(record);
    ++count;
  });
  std::vector<Picture> pictures;
  const PoolRules pools(stacks);
  LibraryRules libraries;
  for (PictureRecord record : records) {
    if (!ends(record)) continue;
    for (PictureShare& share : record.shares) {
      const ResolvedStack& stack = stacks.stack(share.stack);
      const auto still = live.find({record.device, share.stack, share.api, share.kind});
      if (still != live.end()) {
        share.bytes -= std::min(share.bytes, still->second.first);
        share.count -= std::min(share.count, still->second.second);
      }
      const bool own = pools.owning_pool(stack) == nullptr && libraries.owning_library(stack).empty();
      if (share.bytes == 0 || !own) share.count = 0;
    }
    // Of stacks outside of the list it is not known how much was freed.
    record.other_bytes = record.other_count = record.other_stacks = 0;
    Picture picture = picture_of(record, dump, stacks, pools);
    picture.live_bytes = picture.live_count = 0;
    for (const PictureEntry& entry : picture.entries) {
      picture.live_bytes += entry.bytes;
      picture.live_count += entry.count;
    }
    if (!picture.entries.empty()) pictures.push_back(std::move(picture));
  }
  std::sort(pictures.begin(), pictures.end(),
            [](const Picture& left, const Picture& right) { return left.device < right.device; });
  return pictures;
}

void add_charges(const std::vector<GpuAnswer>& answers, std::vector<Picture>* pictures) {
  for (Picture& picture : *pictures) {
    if (!picture.out_of_memory || !picture.device) continue;
    const auto first = std::find_if(answers.begin(), answers.end(), [&](const GpuAnswer& answer) {
      return answer.device == *picture.device && answer.charges.asked_ns >= picture.time_ns;
    });
    if (first != answers.end()) picture.charges.push_back(first->charges);
  }
}

}  // namespace culprit::report
