#include "interpose/events/graph_launches.h"

#include "interpose/call_stack/current_stack.h"
#include "interpose/events/probes.h"
#include "interpose/events/record_ends.h"
#include "interpose/owners/thread_paths.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

bool has_graph_memory() {
  Process* process = process_if_recording();
  return process != nullptr && process->tables.graphs.any();
}

bool is_physical(const AllocationRecord& record) { return (record.flags & format::kFlagNotPhysical) == 0; }

// The record of the memory at a node's address; nullptr when there is none. The node's own record may belong to another
// allocation by now: when the memory's graph was destroyed and another one got the address.
AllocationRecord* record_of(Process& process, const GraphNodes::Node& node) {
  auto* record = process.dump.at<AllocationRecord>(node.record);
  auto is_it = [&] { return record->kind == Kind::kGraphMemory && record->handle == node.address; };
  constexpr std::uint32_t kStates = (1U << format::kStateBits) - 1;
  const auto state = static_cast<format::AllocationState>(__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) & kStates);
  if (is_it() && state != format::AllocationState::kEmpty) return record;
  if (!node.frees) return nullptr;
  const Ref ref = process.tables.live.find(kGraphMemorySpace, node.address, format::kNoDevice, process.dump);
  if (ref == 0) return nullptr;
  record = process.dump.at<AllocationRecord>(ref);
  return is_it() ? record : nullptr;
}

// The changes of the live bytes of each device by a launch. A growth may take a balance, which asks the driver: so it
// is applied once the table is unlocked.
class LiveChanges {
 public:
  void grow(const AllocationRecord& record) { add(grown_, record); }
  void shrink(const AllocationRecord& record) { add(shrunk_, record); }
  // The peak is of all allocations of the launch before any of its frees.
  void apply(Process& process) const {
    for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal) change(process, ordinal, grown_[ordinal]);
    for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal) change(process, ordinal, -shrunk_[ordinal]);
  }

 private:
  static void add(std::int64_t* bytes, const AllocationRecord& record) {
    if (record.device < ContextTable::kMostDevices) bytes[record.device] += static_cast<std::int64_t>(record.bytes);
  }
  static void change(Process& process, int ordinal, std::int64_t bytes) {
    if (bytes == 0) return;
    change_live_bytes(process, static_cast<std::uint8_t>(ordinal), Kind::kGraphMemory, bytes);
  }

  std::int64_t grown_[ContextTable::kMostDevices] = {};
  std::int64_t shrunk_[ContextTable::kMostDevices] = {};
};

void allocate(Process& process, AllocationRecord& record, Ref stack, std::uint64_t now, LiveChanges* changes) {
  // The first allocation was counted when the node was made.
  if (record.launched.times != 0)
    count_allocation(thread_state.dump.counters, record.stack, record.bytes, process.dump);
  if (is_physical(record)) {
    count_free(thread_state.dump.counters, process.dump);  // by the launch itself
    probe_free(record, 0);
  } else {
    changes->grow(record);
    graph_bytes_of(process).change(record.device, static_cast<std::int64_t>(record.bytes));
  }
  record.launched.stack = stack;
  if (record.launched.times != ~std::uint32_t{0}) ++record.launched.times;
  record.time_ns = now;
  set_record_flags(record, 0, format::kFlagNotPhysical);
  probe_allocation(record, 0);
}

void release(Process& process, AllocationRecord& record, Ref stack, LiveChanges* changes) {
  if (!is_physical(record)) return;
  probe_free(record, 0);
  changes->shrink(record);
  graph_bytes_of(process).change(record.device, -static_cast<std::int64_t>(record.bytes));
  record.launched.stack = stack;
  record.evidence = 0;  // of why the memory of that launch was not freed
  set_record_flags(record, format::kFlagNotPhysical, format::kFlagFreeFailed);
}

// No launch will allocate the memory of this node again. Memory that is not there goes without a trace, other memory
// stays until it is freed.
void forget_node(Process& process, const GraphNodes::Node& node) {
  AllocationRecord* record = record_of(process, node);
  if (record == nullptr) return;
  set_record_flags(*record, 0, format::kFlagInGraph);
  if (is_physical(*record)) return;
  const std::uint8_t device = record->device;
  const Ref ref = process.tables.live.take(
      kGraphMemorySpace, node.address, [&] { return device; }, process.dump);
  if (ref == 0) return;  // it is being freed at this moment
  if (ref != node.record) {
    process.tables.live.put_back(ref, process.dump);
    return;
  }
  if (record->launched.times == 0) count_free(thread_state.dump.counters, process.dump);
  count_gone(process, record->thread);
  if (thread_state.paths.all != nullptr) thread_state.paths.all->ended(ref);
  process.tables.live.retire(ref, process.dump, {}, own_records());
}

// Calls work(process, nodes, forget) with the table locked.
template <typename Work>
void with_nodes(Work work) {
  with_graph_nodes([&](Process& process, GraphNodes& nodes) {
    work(process, nodes, [&](const GraphNodes::Node& node) { forget_node(process, node); });
  });
}

}  // namespace

void note_child_moved(std::uint64_t child, std::uint64_t graph) {
  if (!has_graph_memory()) return;
  with_nodes([&](Process& process, GraphNodes& nodes, auto) {
    if (!nodes.moved(child, graph)) add_counter(process.dump.header()->dropped_others, 1);
  });
}

void note_capture_ended(std::uint64_t graph) {
  if (!has_graph_memory()) return;
  with_nodes([&](Process& process, GraphNodes& nodes, auto forget) {
    if (graph != 0) {
      nodes.end_capture(graph);
    } else if (!has_captures(process)) {
      nodes.captures_failed(forget);
    }
  });
}

void note_executable(std::uint64_t exec, std::uint64_t graph) {
  if (!has_graph_memory()) return;
  with_nodes([&](Process& process, GraphNodes& nodes, auto forget) {
    if (!nodes.instantiated(exec, graph, forget)) add_counter(process.dump.header()->dropped_others, 1);
  });
}

void note_graph_destroyed(std::uint64_t graph) {
  if (!has_graph_memory()) return;
  with_nodes([&](Process&, GraphNodes& nodes, auto forget) { nodes.graph_destroyed(graph, forget); });
}

void note_executable_destroyed(std::uint64_t exec) {
  if (!has_graph_memory()) return;
  with_nodes([&](Process&, GraphNodes& nodes, auto forget) { nodes.executable_destroyed(exec, forget); });
}

void note_memory_launched(std::uint64_t exec) {
  record_on_own_stack([&](Process& process) {
    const Ref stack = current_stack(process);
    const std::uint64_t now = now_ns(process);
    GraphNodes& nodes = process.tables.graphs;
    LiveChanges changes;
    {
      SpinGuard guard(nodes.lock());
      auto for_each = [&](bool frees, auto work) {
        nodes.for_each(exec, [&](const GraphNodes::Node& node) {
          if (node.frees != frees) return;
          if (AllocationRecord* record = record_of(process, node)) work(*record);
        });
      };
      for_each(false, [&](AllocationRecord& record) { allocate(process, record, stack, now, &changes); });
      for_each(true, [&](AllocationRecord& record) {
        if (is_physical(record)) count_free(thread_state.dump.counters, process.dump);
        release(process, record, stack, &changes);
      });
    }
    changes.apply(process);
  });
}

bool keep_for_launch(Process& process, Ref ref, Ref stack) {
  return on_own_stack([&] {
    LiveChanges changes;
    {
      SpinGuard guard(process.tables.graphs.lock());
      auto* record = process.dump.at<AllocationRecord>(ref);
      if ((record->flags & format::kFlagInGraph) == 0) return false;
      release(process, *record, stack, &changes);
      process.tables.live.put_back(ref, process.dump);
    }
    changes.apply(process);
    return true;
  });
}

}  // namespace culprit
