#include "report/judge/python_caches.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/judge/stack_owners.h"
#include "report/keepers/heap_paths.h"
#include "report/keepers/keeper_words.h"
#include "report/keepers/keepers.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

constexpr std::size_t kListed = 16;
constexpr char kTorchPool[] = "PyTorch caching allocator";

// The pools of other frameworks, by the name that the view has for them.
struct PoolName {
  const char* framework;
  const char* pool;  // of judge/pool_rules.cpp
};
constexpr PoolName kPools[] = {
    {"cupy", "CuPy memory pool"},
    {"jax", "XLA BFC allocator"},
};

// The first element of a sorted list at this address or above.
template <typename List>
auto at_or_above(const List& list, std::uint64_t address) {
  return std::lower_bound(list.begin(), list.end(), address,
                          [](const auto& one, std::uint64_t wanted) { return one.address < wanted; });
}

// The segment that contains this address.
std::vector<PythonView::Segment>::const_iterator containing(const std::vector<PythonView::Segment>& segments,
                                                            std::uint64_t address) {
  auto behind = std::upper_bound(segments.begin(), segments.end(), address,
                                 [](std::uint64_t wanted, const auto& one) { return wanted < one.address; });
  if (behind == segments.begin()) return segments.end();
  --behind;
  return address - behind->address < behind->bytes ? behind : segments.end();
}

template <typename List>
bool has_address(const List& list, std::uint64_t address) {
  const auto at = at_or_above(list, address);
  return at != list.end() && at->address == address;
}

// The holder of the tensor in a block.
std::string holder_of(const PythonView& view, const PythonView::Block& block) {
  const auto at = at_or_above(view.objects, block.address);
  const bool inside = at != view.objects.end() && at->address - block.address < block.bytes;
  return inside ? at->holders.front() : std::string();
}

// How good an answer a holder is, the best first.
enum class HolderRank { kVariable, kGarbage, kList };

// The name of an object that has an address, by address: of the shortest way from a variable of the program, or of a
// reference cycle. A package's own list has each address, and is named where nothing else has it.
class NamedAddresses {
 public:
  explicit NamedAddresses(const ObjectGraph& graph) : paths_(graph, {}) {
    // An array says more than a number in it, where both are as good.
    for (const ObjectGraph::Memory& memory : graph.memory) add(memory.node, memory.address);
    for (const ObjectGraph::Raw& raw : graph.raw) add(raw.node, raw.address);
  }

  std::map<std::uint64_t, std::string> names() const {
    std::map<std::uint64_t, std::string> found;
    for (const auto& [address, holder] : holders_) {
      found[address] = holder.rank == HolderRank::kGarbage
                           ? "a reference cycle with a " + paths_.graph().strings[holder.type] +
                                 " that no variable reaches (gc.collect() frees it)"
                           : words_of(paths_, holder.way, 0).text;
    }
    return found;
  }

 private:
  struct Holder {
    HolderRank rank = HolderRank::kList;
    HeapPaths::Path way;
    std::uint32_t type = 0;  // in a reference cycle: of the object, a string of the graph
  };

  void add(std::uint32_t object, std::uint64_t address) {
    const std::uint32_t node = HeapPaths::node_of_object(object);
    if (paths_.reach(node) == Reach::kVariable) {
      HeapPaths::Path way = paths_.path_to(node);
      const bool list = way.front()->cost == HeapPaths::kCostOfList;
      take(address, {list ? HolderRank::kList : HolderRank::kVariable, std::move(way)});
    }
    const ObjectGraph::Node* cycle = paths_.holder_in_cycle(node);
    if (cycle != nullptr) take(address, {HolderRank::kGarbage, {}, cycle->type});
  }

  void take(std::uint64_t address, Holder holder) {
    const auto [at, is_new] = holders_.try_emplace(address, std::move(holder));
    if (is_new) return;
    Holder& best = at->second;
    if (std::make_tuple(holder.rank, holder.way.size()) < std::make_tuple(best.rank, best.way.size()))
      best = std::move(holder);
  }

  HeapPaths paths_;
  std::map<std::uint64_t, Holder> holders_;
};

// Finds the holder of an allocation in a view.
class PythonHolders {
 public:
  PythonHolders(const PythonView& view, const StackResolver& stacks, StackOwners* owners)
      : view_(view), stacks_(stacks), owners_(*owners) {
    if (view.graph != nullptr) by_address_ = NamedAddresses(*view.graph).names();
  }

  // nullptr: no object holds it, or it belongs to a caching allocator.
  const std::string* of(const format::AllocationRecord& record) const {
    const auto at = at_or_above(view_.objects, record.handle);
    const bool listed = at != view_.objects.end() && at->address == record.handle && at->bytes <= record.bytes;
    const auto named = by_address_.find(record.handle);
    if ((!listed && named == by_address_.end()) || has_address(view_.segments, record.handle) ||
        owners_.pool(stacks_.stack(record.stack)) != nullptr)
      return nullptr;
    return named != by_address_.end() ? &named->second : &at->holders.front();
  }

 private:
  const PythonView& view_;
  const StackResolver& stacks_;
  StackOwners& owners_;
  std::map<std::uint64_t, std::string> by_address_;
};

}  // namespace

void add_python_holders(const PythonView& view, const Dump& dump, const StackResolver& stacks, StackOwners* owners,
                        Tables* tables, std::deque<Variable>* variables) {
  static const Module kPython = [] {
    Module module;
    module.path = module.name = "Python";
    return module;
  }();
  const PythonHolders holders(view, stacks, owners);
  std::map<std::string, const Variable*> known;
  dump.for_each_allocation([&](const format::AllocationRecord& record, format::Ref ref) {
    const std::string* holder = holders.of(record);
    if (holder == nullptr) return;
    const Variable*& variable = known[*holder];
    if (variable == nullptr) {
      variables->push_back({&kPython, *holder, 0, true});
      variable = &variables->back();
    }
    tables->held.push_back({ref, record.state >> format::kStateBits, 0, variable});
  });
  // For memory that a global holds, too, the global comes first, and what leads to it through the heap last.
  std::stable_sort(tables->held.begin(), tables->held.end(), [](const Held& left, const Held& right) {
    return std::make_tuple(left.allocation, left.heap.step != 0) <
           std::make_tuple(right.allocation, right.heap.step != 0);
  });
}

namespace {

void keep_largest(CacheInside* inside) {
  std::stable_sort(inside->largest.begin(), inside->largest.end(),
                   [](const auto& left, const auto& right) { return left.bytes > right.bytes; });
  if (inside->largest.size() > kListed) inside->largest.resize(kListed);
}

// Adds a row for the bytes that the framework counts and no keeper has, so that the rows add up.
void fit_keepers(std::vector<Keeper> keepers, CacheInside* inside) {
  inside->kept = std::move(keepers);
  std::uint64_t known = 0;
  for (const Keeper& keeper : inside->kept) known += keeper.bytes;
  if (known >= inside->live_bytes) return;
  Keeper rest;
  rest.bytes = inside->live_bytes - known;
  rest.path = "the framework did not list it";
  inside->kept.push_back(std::move(rest));
}

// Sums up PyTorch's segments.
class TorchInside {
 public:
  explicit TorchInside(const PythonView& view) : view_(view) {
    inside_.pool = kTorchPool;
    inside_.taken = view.taken;
    inside_.hint = "culprit run --torch-history shows the Python line of each tensor";
  }

  void add(const PythonView::Segment& segment) {
    if (!added_.insert(segment.address).second) return;
    inside_.live_bytes += segment.live_bytes;
    pending_bytes_ += segment.pending_bytes;
    inside_.idle_bytes += segment.bytes - segment.live_bytes;
    inside_.segments.push_back({segment.address, segment.bytes, segment.live_bytes});
    for (const PythonView::Block& block : segment.blocks) {
      blocks_.push_back({{block.address, block.bytes}, segment.private_pool});
      if (!block.file.empty()) inside_.hint.clear();
      const std::string holder = holder_of(view_, block);
      if (block.file.empty() && holder.empty()) continue;
      CacheInside::Place& place = places_[{block.file, block.line, block.function, holder}];
      place.bytes += block.bytes;
      ++place.count;
    }
  }

  void finish(std::vector<CacheInside>* caches) {
    if (inside_.segments.empty()) return;
    for (auto& [key, place] : places_) {
      std::tie(place.file, place.line, place.function, place.held_by) = key;
      inside_.largest.push_back(std::move(place));
    }
    keep_largest(&inside_);
    if (view_.graph != nullptr) add_keepers();
    caches->push_back(std::move(inside_));
  }

 private:
  void add_keepers() {
    fit_keepers(find_keepers(*view_.graph, blocks_), &inside_);
    if (pending_bytes_ != 0) {
      Keeper pending;
      pending.kind = KeeperKind::kPending;
      pending.bytes = pending_bytes_;
      pending.path = "freed, but another stream may still use it";
      inside_.kept.push_back(std::move(pending));
    }
  }

  const PythonView& view_;
  CacheInside inside_;
  std::vector<LiveBlock> blocks_;
  std::uint64_t pending_bytes_ = 0;
  std::set<std::uint64_t> added_;  // a damaged dump may have an allocation many times
  std::map<std::tuple<std::string, std::uint64_t, std::string, std::string>, CacheInside::Place> places_;
};

// The arrays of the graph in this pool, each memory once, as blocks of `inside`.
void add_keepers_of_pool(const PythonView& view, const PythonView::Pool& pool, CacheInside* inside) {
  const std::string exact = pool.framework + ":" + std::to_string(pool.device);
  std::map<std::uint64_t, std::uint64_t> bytes;  // by address
  for (const ObjectGraph::Memory& memory : view.graph->memory) {
    const std::string& name = view.graph->strings[memory.pool];
    const bool in_pool = name == exact || name == pool.framework;
    if (!in_pool || containing(view.segments, memory.address) != view.segments.end()) continue;
    bytes[memory.address] = std::max(bytes[memory.address], memory.bytes);
  }
  std::vector<LiveBlock> blocks;
  blocks.reserve(bytes.size());
  for (const auto& [address, size] : bytes) blocks.push_back({{address, size}, false});
  fit_keepers(find_keepers(*view.graph, std::move(blocks)), inside);
}

std::vector<CacheInside::Place> largest_objects(const PythonView& view, const std::string& framework) {
  CacheInside all;
  all.largest.reserve(view.objects.size());
  for (const PythonView::Object& object : view.objects) {
    if (object.type.compare(0, framework.size() + 1, framework + ".") == 0 && !object.holders.empty())
      all.largest.push_back({object.bytes, 1, "", 0, "", object.holders.front()});
  }
  keep_largest(&all);
  return {all.largest.begin(), all.largest.end()};  // without the room of the others
}

void add_pools(const PythonView& view, std::vector<CacheInside>* caches) {
  std::map<std::string, std::vector<CacheInside::Place>> largest;
  for (const PythonView::Pool& pool : view.pools) {
    const auto known = std::find_if(std::begin(kPools), std::end(kPools),
                                    [&](const PoolName& one) { return pool.framework == one.framework; });
    if (known == std::end(kPools) || pool.used_bytes > pool.total_bytes) continue;
    const auto [arrays, added] = largest.try_emplace(pool.framework);
    if (added) arrays->second = largest_objects(view, pool.framework);
    CacheInside inside;
    inside.largest = arrays->second;
    inside.pool = known->pool;
    inside.taken = view.taken;
    inside.live_bytes = pool.used_bytes;
    inside.idle_bytes = pool.total_bytes - pool.used_bytes;
    if (view.graph != nullptr) add_keepers_of_pool(view, pool, &inside);
    caches->push_back(std::move(inside));
  }
}

}  // namespace

bool tells_from_inside(const std::string& pool) {
  return pool == kTorchPool ||
         std::any_of(std::begin(kPools), std::end(kPools), [&](const PoolName& one) { return pool == one.pool; });
}

std::vector<CacheInside> look_inside_caches(const PythonView& view, const Dump& dump, const TimeRange& range) {
  std::vector<CacheInside> caches;
  TorchInside torch(view);
  std::map<std::uint64_t, std::uint64_t> mapped;  // bytes, by the address of the segment
  dump.for_each_allocation([&](const format::AllocationRecord& record, format::Ref) {
    if (!range.has(record.time_ns)) return;
    const auto segment = containing(view.segments, record.handle);
    if (segment == view.segments.end()) return;
    if (record.kind == format::Kind::kVmmMapping) {
      mapped[segment->address] += record.extra;
    } else if (segment->address == record.handle && segment->bytes == record.bytes) {
      torch.add(*segment);
    }
  });
  // PyTorch's expandable segments consist of many adjacent mappings of physical memory.
  for (const auto& [address, bytes] : mapped) {
    const auto segment = containing(view.segments, address);
    if (segment->bytes == bytes) torch.add(*segment);
  }
  torch.finish(&caches);
  add_pools(view, &caches);
  return caches;
}

namespace {

// The view of that moment: the program may have ended before it took another one.
const PythonView* view_of_ran_out(const PythonView& view) {
  if (!view.ran_out.empty()) return &view.ran_out.front();
  return view.taken == "out-of-memory" ? &view : nullptr;
}

// Why PyTorch did not take the largest idle block of the segment for `asked` bytes (0: not known).
IdleReason idle_reason(const PythonView::Segment& segment, std::uint64_t asked) {
  constexpr std::uint64_t kSmall = 2 << 20;  // asked of the driver for a tensor of up to 1 MiB
  if (segment.private_pool) return IdleReason::kPrivatePool;
  if (segment.small && asked > kSmall) return IdleReason::kSmallPool;
  if (segment.largest_idle == 0 || asked == 0) return IdleReason::kNotKnown;
  return segment.largest_idle < asked ? IdleReason::kHoles : IdleReason::kOtherStream;
}

void add_idle(IdleReason why, std::uint64_t bytes, std::uint64_t largest, CacheInside* inside) {
  if (bytes == 0) return;
  for (CacheInside::Idle& idle : inside->idle) {
    if (idle.why != why) continue;
    idle.bytes += bytes;
    idle.largest = std::max(idle.largest, largest);
    return;
  }
  inside->idle.push_back({why, bytes, largest});
}

void explain_idle(const PythonView& view, std::uint64_t asked, CacheInside* inside) {
  for (const PythonView::Segment& segment : view.segments) {
    const std::uint64_t idle = segment.bytes - segment.live_bytes - segment.pending_bytes;
    add_idle(idle_reason(segment, asked), idle, std::min(segment.largest_idle, idle), inside);
    add_idle(IdleReason::kPending, segment.pending_bytes, 0, inside);
  }
  std::stable_sort(inside->idle.begin(), inside->idle.end(),
                   [](const auto& left, const auto& right) { return left.bytes > right.bytes; });
}

std::vector<CacheInside> look_inside(const PythonView& then) {
  std::vector<CacheInside> caches;
  TorchInside torch(then);
  for (const PythonView::Segment& segment : then.segments) torch.add(segment);
  torch.finish(&caches);
  add_pools(then, &caches);
  return caches;
}

}  // namespace

std::vector<CacheInside> look_inside_view(const PythonView& view) { return look_inside(view); }

std::vector<CacheInside> look_inside_ran_out(const PythonView& view) {
  return view.ran_out.empty() ? std::vector<CacheInside>() : look_inside(view.ran_out.front());
}

std::vector<CacheInside> look_inside_ran_out(const PythonView& view, unsigned device, std::uint64_t asked_bytes) {
  const PythonView* whole = view_of_ran_out(view);
  if (whole == nullptr) return {};
  PythonView then = *whole;
  const auto elsewhere = [device](const auto& one) { return one.device != device; };
  then.segments.erase(std::remove_if(then.segments.begin(), then.segments.end(), elsewhere), then.segments.end());
  then.pools.erase(std::remove_if(then.pools.begin(), then.pools.end(), elsewhere), then.pools.end());
  std::vector<CacheInside> caches = look_inside(then);
  for (CacheInside& inside : caches) {
    inside.segments.clear();
    if (inside.pool == kTorchPool) {
      explain_idle(then, asked_bytes, &inside);
    } else {
      add_idle(IdleReason::kNotKnown, inside.idle_bytes, 0, &inside);
    }
  }
  return caches;
}

}  // namespace culprit::report
