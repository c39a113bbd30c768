#include "interpose/events/graph_memory.h"

#include "interpose/events/graph_launches.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/process/current_place.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

void note_graph_allocation(Made made, std::uint64_t graph, bool captured) {
  made.kind = Kind::kGraphMemory;
  made.extra = 0;
  made.flags = format::kFlagNotPhysical | format::kFlagInGraph;
  note_made(made);
  with_graph_nodes([&](Process& process, GraphNodes& nodes) {
    graph_bytes_of(process).expect();
    const std::uint8_t device = made.where.by == Where::By::kDevice ? ContextTable::number_of(made.where.device)
                                                                    : current_place(process).device;
    const Ref ref = process.tables.live.find(kGraphMemorySpace, made.handle, device, process.dump);
    if (ref == 0) return;  // recording is off, or there was no room
    auto* record = process.dump.at<AllocationRecord>(ref);
    if (record->kind != Kind::kGraphMemory || nodes.add(graph, {made.handle, ref, false}, captured)) return;
    set_record_flags(*record, 0, format::kFlagInGraph);
    add_counter(process.dump.header()->dropped_others, 1);
  });
}

void finish_free_node(Ending& ending, CUresult status, std::uint64_t graph, bool captured) {
  if (status != CUDA_SUCCESS || ending.record() == 0) {
    ending.finish(status);
    return;
  }
  bool ends = false;
  with_graph_nodes([&](Process& process, GraphNodes& nodes) {
    const Ref ref = ending.record();
    auto* record = process.dump.at<AllocationRecord>(ref);
    ends = nodes.drop_own(graph, ref);
    if (ends) {
      set_record_flags(*record, 0, format::kFlagInGraph);
      return;
    }
    put_back_ended(process, ref);
    if (nodes.add(graph, {record->handle, ref, true}, captured)) return;
    add_counter(process.dump.header()->dropped_others, 1);
  });
  if (ends) ending.finish(status);
}

}  // namespace culprit
