#include "report/judge/python_caches.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/judge/by_address.h"
#include "report/judge/stack_owners.h"
#include "report/keepers/keepers.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

constexpr std::size_t kListed = 16;
constexpr char kTorchPool[] = "PyTorch caching allocator";
constexpr char kOtherArrays[] = "other arrays and pointers";

// The pools of other frameworks, by the name that the view has for them.
struct PoolName {
  const char* framework;
  const char* pool;  // of judge/pool_rules.cpp
};
constexpr PoolName kPools[] = {
    {"cupy", "CuPy memory pool"},
    {"jax", "XLA BFC allocator"},
};

// The holder of the tensor in a block.
std::string holder_of(const PythonView& view, const PythonView::Block& block) {
  const auto at = at_or_above(view.objects, block.address);
  const bool inside = at != view.objects.end() && at->address - block.address < block.bytes;
  return inside ? at->holders.front() : std::string();
}

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

bool is_in_pool(const ObjectGraph::Memory& memory, const ObjectGraph& graph, const PythonView::Pool& pool) {
  const std::string& name = graph.strings[memory.pool];
  return name == pool.framework || name == pool.framework + ":" + std::to_string(pool.device);
}

// The arrays of the graph in this pool, each memory once, as blocks of `inside`.
void add_keepers_of_pool(const PythonView& view, const PythonView::Pool& pool, CacheInside* inside) {
  std::map<std::uint64_t, std::uint64_t> bytes;  // by address
  for (const ObjectGraph::Memory& memory : view.graph->memory) {
    if (!is_in_pool(memory, *view.graph, pool) || containing(view.segments, memory.address) != view.segments.end())
      continue;
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

// The rows of blocks that no framework counts: what was found is what is live.
void add_found(const ObjectGraph& graph, std::vector<LiveBlock> blocks, CacheInside* inside) {
  inside->kept = find_keepers(graph, std::move(blocks));
  for (const Keeper& keeper : inside->kept) inside->live_bytes += keeper.bytes;
}

// Sums up the pools of libraries that do not count what lives in them (RMM, PyCUDA): by the objects of the view that
// lie in their segments. The memory beside these is idle, or has an owner that is no object of Python.
class UncountedPools {
 public:
  UncountedPools(const PythonView& view, const StackResolver& stacks, StackOwners* owners)
      : view_(view), stacks_(stacks), owners_(*owners) {}

  void add(const format::AllocationRecord& record) {
    const Pool* pool = owners_.pool(stacks_.stack(record.stack));
    if (pool == nullptr || tells_from_inside(pool->name)) return;
    segments_.push_back({record.handle, record.bytes, pool->name});
  }

  void finish(std::vector<CacheInside>* caches) {
    if (segments_.empty() || view_.graph == nullptr) return;
    std::sort(segments_.begin(), segments_.end(),
              [](const Segment& one, const Segment& other) { return one.address < other.address; });
    for (const ObjectGraph::Memory& memory : view_.graph->memory) add_block(memory);
    for (const PythonView::Object& object : view_.objects) add_object(object);
    for (auto& [name, pool] : pools_) {
      CacheInside& inside = pool.inside;
      inside.pool = name;
      inside.taken = view_.taken;
      add_found(*view_.graph, std::move(pool.blocks), &inside);
      const std::uint64_t all = bytes_of(name);
      inside.uncounted_bytes = all - std::min(inside.live_bytes, all);
      keep_largest(&inside);
      caches->push_back(std::move(inside));
    }
  }

 private:
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string pool;
  };
  struct Inside {
    CacheInside inside;
    std::vector<LiveBlock> blocks;
  };

  void add_block(const ObjectGraph::Memory& memory) {
    const auto segment = containing(segments_, memory.address);
    if (segment == segments_.end()) return;
    const std::uint64_t bytes = std::min(memory.bytes, segment->bytes - (memory.address - segment->address));
    pools_[segment->pool].blocks.push_back({{memory.address, bytes}, false});
  }

  void add_object(const PythonView::Object& object) {
    const auto segment = containing(segments_, object.address);
    if (segment == segments_.end() || object.holders.empty()) return;
    pools_[segment->pool].inside.largest.push_back({object.bytes, 1, "", 0, "", object.holders.front()});
  }

  std::uint64_t bytes_of(const std::string& pool) const {
    std::uint64_t bytes = 0;
    for (const Segment& segment : segments_) bytes += segment.pool == pool ? segment.bytes : 0;
    return bytes;
  }

  const PythonView& view_;
  const StackResolver& stacks_;
  StackOwners& owners_;
  std::vector<Segment> segments_;
  std::map<std::string, Inside> pools_;
};

}  // namespace

bool tells_from_inside(const std::string& pool) {
  return pool == kTorchPool ||
         std::any_of(std::begin(kPools), std::end(kPools), [&](const PoolName& one) { return pool == one.pool; });
}

std::vector<CacheInside> look_inside_caches(const PythonView& view, const Dump& dump, const TimeRange& range,
                                            const StackResolver& stacks, StackOwners* owners) {
  std::vector<CacheInside> caches;
  TorchInside torch(view);
  UncountedPools uncounted(view, stacks, owners);
  std::map<std::uint64_t, std::uint64_t> mapped;  // bytes, by the address of the segment
  dump.for_each_allocation([&](const format::AllocationRecord& record, format::Ref) {
    if (!range.has(record.time_ns)) return;
    const auto segment = containing(view.segments, record.handle);
    if (segment == view.segments.end()) return uncounted.add(record);
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
  uncounted.finish(&caches);
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

// Memory of Python's objects in no cache that has a section of its own: arrays of Numba, PyCUDA, RMM and cuda.core, and
// allocations that an object has the address of.
class OtherArrays {
 public:
  explicit OtherArrays(const PythonView& view) : view_(view), graph_(*view.graph) {}

  void finish(std::vector<CacheInside>* caches) {
    find_arrays();
    find_pointers();
    std::vector<LiveBlock> blocks;
    for (const auto& [address, bytes] : blocks_) blocks.push_back({{address, bytes}, false});
    CacheInside inside;
    inside.pool = kOtherArrays;
    inside.taken = view_.taken;
    add_found(graph_, std::move(blocks), &inside);
    if (!graph_.problem.empty()) {
      Keeper unknown;
      unknown.path = graph_.problem;
      inside.kept.push_back(std::move(unknown));
    }
    if (!inside.kept.empty()) caches->push_back(std::move(inside));
  }

 private:
  bool is_cached(const ObjectGraph::Memory& memory) const {
    return containing(view_.segments, memory.address) != view_.segments.end() ||
           std::any_of(view_.pools.begin(), view_.pools.end(),
                       [&](const PythonView::Pool& pool) { return is_in_pool(memory, graph_, pool); });
  }

  void find_arrays() {
    for (const ObjectGraph::Memory& memory : graph_.memory) {
      known_.insert(memory.address);
      std::uint64_t& bytes = blocks_[memory.address];
      bytes = is_cached(memory) ? 0 : std::max(bytes, memory.bytes);
    }
  }

  // Adds the objects with the address of an allocation in which no array is known to the graph's memory.
  void find_pointers() {
    for (const ObjectGraph::Raw& raw : graph_.raw) {
      const auto inside = known_.lower_bound(raw.address);
      const bool has_arrays = inside != known_.end() && *inside - raw.address < raw.bytes;
      if (raw.bytes == 0 || has_arrays || containing(view_.segments, raw.address) != view_.segments.end()) continue;
      graph_.memory.push_back({raw.node, raw.address, raw.bytes, 0});
      blocks_[raw.address] = raw.bytes;
    }
  }

  const PythonView& view_;
  ObjectGraph graph_;
  std::set<std::uint64_t> known_;                  // addresses of arrays
  std::map<std::uint64_t, std::uint64_t> blocks_;  // bytes, by address
};

}  // namespace

std::vector<CacheInside> look_inside_view(const PythonView& view) {
  std::vector<CacheInside> caches = look_inside(view);
  if (view.graph != nullptr) OtherArrays(view).finish(&caches);
  return caches;
}

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
