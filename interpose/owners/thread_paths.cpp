#include "interpose/owners/thread_paths.h"

#include "interpose/system/own_memory.h"

namespace culprit {

ThreadPaths* ThreadPaths::create(DumpWriter& dump) {
  int error = 0;
  auto* paths = static_cast<ThreadPaths*>(map_private(sizeof(ThreadPaths), &error));
  if (paths == nullptr) return nullptr;
  paths->dump_ = &dump;
  paths->clear();
  return paths;
}

void ThreadPaths::clear() {
  index_.clear();
  made_.clear();
  clock_ = active_count_ = epoch_ = entries_when_full_ = next_flight_ = 0;
  verdicts_generation_ = ~0U;  // the next use clears the verdicts
  seen_mask_ = ~0U;
  node_count_ = path_count_ = 1;  // 0 is none
  paths_[0] = {};
  for (Flight& flight : flights_) flight = {};
}

void ThreadPaths::destroy() {
  index_.free_memory();
  made_.free_memory();
  unmap_private(this, sizeof(*this));
}

ThreadPaths::Node ThreadPaths::add_node(Node outer, std::uint64_t address, std::uint64_t pointer, bool cut) {
  std::uint64_t words[] = {outer, address, pointer, cut ? 1U : 0U};
  std::uint64_t key = hash_words(words, 4, 0);
  HashIndex::Entry* known = index_.find(key, [&](const HashIndex::Entry& entry) {
    const NodeData& node = nodes_[entry.value];
    return node.outer == outer && node.address == address && node.pointer == pointer && node.cut == cut;
  });
  if (known != nullptr) return known->value;
  if (node_count_ == kNodes || !index_.insert(key, node_count_, 0)) return 0;
  nodes_[node_count_] = {
      address, pointer, outer, 0, static_cast<std::uint16_t>(outer == 0 ? 1 : nodes_[outer].depth + 1), cut};
  return node_count_++;
}

ThreadPaths::Path ThreadPaths::add_path(const std::uint64_t* addresses, const std::uint64_t* pointers, int count,
                                        bool cut) {
  Node node = 0;
  for (int i = count - 1; i >= 0; --i) {
    node = add_node(node, addresses[i], pointers[i], cut);
    if (node == 0) return 0;
  }
  if (node == 0 || nodes_[node].path != 0) return nodes_[node].path;
  if (path_count_ == kPaths) return 0;
  paths_[path_count_] = {node, 0, 0, 0};
  return nodes_[node].path = path_count_++;
}

ThreadPaths::Path ThreadPaths::intern(const RawStack& stack, const std::uint64_t* pointers) {
  Path path = add_path(stack.frames, pointers, stack.count, stack.truncated);
  if (path != 0 || stack.count == 0) return path;
  // The tables are full. Renumbering helps if most paths have no live allocations; it does not help again directly
  // afterwards.
  drop_ended();
  if (entries_when_full_ != 0 && made_.count() > entries_when_full_ / 2) return 0;
  renumber();
  entries_when_full_ = made_.count() + 1;
  return add_path(stack.frames, pointers, stack.count, stack.truncated);
}

void ThreadPaths::make_room() {
  on_own_stack([this] { make_room_here(); });
}

void ThreadPaths::make_room_here() {
  // A look at all packed entries takes long: only when they would need more memory.
  const bool needs_memory = made_.needs_memory();
  if (!made_.has_packed() || needs_memory) {
    drop_ended();
  } else {
    made_.drop_recent([this](const MadeEntry& entry) { return lives(entry); });
  }
  made_.make_room(needs_memory);
}

void ThreadPaths::drop_ended() {
  for (std::uint32_t i = 0; i < active_count_; ++i) paths_[active_[i]].newest = 0;
  active_count_ = 0;
  made_.drop_all([this](const MadeEntry& entry) { return lives(entry); },
                 [this](const MadeEntry& entry) {
                   PathData& data = paths_[entry.path];
                   if (data.newest != 0) return;
                   active_[active_count_++] = entry.path;
                   data.newest = entry.clock;
                 });
  // The paths that made something last stand last.
  for (std::uint32_t i = 0; i < active_count_ / 2; ++i) {
    const Path other = active_[i];
    active_[i] = active_[active_count_ - 1 - i];
    active_[active_count_ - 1 - i] = other;
  }
}

// Builds the tree anew from the paths that have entries. An exception in flight loses its path: no allocation is
// attributed to it.
void ThreadPaths::renumber() {
  int error = 0;
  auto* old = static_cast<NodeData*>(map_private(sizeof(nodes_) + sizeof(paths_), &error));
  if (old == nullptr) return;
  auto* old_paths = reinterpret_cast<PathData*>(old + kNodes);
  for (Node i = 0; i < node_count_; ++i) old[i] = nodes_[i];
  for (Path i = 0; i < path_count_; ++i) old_paths[i] = paths_[i];
  index_.clear();
  node_count_ = path_count_ = 1;
  ++epoch_;
  for (Verdict& verdict : verdicts_) verdict.thrown = 0;
  for (std::uint32_t i = 0; i < active_count_; ++i) {
    std::uint64_t addresses[kMaxStackDepth];
    std::uint64_t pointers[kMaxStackDepth];
    int count = 0;
    const PathData data = old_paths[active_[i]];
    bool cut = old[data.innermost].cut;
    for (Node node = data.innermost; node != 0 && count < kMaxStackDepth; node = old[node].outer) {
      addresses[count] = old[node].address;
      pointers[count++] = old[node].pointer;
    }
    Path path = add_path(addresses, pointers, count, cut);  // fits, as it did before
    paths_[path] = {paths_[path].innermost, data.seen, data.newest, data.settled};
    old_paths[active_[i]].innermost = path;  // from now on: its new number
    active_[i] = path;
  }
  for (MadeList::Walk walk(made_); walk.next();) made_.set_path(walk.place(), old_paths[walk.entry().path].innermost);
  unmap_private(old, sizeof(nodes_) + sizeof(paths_));
}

// After 2^32 hook calls. Live allocations count as judged, or are forgotten: they are not attributed to later
// exceptions.
void ThreadPaths::restart_clock() {
  on_own_stack([this] { restart_clock_here(); });
}

void ThreadPaths::restart_clock_here() {
  clock_ = 2;
  for (Path path = 0; path < path_count_; ++path) {
    PathData& data = paths_[path];
    data.seen = 1;
    data.newest = data.newest != 0 ? 1 : 0;
    data.settled = 1;
  }
  made_.set_clocks(1);
  for (Flight& flight : flights_) flight = {};
  seen_mask_ = ~0U;
}

ThreadPaths::Common ThreadPaths::find_common(Path path_a, Path path_b) const {
  Node a = paths_[path_a].innermost;
  Node b = paths_[path_b].innermost;
  bool cut = nodes_[a].cut || nodes_[b].cut;
  Common common = {0, 0, 0, 0};
  while (a != 0 && b != 0) {
    const NodeData& at_a = nodes_[a];
    const NodeData& at_b = nodes_[b];
    // If the outermost frames are not known, the same address at the same place is enough.
    if (a == b || (cut && at_a.pointer == at_b.pointer && at_a.address == at_b.address)) {
      common.a = a;
      common.b = b;
      return common;
    }
    if (at_a.pointer <= at_b.pointer) {
      common.a_inner = a;
      a = at_a.outer;
    }
    if (at_b.pointer <= at_a.pointer) {
      common.b_inner = b;
      b = at_b.outer;
    }
  }
  return {0, 0, 0, 0};
}

bool ThreadPaths::newest_lives(Path path) const {
  for (MadeList::Walk walk(made_); walk.next() && walk.entry().clock >= paths_[path].newest;) {
    if (walk.entry().path == path) return lives(walk.entry());
  }
  return false;
}

std::uint32_t ThreadPaths::last_call_outside(Path path, std::uint64_t owner_cfa, std::uint32_t least) const {
  if (owner_cfa == kOutermost) return 0;
  Node caller = paths_[path].innermost;
  while (caller != 0 && nodes_[caller].pointer != owner_cfa) caller = nodes_[caller].outer;
  std::uint32_t since = least;
  if (caller == 0) return since;  // the stack was truncated inside it
  for (Path other = 1; other < path_count_; ++other) {
    if (paths_[other].seen <= since) continue;
    Node node = paths_[other].innermost;
    while (node != 0 && nodes_[node].pointer < owner_cfa) node = nodes_[node].outer;
    // A stack that was truncated before that frame proves nothing.
    bool passes = node == 0 ? nodes_[paths_[other].innermost].cut
                            : node == caller ||
                                  (nodes_[node].pointer == owner_cfa && nodes_[node].address == nodes_[caller].address);
    if (!passes) since = paths_[other].seen;
  }
  return since;
}

void ThreadPaths::look_in_frames(Path path, const std::uint64_t* begin, const std::uint64_t* end) {
  constexpr int kMostEntries = 64;
  constexpr std::uint32_t kMostSteps = 4096;
  constexpr std::int64_t kMostWords = 8192;
  MadeList::Place found[kMostEntries];
  std::uint64_t handles[kMostEntries];
  std::uint64_t smallest = ~0ULL;
  std::uint64_t largest = 0;
  int count = 0;
  MadeList::Walk walk(made_);
  for (std::uint32_t steps = 0; steps < kMostSteps && count < kMostEntries && walk.next(); ++steps) {
    const MadeEntry& entry = walk.entry();
    if (entry.clock <= paths_[path].settled) break;
    if (entry.path != path || !lives(entry)) continue;
    made_.set_in_frames(walk.place(), false);
    found[count] = walk.place();
    std::uint64_t handle = handles[count++] = dump_->at<format::AllocationRecord>(entry.record)->handle;
    if (handle < smallest) smallest = handle;
    if (handle > largest) largest = handle;
  }
  if (count < 2) return;
  if (end - begin > kMostWords) begin = end - kMostWords;
  for (const std::uint64_t* word = begin; word < end; ++word) {
    std::uint64_t value = *const_cast<const volatile std::uint64_t*>(word);
    for (int i = 0; value >= smallest && value <= largest && i < count; ++i) {
      if (handles[i] == value) made_.set_in_frames(found[i], true);
    }
  }
}

bool ThreadPaths::has_unsettled(Path path, std::uint32_t since, std::uint32_t clock) {
  std::uint32_t oldest = since > paths_[path].settled ? since : paths_[path].settled;
  for (MadeList::Walk walk(made_); walk.next() && walk.entry().clock > oldest;) {
    const MadeEntry& entry = walk.entry();
    if (entry.path == path && entry.clock <= clock && lives(entry)) return true;
  }
  paths_[path].settled = clock_;
  return false;
}

Flight* ThreadPaths::flight_of(const void* object) {
  for (Flight& flight : flights_) {
    if (flight.object == object) return &flight;
  }
  return nullptr;
}

Flight* ThreadPaths::begin_flight(const void* object, Path path, format::Ref stack) {
  Flight* flight = flight_of(object);
  if (flight == nullptr) flight = &flights_[next_flight_++ % kFlights];
  *flight = {object, path, epoch_, clock_, stack, true, false};
  seen_mask_ = 0;
  return flight;
}

void ThreadPaths::end_flight(Flight* flight) {
  flight->flying = false;
  seen_mask_ = ~0U;
  for (const Flight& other : flights_) {
    if (other.flying) seen_mask_ = 0;
  }
}

ThreadPaths::Verdict* ThreadPaths::verdict(Path path, Path thrown, Path caught) {
  std::uint64_t hash =
      (path * 0x9e3779b97f4a7c15ULL) ^ (thrown * 0xff51afd7ed558ccdULL) ^ (caught * 0xc4ceb9fe1a85ec53ULL);
  return &verdicts_[hash >> 32 & (kVerdicts - 1)];
}

void ThreadPaths::forget_verdicts(std::uint32_t generation) {
  if (verdicts_generation_ == generation) return;
  verdicts_generation_ = generation;
  for (Verdict& verdict : verdicts_) verdict.thrown = 0;
}

}  // namespace culprit
